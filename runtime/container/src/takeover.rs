//! Waiting until another command has finished its work on a container.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
use sys::wait::{Deadline, ready};

use crate::directory::path_in;
use crate::{Error, identity};

/// The length of the first wait; it doubles after each wait without an event. The kernel notifies of the closing of a
/// file before it releases its lock (`__fput` of fs/file_table.c), and does not notify of the release.
const FIRST: Duration = Duration::from_millis(1);

/// Watches a container's directory.
pub(crate) struct Takeover {
    changes: Option<OwnedFd>,
    deadline: Deadline,
    next: Duration,
}

impl Takeover {
    /// Starts listening. Without inotify(7), of which users have a limited number of instances, it only sleeps.
    pub fn begin(directory: BorrowedFd<'_>) -> Self {
        let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if let Some(changes) = &changes {
            // A command closes the directory when it finishes or is killed; one that has created init writes the
            // record.
            let flags = WatchFlags::CLOSE_NOWRITE | WatchFlags::MODIFY;
            let _ = inotify::add_watch(changes, path_in(directory, "."), flags);
        }
        Self { changes, deadline: Deadline::after(identity::PATIENCE), next: FIRST }
    }

    /// Discards events until now. Reading the record changes nothing, but causes an event.
    pub fn forget(&self) {
        let mut events = [0; 1024];
        if let Some(changes) = &self.changes {
            while read(changes, &mut events).is_ok() {}
        }
    }

    /// Waits for an event, or for the time after which a change may have gone unnoticed. Returns false after
    /// [`identity::PATIENCE`].
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
