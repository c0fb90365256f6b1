//! A descriptor that is not copied to workers.

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sys::Context;
use sys::fdpass::{receive_now, send};

/// An open file that is in no descriptor table, but in the receive queue of a socket (unix(7), SCM_RIGHTS).
///
/// After clone(2), a worker has a copy of every descriptor of the shim until it has closed them. A copy of a FIFO's
/// reading end counts as a reader. The shim would then close the writing end of a FIFO that containerd has not opened
/// yet, and containerd's open(2) would block forever.
#[derive(Debug)]
pub(super) struct Held {
    socket: OwnedFd,
}

impl Held {
    /// Moves `fd` into the queue.
    ///
    /// # Errors
    /// Those of socketpair(2) and sendmsg(2).
    pub fn hold(fd: OwnedFd) -> Result<Self, sys::Error> {
        let flags = SocketFlags::CLOEXEC;
        let (sender, socket) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
            .context("socketpair", "FIFO")?;
        send(&sender, &[0], fd.as_fd()).context("sendmsg", "FIFO")?;
        Ok(Self { socket })
    }

    /// Closes the file. No reference remains, even if workers have copies of the socket.
    pub fn close(self) {
        drop(receive_now(&self.socket, &mut [0]));
    }
}
