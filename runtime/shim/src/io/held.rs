//! A file without a descriptor, so that workers get no copy of it.

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sys::Context;
use sys::fdpass::{receive_now, send};

/// An open file that is in no descriptor table, but in a socket's receive queue (unix(7), SCM_RIGHTS).
///
/// After clone(2), a worker has copies of all descriptors of the shim until it closes them. A copy of a FIFO's reading
/// end counts as a reader. Because of such a copy, the shim would close the writing end of a FIFO that containerd has
/// not opened yet, and containerd's open(2) would block forever.
#[derive(Debug)]
pub(super) struct Held {
    socket: OwnedFd,
}

impl Held {
    /// Moves `fd` into a socket's receive queue.
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

    /// Closes the file. No reference to the open file remains, even if workers have copies of the socket.
    pub fn close(self) {
        drop(receive_now(&self.socket, &mut [0]));
    }
}
