//! The agent's side of a seccomp listener (seccomp_unotify(2)). The runtime has no use for it: it makes
//! listeners, and hands them on.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

const RECEIVE: usize = 0xc050_2100;
const SEND: usize = 0xc018_2101;
const CONTINUE: u32 = 1;

/// `struct seccomp_notif`: a system call that waits for an answer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notification {
    /// What the answer refers to.
    pub id: u64,
    /// Who calls, as the listener's reader numbers it.
    pub pid: u32,
    flags: u32,
    /// The system call's number.
    pub number: i32,
    /// AUDIT_ARCH_*
    pub arch: u32,
    instruction: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// What becomes of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out (Linux 5.5).
    Continue,
    /// It fails.
    Fail(Errno),
    /// It is as if it had returned this.
    Return(i64),
}

/// Waits for a system call that asks.
///
/// # Errors
/// ENOENT if the caller was interrupted meanwhile.
pub fn receive(listener: impl AsFd) -> Result<Notification, Errno> {
    // The kernel insists on zeroes.
    let mut notification = Notification::default();
    let fd = listener.as_fd().as_raw_fd() as usize;
    // SAFETY: the call writes one struct seccomp_notif, whose layout and size (80, in the number of the
    // request) this is.
    unsafe {
        let into = (&raw mut notification).expose_provenance();
        crate::raw::call(crate::raw::nr::IOCTL, [fd, RECEIVE, into])
    }?;
    Ok(notification)
}

/// Answers it.
///
/// # Errors
/// ENOENT if the caller is gone.
pub fn answer(listener: impl AsFd, id: u64, answer: Answer) -> Result<(), Errno> {
    let mut response = Response { id, value: 0, error: 0, flags: 0 };
    match answer {
        Answer::Continue => response.flags = CONTINUE,
        Answer::Fail(errno) => response.error = -errno.raw_os_error(),
        Answer::Return(value) => response.value = value,
    }
    let fd = listener.as_fd().as_raw_fd() as usize;
    // SAFETY: the call reads one struct seccomp_notif_resp of 24 bytes.
    unsafe {
        crate::raw::call(
            crate::raw::nr::IOCTL,
            [fd, SEND, (&raw const response).expose_provenance()],
        )
    }
    .map(drop)
}
