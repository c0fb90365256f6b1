//! The end of a FIFO that nobody reads at the time.
//!
//! The contents of a FIFO are gone when nobody has it open. If the program ends while containerd is being restarted,
//! our writing end keeps them until it is back. Then that is closed, and containerd reads to the end.

use alloc::format;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;

use crate::poller::{Interest, Poller, Source};

/// A FIFO that waits for a reader.
#[derive(Debug)]
pub(super) struct Parting {
    writer: OwnedFd,
    /// Tells of whoever opens it.
    watch: OwnedFd,
}

impl Parting {
    /// Closes a FIFO's writing end, or keeps it if there is no reader. There must be none of ours.
    pub fn begin(writer: OwnedFd, poller: &Poller, source: Source) -> Option<Self> {
        if has_reader(&writer) {
            return None;
        }
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        // The very FIFO, whatever has become of its name.
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        inotify::add_watch(&watch, path, WatchFlags::OPEN).ok()?;
        if has_reader(&writer) {
            return None;
        }
        poller.add(&watch, source, Interest::IN).ok()?;
        Some(Self { writer, watch })
    }

    /// Somebody has opened it. Whether it waits still.
    pub fn goes_on(&self) -> bool {
        let mut events = [0; 1024];
        while read(&self.watch, &mut events).is_ok() {}
        !has_reader(&self.writer)
    }

    /// Closes it.
    pub fn leave(self, poller: &Poller) {
        let _ = poller.remove(&self.watch);
    }
}

/// Whether somebody reads a FIFO: its writing end has an error otherwise.
fn has_reader(writer: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(writer, PollFlags::empty())];
    !matches!(poll(&mut fds, Some(&now)), Ok(1)) || !fds[0].revents().contains(PollFlags::ERR)
}
