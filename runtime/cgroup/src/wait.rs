//! Waiting, always with a deadline.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
pub(crate) use sys::wait::{Deadline, ready};

use crate::directory::{Directory, File};
use crate::{Error, parse};

/// The time after which a change of cgroup.events must have been notified (CGROUP_FILE_NOTIFY_MIN_INTV of
/// kernel/cgroup/cgroup.c is 10 ms).
const ANNOUNCED: Duration = Duration::from_millis(20);

/// Waits until `key` of cgroup.events has `value` (Linux 5.2 for `frozen`). Returns false after the deadline.
///
/// # Errors
/// Failing system calls; ENODEV if the cgroup is removed meanwhile.
pub(crate) fn event(
    directory: &Directory,
    key: &str,
    value: u64,
    deadline: Deadline,
) -> Result<bool, Error> {
    let file = directory.file("cgroup.events", OFlags::RDONLY)?;
    let mut page = [0; 256];
    let mut change = [PollFd::new(&file, PollFlags::PRI)];
    // Reading arms the file: a later change makes it ready with POLLPRI.
    let soon = Deadline::after(ANNOUNCED);
    while parse::key(file.reread(&mut page)?, key) != Some(value) {
        if !ready(&mut change, soon)? {
            return event_or_end(directory, &file, key, value, deadline);
        }
    }
    Ok(true)
}

/// Continues the wait of [`event`] if the value does not change within [`ANNOUNCED`]. The cgroup may be removed
/// meanwhile. The cgroup's own files do not notify of the removal, nor of a change suppressed until then; the parent
/// directory does.
#[cold]
fn event_or_end(
    directory: &Directory,
    file: &File<'_>,
    key: &str,
    value: u64,
    deadline: Deadline,
) -> Result<bool, Error> {
    // The user's inotify instances may be used up. Then this waits until the deadline, usually in vain.
    let removals = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
    if let (Some(removals), Some((above, _))) = (&removals, directory.path().rsplit_once('/')) {
        let _ = inotify::add_watch(removals, above, WatchFlags::DELETE);
    }
    let mut page = [0; 256];
    let mut events = [0; 1024];
    while parse::key(file.reread(&mut page)?, key) != Some(value) {
        let change = PollFd::new(file, PollFlags::PRI);
        let is_over = match &removals {
            Some(removals) => {
                !ready(&mut [change, PollFd::new(removals, PollFlags::IN)], deadline)?
            }
            None => !ready(&mut [change], deadline)?,
        };
        if is_over {
            return Ok(false);
        }
        if let Some(removals) = &removals {
            while read(removals, &mut events).is_ok() {}
        }
    }
    Ok(true)
}

/// Waits a moment, for the few states of cgroup v1 without notification.
pub(crate) fn moment(duration: Duration) {
    // Interrupted or not, the caller checks again.
    let _ = ready(&mut [], Deadline::after(duration));
}
