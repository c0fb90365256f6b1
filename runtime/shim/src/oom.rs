//! Watches containers for OOM kills.
//!
//! One `TaskOOM` event must be published each time that [`Watch::ready`] or [`Watch::check`] returns more than zero,
//! however many kills there were: containerd's own shim does the same (in containerd 2.4, `internal/oom/watcher.go`
//! sends one event when the count has grown, and `pkg/oom/v1/v1.go` one per signal), and the event contains only the
//! container.

use cgroup::{Error, Location, OomWatch};
use rustix::event::PollFlags;
use rustix::io::Errno;
use sys::Context;

use crate::poller::{Interest, Poller, Source};

/// The part of [`Source::Oom`]: a watch has one descriptor.
const PART: u8 = 0;

/// Watches the cgroup of one container. It must begin after the container is created and before it is started, so that
/// its programs are watched from their first instruction on.
#[derive(Debug)]
pub struct Watch {
    watch: OomWatch,
    is_registered: bool,
}

impl Watch {
    /// Starts watching; returns `None` without a memory controller, which is not an error.
    ///
    /// # Errors
    /// [`Error::Gone`] if the cgroup does not exist; failing system calls.
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
        poller.add(fd, Source::Oom(key, PART), interest).context("epoll_ctl", "OOM watch")?;
        self.is_registered = true;
        Ok(())
    }

    /// Returns the number of unreported kills; call it when the descriptor is ready.
    ///
    /// If the cgroup was removed, or its file cannot be read, the watch stops, because the descriptor would stay ready
    /// forever.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn ready(&mut self, poller: &Poller) -> Result<u64, Error> {
        match self.watch.kills() {
            Ok(Some(kills)) => Ok(kills),
            Ok(None) => {
                self.deregister(poller);
                Ok(0)
            }
            Err(error) => {
                self.deregister(poller);
                Err(error)
            }
        }
    }

    /// Returns the number of unreported kills; call it when the container's first process has exited, before the exit
    /// is reported. The kernel counts a kill before it kills, but notifies up to 10 ms later
    /// (CGROUP_FILE_NOTIFY_MIN_INTV), so the loop may see the exit first.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn check(&mut self) -> Result<u64, Error> {
        Ok(self.watch.kills()?.unwrap_or(0))
    }

    /// Ends the watch. Dropping it is not enough: a worker's copy of the descriptor would keep it in the poller.
    pub fn end(mut self, poller: &Poller) {
        self.deregister(poller);
    }

    fn deregister(&mut self, poller: &Poller) {
        if !core::mem::take(&mut self.is_registered) {
            return;
        }
        match poller.remove(self.watch.fd().0) {
            // ENOENT: it was not in the poller, which is fine. Other errors are bugs.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => debug_assert!(false, "epoll_ctl: {errno}"),
        }
    }
}

#[cfg(test)]
#[path = "oom_tests.rs"]
mod tests;
