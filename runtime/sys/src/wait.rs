//! Waits for descriptors, always with a deadline.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::fs::{FlockOperation, flock};
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

/// The longest pause between two attempts to take a lock.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Takes a lock with flock(2), which has no time limit of its own: tries again and again, in growing intervals, because
/// the kernel does not report the release of a lock. `operation` must be one that does not block.
///
/// # Errors
/// EAGAIN if another process still holds the lock after `limit`; the other errors of flock(2).
pub fn lock(fd: impl AsFd, operation: FlockOperation, limit: Duration) -> Result<(), Errno> {
    let mut result = flock(&fd, operation);
    if result != Err(Errno::AGAIN) {
        return result;
    }
    let deadline = Deadline::after(limit);
    let mut pause = Duration::from_millis(1);
    while result == Err(Errno::AGAIN) && deadline.left().is_some() {
        let _ = ready(&mut [], Deadline::after(pause).min(deadline));
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        result = flock(&fd, operation);
    }
    result
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, OFlags, openat};

    #[test]
    fn a_lock_is_awaited_for_a_limited_time() {
        let path = std::env::temp_dir().join(format!("dayfly-lock-{}", std::process::id()));
        let open = |flags| openat(CWD, path.to_str().unwrap(), flags, Mode::RWXU).unwrap();
        let (own, other) = (open(OFlags::RDWR | OFlags::CREATE), open(OFlags::RDONLY));
        std::fs::remove_file(&path).unwrap();
        flock(&other, FlockOperation::LockShared).unwrap();
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let begin = std::time::Instant::now();
        assert_eq!(lock(&own, exclusive, Duration::from_millis(30)), Err(Errno::AGAIN));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(other);
        });
        assert_eq!(lock(&own, exclusive, Duration::from_secs(60)), Ok(()));
        release.join().unwrap();
    }
}
