//! What steps borrow: never freed, since an init that shares this process's memory reads it until its exec, and the
//! process lives for a plan or two.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

/// Keeps a string for the kernel.
pub fn c_str(text: CString) -> &'static CStr {
    Box::leak(text.into_boxed_c_str())
}

/// Keeps a text.
pub fn text(text: impl Into<String>) -> &'static str {
    text.into().leak()
}

/// Keeps a value.
pub fn one<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Keeps a list.
pub fn all<T>(list: Vec<T>) -> &'static [T] {
    list.leak()
}
