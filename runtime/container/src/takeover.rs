//! Waits until another command has finished its work on a container.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
use sys::wait::{Deadline, ready};

use crate::directory::path_in;
use crate::{Error, identity};

/// The length of the first wait; the length doubles after each wait without an event. Events alone are not enough: the
/// kernel reports that a file is closed before it releases the file's lock (`__fput` of fs/file_table.c), and does not
/// report the release.
const FIRST: Duration = Duration::from_millis(1);

/// Watches a container's directory for signs that another command has finished.
pub(crate) struct Takeover {
    changes: Option<OwnedFd>,
    deadline: Deadline,
    next: Duration,
}

impl Takeover {
    /// Starts watching. If inotify(7) is unavailable because the user has too many instances, `wait` only sleeps.
    pub fn begin(directory: BorrowedFd<'_>) -> Self {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if let Some(changes) = &changes {
            // A command closes the directory when it finishes or is killed. A command that has created init writes
            // the record.
            let flags = WatchFlags::CLOSE_NOWRITE | WatchFlags::MODIFY;
            let _ = inotify::add_watch(changes, path_in(directory, "."), flags);
        }
        Self { changes, deadline: Deadline::after(identity::PATIENCE), next: FIRST }
    }

    /// Discards all pending events, because this process itself has caused one of them by reading
    /// the record.
    pub fn forget(&self) {
        let mut events = [0; 1024];
        if let Some(changes) = &self.changes {
            while read(changes, &mut events).is_ok() {}
        }
    }

    /// Waits for an event, but only for a limited time, because a release of the lock causes no event. Returns false
    /// once [`identity::PATIENCE`] has passed since `begin`.
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
