//! A FIFO that has no reader when its output ends.
//!
//! The contents of a FIFO are lost when no process has it open. If the program exits while containerd is being
//! restarted, our writing end keeps the contents until containerd has opened the FIFO again. Then our end is closed,
//! and containerd reads to the end.

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
    /// Reports when a process opens the FIFO.
    watch: OwnedFd,
}

impl Parting {
    /// Closes a FIFO's writing end, or keeps it if there is no reader. Our own reader must be closed.
    pub fn begin(writer: OwnedFd, poller: &Poller, source: Source) -> Option<Self> {
        if has_reader(&writer) {
            return None;
        }
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        // The same FIFO, even if its name has changed.
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        inotify::add_watch(&watch, path, WatchFlags::OPEN).ok()?;
        if has_reader(&writer) {
            return None;
        }
        poller.add(&watch, source, Interest::IN).ok()?;
        Some(Self { writer, watch })
    }

    /// Handles an opening of the FIFO. Returns whether it still waits for a reader.
    pub fn goes_on(&self) -> bool {
        let mut events = [0; 1024];
        while read(&self.watch, &mut events).is_ok() {}
        !has_reader(&self.writer)
    }

    /// Closes the writing end.
    pub fn leave(self, poller: &Poller) {
        let _ = poller.remove(&self.watch);
    }
}

/// Returns whether a FIFO has a reader: otherwise poll(2) reports an error for its writing end.
fn has_reader(writer: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(writer, PollFlags::empty())];
    !matches!(poll(&mut fds, Some(&now)), Ok(1)) || !fds[0].revents().contains(PollFlags::ERR)
}
