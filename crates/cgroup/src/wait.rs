//! Waiting, always with an end.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sys::Context;

use crate::directory::Directory;
use crate::{Error, parse};

/// A point in time after which waiting is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Timespec);

impl Deadline {
    pub fn after(duration: Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 2);
        let length = Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() };
        Self(clock_gettime(ClockId::Monotonic) + length)
    }

    /// The earlier one.
    pub fn min(self, other: Self) -> Self {
        let [one, two] = [self, other].map(|Self(time)| (time.tv_sec, time.tv_nsec));
        if one < two { self } else { other }
    }

    /// What is left of the time, or `None` if it is over.
    pub fn left(self) -> Option<Timespec> {
        let left = self.0 - clock_gettime(ClockId::Monotonic);
        (left.tv_sec >= 0 && (left.tv_sec, left.tv_nsec) != (0, 0)).then_some(left)
    }
}

/// Waits until one of `fds` is ready. False if the time is over.
pub(crate) fn ready(fds: &mut [PollFd<'_>], deadline: Deadline) -> Result<bool, Error> {
    loop {
        let Some(left) = deadline.left() else { return Ok(false) };
        match poll(fds, Some(&left)) {
            Err(Errno::INTR) => {}
            result => return Ok(result.context("poll", "")? > 0),
        }
    }
}

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
    let mut patience = ANNOUNCED;
    // Reading arms the file: a change after that makes it ready with POLLPRI. A change soon after another one
    // is held back, and never told if somebody removes the cgroup meanwhile; nor is that. So look again.
    while parse::key(file.reread(&mut page)?, key) != Some(value) {
        let soon = Deadline::after(patience).min(deadline);
        if !ready(&mut [PollFd::new(&file, PollFlags::PRI)], soon)? && deadline.left().is_none() {
            return Ok(false);
        }
        patience *= 2;
    }
    Ok(true)
}

/// A moment, for the few things of cgroup v1 that the kernel announces nowhere.
pub(crate) fn moment(duration: Duration) {
    // Interrupted or not, the caller looks again.
    let _ = ready(&mut [], Deadline::after(duration));
}
