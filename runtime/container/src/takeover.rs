//! Waiting until the command that is at work on a container is done with it.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
use sys::wait::{Deadline, ready};

use crate::directory::path_in;
use crate::{Error, identity};

/// How long the first wait is. Each that nothing ends is followed by one of twice its length: the kernel tells of
/// the close of a file before it lets go of its lock (`__fput` of fs/file_table.c), and tells of that nowhere.
const FIRST: Duration = Duration::from_millis(1);

/// What a container's directory tells of.
pub(crate) struct Takeover {
    changes: Option<OwnedFd>,
    deadline: Deadline,
    next: Duration,
}

impl Takeover {
    /// Listens from now on. Without inotify(7), of which users have a limited number, only time passes.
    pub fn begin(directory: BorrowedFd<'_>) -> Self {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if let Some(changes) = &changes {
            // A command that is done, or killed, closes it; one that has made init writes the record.
            let flags = WatchFlags::CLOSE_NOWRITE | WatchFlags::MODIFY;
            let _ = inotify::add_watch(changes, path_in(directory, "."), flags);
        }
        Self { changes, deadline: Deadline::after(identity::PATIENCE), next: FIRST }
    }

    /// Forgets what has changed until now. To read the record changes nothing, and yet is told of here.
    pub fn forget(&self) {
        let mut events = [0; 1024];
        if let Some(changes) = &self.changes {
            while read(changes, &mut events).is_ok() {}
        }
    }

    /// Waits for a change, or for as long as one may stay unseen. False once [`identity::PATIENCE`] is over.
    pub fn wait(&mut self) -> Result<bool, Error> {
        if self.deadline.left().is_none() {
            return Ok(false);
        }
        let soon = Deadline::after(self.next).min(self.deadline);
        let changed = match &self.changes {
            Some(changes) => ready(&mut [PollFd::new(changes, PollFlags::IN)], soon)?,
            None => ready(&mut [], soon)?,
        };
        self.next = if changed { FIRST } else { self.next.saturating_mul(2) };
        Ok(true)
    }
}
