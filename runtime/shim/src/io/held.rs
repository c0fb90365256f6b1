//! A descriptor of which workers get no copy.

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sys::Context;
use sys::fdpass::{receive_now, send};

/// An open file that is in no descriptor table, but in the receive queue of a socket (unix(7), SCM_RIGHTS).
///
/// A worker has a copy of every descriptor of the shim from its clone(2) on until it has closed the copies. A copy of a
/// FIFO's reading end looks like a reader. If the shim therefore closed the writing end of a FIFO that containerd has
/// yet to open, containerd's open(2) would wait forever.
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

    /// Closes the file. Afterwards nothing refers to it, even if workers have copies of the socket.
    pub fn close(self) {
        drop(receive_now(&self.socket, &mut [0]));
    }
}
