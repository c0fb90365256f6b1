//! Functions that wait for an event, until a deadline at the latest.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
pub(crate) use sys::wait::{Deadline, ready};

use crate::directory::{Directory, File};
use crate::{Error, parse};

/// The time within which the kernel reports a change of cgroup.events (CGROUP_FILE_NOTIFY_MIN_INTV in
/// kernel/cgroup/cgroup.c is 10 ms).
const ANNOUNCED: Duration = Duration::from_millis(20);

/// The time limit for killed processes to exit. They exit at once unless they are in uninterruptible sleep, for example
/// because of an NFS server that does not answer.
pub(crate) const DYING: Duration = Duration::from_secs(10);

/// Waits until `key` in cgroup.events has the value `value` (`frozen` exists since Linux 5.2). Returns false if the
/// deadline passes.
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
    // After this read, poll(2) reports a later change as POLLPRI.
    let soon = Deadline::after(ANNOUNCED);
    while parse::key(file.reread(&mut page)?, key) != Some(value) {
        if !ready(&mut change, soon)? {
            return event_or_end(directory, &file, key, value, deadline);
        }
    }
    Ok(true)
}

/// Continues the wait of [`event`] if there was no change within [`ANNOUNCED`]. The cgroup may be removed during this
/// wait. The cgroup's own files do not report the removal. They also do not report a change if the kernel has delayed
/// the notification and the cgroup is removed first. So this function watches the parent directory for the removal.
#[cold]
fn event_or_end(
    directory: &Directory,
    file: &File<'_>,
    key: &str,
    value: u64,
    deadline: Deadline,
) -> Result<bool, Error> {
    // If the user has too many inotify instances already, the removal is noticed only at the deadline.
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

/// Sleeps for `duration`. Callers use this function between checks for changes that the kernel does not report.
pub(crate) fn moment(duration: Duration) {
    // An interruption by a signal does not matter, because the caller checks the state again.
    let _ = ready(&mut [], Deadline::after(duration));
}
