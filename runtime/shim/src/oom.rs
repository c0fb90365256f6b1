//! Watching containers for kills by the OOM killer.
//!
//! One `TaskOOM` event is due each time that [`Watch::ready`] or [`Watch::check`] returns more than none, however
//! many kills it were: that is what containerd's own shim does (`internal/oom/watcher.go` of containerd 2.4 sends
//! one when the count has grown, `pkg/oom/v1/v1.go` one a signal), and the event says nothing but the container.

use cgroup::{Error, Location, OomWatch};
use rustix::event::PollFlags;
use rustix::io::Errno;
use sys::Context;

use crate::poller::{Interest, Poller, Source};

/// The part of [`Source::Oom`]: a watch has one descriptor.
const PART: u8 = 0;

/// Watches the cgroup of one container. To be begun after the container was created and before it is started, so that
/// its programs run under watch from their first instruction on.
#[derive(Debug)]
pub struct Watch {
    watch: OomWatch,
    is_registered: bool,
}

impl Watch {
    /// Starts to watch; `None` where there is no memory controller, which is no failure.
    ///
    /// # Errors
    /// [`Error::Gone`] if there is no such cgroup; failing system calls.
    pub fn begin(location: &Location) -> Result<Option<Self>, Error> {
        let watch = OomWatch::begin(location)?;
        Ok(watch.map(|watch| Self { watch, is_registered: false }))
    }

    /// Has the loop wait for kills, as [`Source::Oom`] of `key`.
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

    /// To be called when the descriptor is ready: how many kills there are that were not told of.
    ///
    /// When the cgroup was removed, or cannot be read, its file would be ready for ever: then nothing is waited for
    /// any longer.
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

    /// To be called when the container's first process has ended, before that is told: how many kills there are
    /// that were not told of. The kernel counts a kill before it kills, but announces it up to 10 ms later
    /// (CGROUP_FILE_NOTIFY_MIN_INTV), so that the loop may hear of the end first.
    ///
    /// # Errors
    /// Failing system calls.
    pub fn check(&mut self) -> Result<u64, Error> {
        Ok(self.watch.kills()?.unwrap_or(0))
    }

    /// Ends the watch. By its drop alone a worker's copy of the descriptor would stay in the loop's set.
    pub fn end(mut self, poller: &Poller) {
        self.deregister(poller);
    }

    fn deregister(&mut self, poller: &Poller) {
        if !core::mem::take(&mut self.is_registered) {
            return;
        }
        match poller.remove(self.watch.fd().0) {
            // ENOENT: it was not there, which is as well. Others are bugs of ours.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => debug_assert!(false, "epoll_ctl: {errno}"),
        }
    }
}

#[cfg(test)]
#[path = "oom_tests.rs"]
mod tests;
