//! Standard output and error as `core::fmt` writers, unbuffered and retried until all is written.

use core::fmt;
use core::mem::ManuallyDrop;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, dup2, write};

/// Writes all of `bytes` to `fd`.
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

/// Standard input's descriptor.
pub fn stdin() -> BorrowedFd<'static> {
    standard(0)
}

/// Standard output's descriptor.
pub fn stdout() -> BorrowedFd<'static> {
    standard(1)
}

/// Standard error's descriptor.
pub fn stderr() -> BorrowedFd<'static> {
    standard(2)
}

/// Makes a standard stream what `by` is.
///
/// # Errors
/// Those of dup3(2).
pub fn replace(stream: BorrowedFd<'static>, by: BorrowedFd<'_>) -> Result<(), Errno> {
    // Not to be closed: it is a standard stream still.
    let mut number = ManuallyDrop::new(
        // SAFETY: 0, 1 or 2, which nobody owns.
        unsafe { OwnedFd::from_raw_fd(stream.as_raw_fd()) },
    );
    dup2(by, &mut number)
}

/// Opens /dev/null in place of standard streams that the caller closed: the next file opened would take
/// their number, and become a container's standard input or output.
pub fn ensure_open() {
    if (0..3).all(|fd| rustix::io::fcntl_getfd(standard(fd)).is_ok()) {
        return;
    }
    while let Ok(fd) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
        if fd.as_raw_fd() > 2 {
            return;
        }
        // Stays open for good.
        core::mem::forget(fd);
    }
}

fn standard(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: 0, 1 and 2 are never closed by us; were they closed by the caller, the
    // kernel answers EBADF, which the writers report.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// fd 1 as a writer. A broken pipe is reported as an error by the writer, not as a signal.
pub struct Stdout;
/// fd 2 as a writer.
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
