//! execve(2) with prepared arrays, and functions that close descriptors before an exec.

#[cfg(feature = "alloc")]
use alloc_crate::{boxed::Box, ffi::CString, vec::Vec};
use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use rustix::fd::RawFd;
#[cfg(feature = "alloc")]
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::io::Errno;

#[cfg(feature = "alloc")]
use crate::start::Args;

/// A NULL-terminated array of C strings for execve(2), with a spare entry for one string that only init can determine.
#[derive(Debug, Clone, Copy)]
pub struct StringArray<'a> {
    strings: &'a [&'a CStr],
    /// One pointer per string, then the spare entry, then NULL. Only the kernel reads through the pointers. They are
    /// atomic, because the parent and init may share the array.
    pointers: &'a [AtomicPtr<c_char>],
}

impl<'a> StringArray<'a> {
    /// Iterates over the strings without the spare entry.
    pub fn iter(&self) -> impl Iterator<Item = &'a CStr> + use<'a> {
        self.strings.iter().copied()
    }

    fn as_ptr(&self) -> *const AtomicPtr<c_char> {
        self.pointers.as_ptr()
    }
}

#[cfg(feature = "alloc")]
impl StringArray<'static> {
    /// Builds an array of `strings`, which are never freed, since the caller or its child executes a program.
    pub fn leaked(strings: Vec<CString>) -> Self {
        let strings: Vec<&'static CStr> =
            strings.into_iter().map(|string| &*Box::leak(string.into_boxed_c_str())).collect();
        let mut pointers = Vec::with_capacity(strings.len() + 2);
        pointers.extend(strings.iter().map(|s| AtomicPtr::new(s.as_ptr().cast_mut())));
        pointers.extend([AtomicPtr::default(), AtomicPtr::default()]);
        Self { strings: strings.leak(), pointers: pointers.leak() }
    }
}

/// Executes the program `path` in this process, with `spare`, if given, added to the environment. Returns only on
/// failure.
pub fn execve(
    path: &CStr,
    argv: &StringArray<'_>,
    envp: &StringArray<'_>,
    spare: Option<&CStr>,
) -> Errno {
    if let Some(place) = envp.pointers.get(envp.strings.len()) {
        let spare = spare.map_or(ptr::null(), CStr::as_ptr);
        place.store(spare.cast_mut(), Ordering::Relaxed);
    }
    // SAFETY: the arrays are NULL-terminated and hold NUL-terminated strings; `spare` outlives the call, and its entry
    // is overwritten before the array is used again.
    let ret = unsafe {
        crate::raw::call(
            crate::raw::nr::EXECVE,
            crate::raw::args![path.as_ptr(), argv.as_ptr(), envp.as_ptr()],
        )
    };
    match ret {
        Err(errno) => errno,
        Ok(_) => Errno::NOEXEC,
    }
}

/// Executes the file `fd` (execveat(2), AT_EMPTY_PATH) with this process's original arguments and environment, plus the
/// environment variable `spare` if given. Returns only on failure.
#[cfg(feature = "alloc")]
pub fn execve_fd(fd: BorrowedFd<'_>, args: Args, spare: Option<&CStr>) -> Errno {
    const AT_EMPTY_PATH: usize = 0x1000;
    let (argv, mut envp) = args.pointers();
    let longer: Vec<*const c_char>;
    if let Some(spare) = spare {
        let entries = args.environment().map(CStr::as_ptr);
        longer = entries.chain([spare.as_ptr(), ptr::null()]).collect();
        envp = longer.as_ptr();
    }
    // SAFETY: the arrays come from the initial stack or from its strings and `spare`: NULL-terminated, and valid until
    // the call is over.
    let ret = unsafe {
        crate::raw::call(
            crate::raw::nr::EXECVEAT,
            crate::raw::args![fd.as_raw_fd(), c"".as_ptr(), argv, envp, AT_EMPTY_PATH],
        )
    };
    match ret {
        Err(errno) => errno,
        Ok(_) => Errno::NOEXEC,
    }
}

/// Closes every descriptor from `first` on except `kept`.
///
/// # Safety
/// Values that own or borrow closed descriptors must not be used again, nor dropped.
///
/// # Errors
/// ENOSYS on kernels before 5.9.
pub unsafe fn close_all_but(first: u32, kept: &[RawFd]) -> Result<(), Errno> {
    let mut from = first;
    loop {
        let numbers = kept.iter().map(|fd| fd.unsigned_abs());
        let next = numbers.filter(|&fd| fd >= from).min();
        let to = next.map_or(u32::MAX, |next| next.saturating_sub(1));
        if next.is_none_or(|next| next > from) {
            // SAFETY: no pointers; the caller does not use closed descriptors again.
            unsafe { crate::raw::call(crate::raw::CLOSE_RANGE, [from, to, 0]) }?;
        }
        match next {
            Some(next) => from = next + 1,
            None => return Ok(()),
        }
    }
}

/// Closes descriptors. Consecutive numbers are closed by one call (close_range(2), Linux 5.9); on older kernels, each
/// descriptor is closed by a separate call.
#[cfg(feature = "alloc")]
pub fn close_each(fds: impl IntoIterator<Item = OwnedFd>) {
    let mut numbers: Vec<RawFd> = fds.into_iter().map(IntoRawFd::into_raw_fd).collect();
    numbers.sort_unstable();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        let (Some(&first), Some(&last)) = (run.first(), run.last()) else { continue };
        // SAFETY: no pointers; the caller has passed ownership of all the descriptors.
        let closed = first != last
            && unsafe { crate::raw::call(crate::raw::CLOSE_RANGE, [first, last, 0]) }.is_ok();
        if !closed {
            // SAFETY: the descriptors are open and have no other owner.
            run.iter().for_each(|&fd| drop(unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
}

/// Marks every descriptor from `first` on close-on-exec (close_range(2) with CLOSE_RANGE_CLOEXEC, Linux 5.11), so that
/// descriptors leaked by the caller do not reach the container (CVE-2024-21626).
///
/// # Errors
/// EINVAL on kernels before 5.11.
pub fn cloexec_from(first: u32) -> Result<(), Errno> {
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    // SAFETY: no pointers; descriptors stay open, so their owners may still use them.
    unsafe { crate::raw::call(crate::raw::CLOSE_RANGE, [first, u32::MAX, CLOSE_RANGE_CLOEXEC]) }
        .map(drop)
}

/// Closes every descriptor from `first` on (close_range(2)).
///
/// # Safety
/// As for [`close_all_but`].
///
/// # Errors
/// ENOSYS on kernels before 5.9.
pub(crate) unsafe fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: no pointers; the caller does not use closed descriptors again.
    unsafe { crate::raw::call(crate::raw::CLOSE_RANGE, [first, u32::MAX, 0]) }.map(drop)
}
