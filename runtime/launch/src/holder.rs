//! The process that keeps a systemd scope alive until init is in it (`init::holder`).

use init::{holder, hooks};
use rustix::process::Pid;
use sys::Context;
use sys::clone::Child;

/// A process that only waits. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    /// Creates the process.
    pub fn start() -> Result<Self, sys::Error> {
        holder::begin().context("clone3", "holder of the scope").map(Self)
    }

    /// Returns the holder's pid.
    pub fn pid(&self) -> Pid {
        self.0.pid
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = sys::signal::send(rustix::fd::AsFd::as_fd(&self.0.pidfd), 9);
        let _ = hooks::wait(&self.0.pidfd);
    }
}
