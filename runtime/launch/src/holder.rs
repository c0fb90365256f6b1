//! The process that keeps a scope of systemd alive until init is in it (`init::holder`).

use init::{holder, hooks};
use rustix::process::Pid;
use sys::Context;
use sys::clone::Child;

/// A process that waits. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    /// Makes it.
    pub fn start() -> Result<Self, sys::Error> {
        // SAFETY: the process has one thread.
        unsafe { holder::begin() }.context("clone3", "holder of the scope").map(Self)
    }

    /// Its pid.
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
