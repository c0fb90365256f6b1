//! Waits for descriptors, always with a deadline.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::{Context, Error};

/// A point in time at which waiting ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Timespec);

impl Deadline {
    /// Returns the deadline that is `duration` from now.
    pub fn after(duration: Duration) -> Self {
        let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 2);
        let length = Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() };
        Self(clock_gettime(ClockId::Monotonic) + length)
    }

    /// Returns the time left, or `None` after the deadline.
    pub fn left(self) -> Option<Timespec> {
        let left = self.0 - clock_gettime(ClockId::Monotonic);
        (left.tv_sec >= 0 && (left.tv_sec, left.tv_nsec) != (0, 0)).then_some(left)
    }
}

/// Returns whether `fd` is readable or hung up, without waiting.
pub fn is_readable(fd: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}

/// Waits until one of `fds` is ready. Returns false if none is ready at the deadline.
///
/// # Errors
/// Those of poll(2) except EINTR.
pub fn ready(fds: &mut [PollFd<'_>], deadline: Deadline) -> Result<bool, Error> {
    loop {
        let Some(left) = deadline.left() else { return Ok(false) };
        match poll(fds, Some(&left)) {
            Err(Errno::INTR) => {}
            result => return Ok(result.context("poll", "")? > 0),
        }
    }
}
