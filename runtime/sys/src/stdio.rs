//! Standard output and error as unbuffered `core::fmt` writers, which retry until everything is written.

use core::fmt;
use core::mem::ManuallyDrop;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags, dup2, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd, write};

/// Writes all of `bytes` to `fd`.
///
/// # Errors
/// Those of write(2) except EINTR; EIO if write(2) returns 0.
pub fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(fd.as_fd(), bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns standard input's descriptor.
pub fn stdin() -> BorrowedFd<'static> {
    standard(0)
}

/// Returns standard output's descriptor.
pub fn stdout() -> BorrowedFd<'static> {
    standard(1)
}

/// Returns standard error's descriptor.
pub fn stderr() -> BorrowedFd<'static> {
    standard(2)
}

/// Takes ownership of an inherited descriptor, whose number comes from the command line, and makes
/// it close-on-exec. For a standard stream, returns a duplicate instead.
///
/// # Errors
/// EBADF if this process has not inherited such a descriptor.
pub fn take_inherited(number: i32) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: the number is only borrowed for the calls below, which fail with EBADF if nothing is open there.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    // Exec would have closed an inherited descriptor with this flag, so this program has opened the descriptor itself.
    if fcntl_getfd(borrowed)?.contains(FdFlags::CLOEXEC) {
        return Err(Errno::BADF);
    }
    if number <= 2 {
        return fcntl_dupfd_cloexec(borrowed, 3);
    }
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: every descriptor that this program opens has the flag from the beginning, so no value
    // owns this one. The flag is set now, so the descriptor cannot be taken twice.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Replaces a standard stream by `by`.
///
/// # Errors
/// Those of dup2(2).
pub fn replace(stream: BorrowedFd<'static>, by: BorrowedFd<'_>) -> Result<(), Errno> {
    // The number must not be closed: it is still a standard stream.
    let mut number = ManuallyDrop::new(
        // SAFETY: the number is 0, 1 or 2, which no value owns.
        unsafe { OwnedFd::from_raw_fd(stream.as_raw_fd()) },
    );
    dup2(by, &mut number)
}

/// Opens /dev/null for each standard stream that is closed when the program starts. Otherwise the next file to be
/// opened would get the free number, and so become the container's standard input, output or error.
pub fn ensure_open() {
    if (0..3).all(|fd| fcntl_getfd(standard(fd)).is_ok()) {
        return;
    }
    while let Ok(fd) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            return;
        }
        // Stays open.
        core::mem::forget(fd);
    }
}

fn standard(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: this process never closes 0, 1 and 2. If they were closed when it started, calls fail with EBADF, which
    // the writers report.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A writer for fd 1. A broken pipe kills the process by SIGPIPE; if that signal is blocked or ignored, the write
/// fails.
pub struct Stdout;
/// A writer for fd 2.
pub struct Stderr;

impl fmt::Write for Stdout {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        write_all(stdout(), s.as_bytes()).map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Stderr {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        write_all(stderr(), s.as_bytes()).map_err(|_| fmt::Error)
    }
}
