//! A FIFO that had no reader when its output ended.
//!
//! The contents of a FIFO are lost when no process has it open. If the program exits while containerd is being
//! restarted, the shim's writing end preserves the contents until containerd has opened the FIFO again. Then the shim
//! closes its end, and containerd reads to the end.

use alloc::format;
use alloc::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;

use crate::poller::{Interest, Poller, Source};

/// A FIFO that waits for a reader.
#[derive(Debug)]
pub(super) struct UnreadFifo {
    writer: Rc<OwnedFd>,
    /// The inotify descriptor, which reports when a process opens the FIFO.
    watch: OwnedFd,
}

impl UnreadFifo {
    /// Closes a FIFO's writing end if the FIFO has a reader; otherwise returns a value that keeps the writing end open.
    /// The shim's own reader must already be closed.
    pub fn begin(writer: Rc<OwnedFd>, poller: &Poller, source: Source) -> Option<Self> {
        if has_reader(&writer) {
            return None;
        }
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        // This path refers to the same FIFO even if it was renamed.
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        inotify::add_watch(&watch, path, WatchFlags::OPEN).ok()?;
        if has_reader(&writer) {
            return None;
        }
        poller.add(&watch, source, Interest::IN).ok()?;
        Some(Self { writer, watch })
    }

    /// Handles the report that a process has opened the FIFO. Returns whether the FIFO still has no reader: the process
    /// may have opened it for writing, or may have exited.
    pub fn is_unread(&self) -> bool {
        let mut events = [0; 1024];
        while read(&self.watch, &mut events).is_ok() {}
        !has_reader(&self.writer)
    }

    /// Closes the writing end, and removes the watch from the poller.
    pub fn leave(self, poller: &Poller) {
        let _ = poller.remove(&self.watch);
    }
}

/// Returns whether a FIFO has a reader. If it has none, poll(2) reports an error for its writing end.
fn has_reader(writer: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut fds = [PollFd::new(writer, PollFlags::empty())];
    !matches!(poll(&mut fds, Some(&now)), Ok(1)) || !fds[0].revents().contains(PollFlags::ERR)
}
