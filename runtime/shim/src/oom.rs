//! Watches containers for OOM kills.
//!
//! Each time that [`Watch::ready`] or [`Watch::check`] returns more than zero, the caller publishes one `TaskOOM`
//! event, whatever the number of kills. containerd's own shim does the same: in containerd 2.4,
//! `internal/oom/watcher.go` sends one event when the count has grown, and `pkg/oom/v1/v1.go` one per notification. The
//! event contains nothing but the container's id.

use cgroup::{Error, Location, OomWatch};
use rustix::event::PollFlags;
use rustix::io::Errno;
use sys::Context;

use crate::poller::{Interest, Poller, Source};

/// A watch on the cgroup of one container. It must begin after the container is created and before it is started, so
/// that the watch covers every instruction of its programs.
#[derive(Debug)]
pub struct Watch {
    watch: OomWatch,
    is_registered: bool,
}

impl Watch {
    /// Starts watching; returns `None` if there is no memory controller, which is not an error.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist; otherwise, if a system call fails.
    pub fn begin(location: &Location) -> Result<Option<Self>, Error> {
        let watch = OomWatch::begin(location)?;
        Ok(watch.map(|watch| Self { watch, is_registered: false }))
    }

    /// Adds the watch to the poller, as [`Source::Oom`] of `key`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn register(&mut self, poller: &Poller, key: u32) -> Result<(), sys::Error> {
        let (fd, flags) = self.watch.fd();
        let interest = if flags.contains(PollFlags::PRI) { Interest::PRI } else { Interest::IN };
        poller.add(fd, Source::Oom(key), interest).context("epoll_ctl", "OOM watch")?;
        self.is_registered = true;
        Ok(())
    }

    /// Returns the number of unreported kills; call it when the descriptor is ready.
    ///
    /// If the cgroup was removed, or its file cannot be read, the watch is removed from the poller, which would
    /// otherwise report it again and again.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn ready(&mut self, poller: &Poller) -> Result<u64, Error> {
        let kills = self.watch.kills();
        if !matches!(kills, Ok(Some(_))) {
            self.deregister(poller);
        }
        Ok(kills?.unwrap_or(0))
    }

    /// Returns the number of unreported kills; call it when the container's init has exited, before the exit is
    /// reported. The kernel counts a kill before it kills the process, but notifies up to 10 ms later
    /// (CGROUP_FILE_NOTIFY_MIN_INTV), so the loop may see the exit before the notification.
    ///
    /// # Errors
    /// If a system call fails.
    pub fn check(&mut self) -> Result<u64, Error> {
        Ok(self.watch.kills()?.unwrap_or(0))
    }

    /// Ends the watch. Dropping it is not enough: a copy of the descriptor in a worker would keep the descriptor in the
    /// poller.
    pub fn end(mut self, poller: &Poller) {
        self.deregister(poller);
    }

    fn deregister(&mut self, poller: &Poller) {
        if !core::mem::take(&mut self.is_registered) {
            return;
        }
        match poller.remove(self.watch.fd().0) {
            // ENOENT means that the descriptor was not in the poller, which is fine. Other errors are bugs.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => debug_assert!(false, "epoll_ctl: {errno}"),
        }
    }
}

#[cfg(test)]
#[path = "oom_tests.rs"]
mod tests;
