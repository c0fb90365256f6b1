//! The process for which systemd creates a scope (`init::holder`).

use init::{holder, hooks};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::Pid;
use sys::Context;
use sys::clone::Child;

/// A process that only waits. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    /// Creates a holder inside the scope.
    pub fn start() -> Result<Self, sys::Error> {
        holder::begin().context("clone3", "holder of the scope").map(Self)
    }

    /// Creates a holder that systemd moves into the scope, and that waits for systemd itself if this process exits.
    pub fn start_outside(bus: BorrowedFd<'_>) -> Result<Self, sys::Error> {
        holder::begin_outside(bus).context("clone3", "holder of the scope").map(Self)
    }

    /// Returns the holder's pid.
    pub fn pid(&self) -> Pid {
        self.0.pid
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = sys::signal::send(self.0.pidfd.as_fd(), 9);
        let _ = hooks::wait(&self.0.pidfd);
    }
}
