//! The agent's side of a seccomp listener (seccomp_unotify(2)). The runtime does not use this module: it only creates
//! listeners and sends them to agents.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

const RECEIVE: usize = 0xc050_2100;
const SEND: usize = 0xc018_2101;
const CONTINUE: u32 = 1;

/// `struct seccomp_notif`: a system call that waits for a response.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notification {
    /// The notification's id, for the response.
    pub id: u64,
    /// The pid of the process that made the call, in the PID namespace of the process that reads the listener.
    pub pid: u32,
    flags: u32,
    /// The system call's number.
    pub number: i32,
    /// AUDIT_ARCH_*
    pub arch: u32,
    instruction: u64,
    /// The system call's arguments.
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

/// The response to a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The kernel executes the call (Linux 5.5).
    Continue,
    /// The call fails with this errno.
    Fail(Errno),
    /// The call returns this value.
    Return(i64),
}

/// Waits for a notification.
///
/// # Errors
/// ENOENT if a signal has meanwhile interrupted the system call of the notification.
pub fn receive(listener: impl AsFd) -> Result<Notification, Errno> {
    // The kernel requires that the structure is zeroed.
    let mut notification = Notification::default();
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the call writes one struct seccomp_notif, which has this layout and size (80, encoded in the request
    // number).
    unsafe {
        crate::raw::call(
            crate::raw::nr::IOCTL,
            crate::raw::args![fd, RECEIVE, &raw mut notification],
        )
    }?;
    Ok(notification)
}

/// Responds to a notification.
///
/// # Errors
/// ENOENT if the process that made the system call has exited, or no longer waits.
pub fn answer(listener: impl AsFd, id: u64, answer: Answer) -> Result<(), Errno> {
    let mut response = Response { id, value: 0, error: 0, flags: 0 };
    match answer {
        Answer::Continue => response.flags = CONTINUE,
        Answer::Fail(errno) => response.error = -errno.raw_os_error(),
        Answer::Return(value) => response.value = value,
    }
    let fd = listener.as_fd().as_raw_fd();
    // SAFETY: the call reads one struct seccomp_notif_resp of 24 bytes.
    unsafe {
        crate::raw::call(crate::raw::nr::IOCTL, crate::raw::args![fd, SEND, &raw const response])
    }
    .map(drop)
}
