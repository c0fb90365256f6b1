//! Waiting, always with an end.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::read;
pub(crate) use sys::wait::{Deadline, ready};

use crate::directory::{Directory, File};
use crate::{Error, parse};

/// After how long a change that was announced must have come through (CGROUP_FILE_NOTIFY_MIN_INTV of
/// kernel/cgroup/cgroup.c is 10 ms).
const ANNOUNCED: Duration = Duration::from_millis(20);

/// Waits until `key` of cgroup.events has `value` (Linux 5.2 for `frozen`). False if the time is over.
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
    // Reading arms the file: a change after that makes it ready with POLLPRI.
    let soon = Deadline::after(ANNOUNCED);
    while parse::key(file.reread(&mut page)?, key) != Some(value) {
        if !ready(&mut change, soon)? {
            return event_or_end(directory, &file, key, value, deadline);
        }
    }
    Ok(true)
}

/// The same where it takes longer: somebody may remove the cgroup, which its own files do not tell of, as they do
/// not of a change that was held back until then. The directory above does.
#[cold]
fn event_or_end(
    directory: &Directory,
    file: &File<'_>,
    key: &str,
    value: u64,
    deadline: Deadline,
) -> Result<bool, Error> {
    // Users may have no more of these. Then the end of the time is waited for, as a rule in vain.
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

/// A moment, for the few things of cgroup v1 that the kernel announces nowhere.
pub(crate) fn moment(duration: Duration) {
    // Interrupted or not, the caller looks again.
    let _ = ready(&mut [], Deadline::after(duration));
}
