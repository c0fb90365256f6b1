//! Data borrowed by steps. The data is never freed: an init that shares this process's memory reads
//! the data until init's exec, and this process compiles at most two plans.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::CStr;

/// Leaks a string for the kernel.
pub fn c_str(text: CString) -> &'static CStr {
    Box::leak(text.into_boxed_c_str())
}

/// Leaks a text.
pub fn text(text: impl Into<String>) -> &'static str {
    text.into().leak()
}

/// Leaks a value.
pub fn one<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Leaks a list.
pub fn all<T>(list: Vec<T>) -> &'static [T] {
    list.leak()
}
