//! execve(2) with arrays laid out beforehand, and the sweep of descriptors before it.

use alloc_crate::ffi::CString;
use alloc_crate::vec::Vec;
use core::ffi::{CStr, c_char};
use core::ptr;
use rustix::io::Errno;

/// A NULL-terminated array of C strings as execve(2) wants it, with its strings.
#[derive(Debug)]
pub struct StringArray {
    /// Owns what `pointers` point to; a CString's buffer stays where it is when the vector grows.
    strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl StringArray {
    /// Lays out `strings`.
    pub fn new(strings: Vec<CString>) -> Self {
        let mut pointers = Vec::with_capacity(strings.len() + 1);
        pointers.extend(strings.iter().map(|s| s.as_ptr()));
        pointers.push(ptr::null());
        Self { strings, pointers }
    }

    /// Appends one string.
    pub fn push(&mut self, string: CString) {
        self.pointers.pop();
        self.pointers.push(string.as_ptr());
        self.pointers.push(ptr::null());
        self.strings.push(string);
    }

    /// The strings.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        self.strings.iter().map(CString::as_c_str)
    }
}

/// Replaces the process by `path`. Returns only if that failed.
pub fn execve(path: &CStr, argv: &StringArray, envp: &StringArray) -> Errno {
    // SAFETY: the arrays are NULL-terminated and own their NUL-terminated strings.
    let ret = unsafe {
        crate::raw::call(
            crate::raw::nr::EXECVE,
            [path.as_ptr().addr(), argv.pointers.as_ptr().addr(), envp.pointers.as_ptr().addr()],
        )
    };
    match ret {
        Err(errno) => errno,
        Ok(_) => Errno::NOEXEC,
    }
}

/// Marks every descriptor from `first` on close-on-exec (close_range(2), CLOEXEC since Linux 5.11):
/// whatever the caller leaked to us does not reach the container (CVE-2024-21626).
///
/// # Errors
/// EINVAL on kernels before 5.11.
pub fn cloexec_from(first: u32) -> Result<(), Errno> {
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    // SAFETY: no pointers; descriptors stay open, so no owner is surprised.
    unsafe {
        crate::raw::call(
            crate::raw::CLOSE_RANGE,
            [first as usize, u32::MAX as usize, CLOSE_RANGE_CLOEXEC],
        )
    }
    .map(drop)
}
