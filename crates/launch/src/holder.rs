//! The process that keeps a scope of systemd alive until init is in it.
//!
//! systemd makes a scope around a process. Were that init, its cgroup would be there only after the clone:
//! too late for a birth inside, for limits that hold from its first instruction, and on cgroup v1 for
//! the mounts that show the cgroup's directories. So it is a process that does nothing but wait for
//! its end, which comes once init is there, or with the host actor's own.

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};

use crate::hooks;

/// A process that waits. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Holder(Child);

impl Holder {
    /// Makes it.
    pub fn start() -> Result<Self, sys::Error> {
        let parent = getpid();
        // SAFETY: the process has one thread.
        match unsafe { clone3(CloneFlags::empty(), None) }
            .context("clone3", "holder of the scope")?
        {
            Clone::Parent(child) => Ok(Self(child)),
            Clone::Child => wait_for_the_end(parent),
        }
    }

    /// Its pid.
    pub fn pid(&self) -> Pid {
        self.0.pid
    }
}

fn wait_for_the_end(parent: Pid) -> ! {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // The host actor may have ended before that was set.
    if bound.is_err() || getppid() != Some(parent) {
        sys::start::exit(1);
    }
    loop {
        rustix::event::pause();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = sys::signal::send(rustix::fd::AsFd::as_fd(&self.0.pidfd), 9);
        let _ = hooks::wait(&self.0.pidfd);
    }
}
