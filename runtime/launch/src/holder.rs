//! The process for which systemd creates a scope (`init::holder`).

use core::time::Duration;

use cgroup::{Cgroup, ScopeRequest};
use init::{holder, hooks};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Pid;
use sys::Context;
use sys::clone::Child;

use crate::Error;

const SIGKILL: i32 = 9;

/// A process that only waits. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Holder {
    child: Child,
    /// Contains a byte when the holder has closed this process's descriptors.
    closed: Option<OwnedFd>,
}

impl Holder {
    /// Creates a holder inside the scope.
    pub fn start() -> Result<Self, sys::Error> {
        let child = holder::begin().context("clone3", "holder of the scope")?;
        Ok(Self { child, closed: None })
    }

    /// Creates a holder for the scope of `request`, whose directory is that of `cgroup`. systemd moves it into the scope.
    /// If this process exits before systemd's job has ended, the holder sets the limits again, or ends a container that
    /// systemd refuses after all. It holds the lock of the cgroup's limits.
    pub fn start_outside(request: &ScopeRequest<'_>, cgroup: &Cgroup) -> Result<Self, Error> {
        let lock = cgroup.lock_limits()?;
        let directory = cgroup.dir_fd().ok_or(sys::Error::new("open", "cgroup", Errno::NOENT))?;
        let kept = [lock.as_fd(), directory];
        let is_known = || request.is_known();
        let begun = holder::begin_outside(request.socket(), kept, is_known, |has_started| {
            // Nobody is left who could be told of a failure.
            let _ = match has_started {
                true => request.limit(cgroup),
                false => cgroup.kill_all(SIGKILL),
            };
        });
        let (child, closed) = begun.context("clone3", "holder of the scope")?;
        Ok(Self { child, closed: Some(closed) })
    }

    /// Waits until the holder has closed the descriptors that it had from this process. Else the container would stay
    /// locked when this process ends.
    ///
    /// # Errors
    /// ESRCH if the holder was killed.
    pub fn await_closed(&mut self) -> Result<(), sys::Error> {
        let Some(closed) = self.closed.take() else { return Ok(()) };
        match rustix::io::retry_on_intr(|| rustix::io::read(&closed, &mut [0; 1])) {
            Ok(1) => Ok(()),
            _ => Err(sys::Error::new("wait", "holder of the scope", Errno::SRCH)),
        }
    }

    /// Returns whether the holder has ended. Only a kill by somebody else ends it.
    pub fn has_ended(&self) -> bool {
        sys::pidfd::wait_for_exit(&self.child.pidfd, Duration::ZERO)
    }

    /// Kills the holder.
    pub fn end(&self) {
        let _ = sys::signal::send(self.child.pidfd.as_fd(), SIGKILL);
        let _ = hooks::wait(&self.child.pidfd);
    }

    /// Returns the holder's pid.
    pub fn pid(&self) -> Pid {
        self.child.pid
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.end();
    }
}
