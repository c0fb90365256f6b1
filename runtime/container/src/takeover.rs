//! Waiting until the command that is at work on a container is done with it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::{Errno, read};
use rustix::time::{ClockId, clock_gettime};
use sys::Context;

use crate::directory::path_in;
use crate::{Error, identity};

/// What a container's directory tells of.
pub(crate) struct Takeover {
    changes: Option<OwnedFd>,
    /// In milliseconds of the monotonic clock.
    deadline: i64,
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
        Self { changes, deadline: now().saturating_add(identity::PATIENCE) }
    }

    /// Waits for a change. False once [`identity::PATIENCE`] is over.
    pub fn wait(&self) -> Result<bool, Error> {
        let left = self.deadline.saturating_sub(now());
        if left <= 0 {
            return Ok(false);
        }
        let limit = Timespec { tv_sec: left / 1000, tv_nsec: left % 1000 * 1_000_000 };
        let changed = match &self.changes {
            Some(changes) => poll(&mut [PollFd::new(changes, PollFlags::IN)], Some(&limit)),
            None => poll(&mut [], Some(&limit)),
        };
        if let Some(changes) = &self.changes {
            let mut events = [0; 1024];
            while read(changes, &mut events).is_ok() {}
        }
        match changed {
            Err(Errno::INTR) => Ok(true),
            changed => Ok(changed.context("poll", "inotify")? > 0),
        }
    }
}

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}
