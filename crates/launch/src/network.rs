//! The network maker: a process that makes the container's network namespace while the host actor and
//! init do everything else.
//!
//! A network namespace is the dearest of all to make, about half a millisecond, and nothing needs it
//! before sysfs is mounted. The maker shares the host actor's memory, hands the namespace to init over
//! a socket of their own, and ends. With no CPU to spare it costs a process; else it costs nothing that
//! anybody waits for.

use alloc::boxed::Box;
use core::ffi::c_void;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::SendFlags;
use sys::clone::{Child, CloneFlags, clone3_shared};
use sys::stack::Stack;

use crate::channel;

/// What the maker sends along with the namespace.
const MADE: u8 = b'n';

/// What the maker works with: its end of the socket, and the host's procfs.
struct Work {
    socket: RawFd,
    proc: RawFd,
}

/// Starts a maker; returns it and init's end of the socket.
///
/// # Errors
/// Those of socketpair(2) and clone3(2).
pub(crate) fn start(proc: BorrowedFd<'_>) -> Result<(Child, OwnedFd), Errno> {
    let (ours, theirs) = channel::pair()?;
    let stack = Stack::map()?;
    let work = Work { socket: ours.as_raw_fd(), proc: proc.as_raw_fd() };
    let work: &'static Work = Box::leak(Box::new(work));
    // SAFETY: `work` is never freed nor changed, and the maker does not allocate.
    let maker = unsafe {
        clone3_shared(CloneFlags::empty(), None, &stack, make, (&raw const *work).cast())
    }?;
    Ok((maker, theirs))
}

extern "C" fn make(argument: *const c_void) -> ! {
    // SAFETY: what `start` leaked.
    let work: &'static Work = unsafe { &*argument.cast() };
    // SAFETY: open in this process, which has its own descriptor table and closes neither.
    let (socket, proc) =
        unsafe { (BorrowedFd::borrow_raw(work.socket), BorrowedFd::borrow_raw(work.proc)) };
    let sent = match namespace(proc) {
        Ok(made) => sys::fdpass::send(socket, &[MADE], made.as_fd()),
        Err(errno) => {
            let errno = errno.raw_os_error().to_ne_bytes();
            rustix::net::send(socket, &errno, SendFlags::NOSIGNAL).map(drop)
        }
    };
    sys::start::exit(i32::from(sent.is_err()))
}

fn namespace(proc: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    sys::ns::unshare(CloneFlags::NEWNET)?;
    sys::net::loopback_up()?;
    openat(proc, c"self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// In init: waits for the namespace.
///
/// # Errors
/// What the maker met; EPIPE if it was killed.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut bytes = [0u8; 4];
    match sys::fdpass::receive(socket, &mut bytes)? {
        (1, Some(namespace)) => Ok(namespace),
        (4, None) => Err(Errno::from_raw_os_error(i32::from_ne_bytes(bytes))),
        _ => Err(Errno::PIPE),
    }
}
