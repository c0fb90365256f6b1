//! A limit on the number of concurrent container starts on a host, and a queue of waiting starts.
//!
//! Starts contend for kernel locks. Above some number of concurrent starts, more of them do not increase the
//! throughput: they wait for each other and slow down everything else on the host. With a limit, the excess starts wait
//! in a queue instead, which costs nothing.
//!
//! The limit is stored in a set of System V semaphores: the number of free permits, the total number of permits, and
//! the maximum wait. The kernel keeps the waiting starts in FIFO order, wakes one start per permit, and returns the
//! permit of a killed process (SEM_UNDO). Neither polling nor a daemon is needed. A set belongs to an IPC namespace and
//! a user: the limit of the host's root does not apply in other IPC namespaces.
//!
//! On a host without a limit, a start makes one semget(2). A set that another user has created is ignored. A pod with
//! the host's IPC namespace that runs as the host's root can delay starts, each for at most the limit's longest wait.

use core::time::Duration;
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use sys::semaphore::{Change, MOST, Set};

/// The key of the semaphore set: "dayf".
const KEY: u32 = 0x6461_7966;
/// The semaphore that counts free permits.
const FREE: u16 = 0;
/// The semaphore whose value is the total number of permits.
const WIDTH: u16 = 1;
/// The semaphore whose value is the maximum wait, in seconds.
const LONGEST: u16 = 2;
const SEMAPHORES: usize = 3;

/// The default maximum wait of a start: half of the timeout of the kubelet's CRI calls.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A limit on concurrent starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    set: Set,
}

/// A snapshot of a limit and of its free permits and waiting starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The maximum number of concurrent starts.
    pub width: usize,
    /// The number of free permits.
    pub free: usize,
    /// The number of starts that wait for a permit.
    pub waiting: usize,
    /// The maximum wait.
    pub longest: Duration,
}

/// A permit to start a container. It is returned when this value is dropped or the process ends.
#[derive(Debug)]
pub struct Permit {
    set: Set,
}

/// The result of a wait for a permit.
#[derive(Debug)]
pub enum Admission {
    /// The start got a permit.
    Admitted(Permit),
    /// The maximum wait has passed.
    Overdue,
    /// The limit was removed or replaced.
    Lifted,
    /// semtimedop(2) failed with this errno.
    Failed(Errno),
}

impl Limit {
    /// Returns the limit of this IPC namespace. A semaphore set that another user owns is ignored, because that user
    /// could use it to delay this user's starts.
    #[must_use]
    pub fn find() -> Option<Self> {
        let set = Set::find(KEY).ok()?;
        let status = set.status().ok()?;
        let own = geteuid().as_raw();
        // If a set was never changed, its creator has not set the permits yet, or was killed before it could.
        let is_ours = status.owner == own && status.maker == own && status.mode & 0o077 == 0;
        (is_ours && status.changed > 0).then_some(Self { set })
    }

    /// Sets a limit, which replaces an existing one. A start that waits for a permit of the old limit stops waiting,
    /// and looks up the new limit. Starts that hold a permit of the old limit are not counted in the new one.
    ///
    /// # Errors
    /// EINVAL for a `width` of 0 or above a semaphore's maximum; EPERM if another user owns a set with this key; ENOSPC
    /// if the host's maximum number of semaphores is reached; ENOSYS if the kernel has no semaphores (CONFIG_SYSVIPC).
    pub fn set(width: u16, longest: Duration) -> Result<Self, Errno> {
        let held = |number: u64| {
            let fits = (1..=u64::from(MOST)).contains(&number);
            i16::try_from(number).ok().filter(|_| fits).ok_or(Errno::INVAL)
        };
        let (width, longest) = (held(u64::from(width))?, held(longest.as_secs())?);
        let set = loop {
            match Set::make(KEY, SEMAPHORES) {
                Err(Errno::EXIST) => Self::lift()?,
                made => break made?,
            };
        };
        let all = [(FREE, width), (WIDTH, width), (LONGEST, longest)];
        set.change(&all.map(|(index, by)| Change::new(index, by)), None)?;
        Ok(Self { set })
    }

    /// Removes the limit, so that waiting starts proceed. Returns false if there was no limit.
    ///
    /// # Errors
    /// EPERM if another user owns a set with this key.
    pub fn lift() -> Result<bool, Errno> {
        match Set::find(KEY).and_then(Set::remove) {
            Ok(()) => Ok(true),
            // Another process has already removed the set.
            Err(Errno::NOENT | Errno::INVAL | Errno::IDRM) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the limit's current state, or `None` if the limit was removed.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        Some(State {
            width: self.set.value(WIDTH).ok()?,
            free: self.set.value(FREE).ok()?,
            waiting: self.set.waiting(FREE).ok()?,
            longest: Duration::from_secs(self.set.value(LONGEST).ok()? as u64),
        })
    }

    /// Returns a permit if one is free and no other start is waiting for it.
    #[must_use]
    pub fn try_admit(&self) -> Option<Permit> {
        let one = Change::new(FREE, -1).undone_at_end().without_waiting();
        self.set.change(&[one], None).ok().map(|()| Permit { set: self.set })
    }

    /// Waits in the queue for a permit, for at most `longest`.
    #[must_use]
    pub fn admit(&self, longest: Duration) -> Admission {
        let end = now() + longest;
        let one = Change::new(FREE, -1).undone_at_end();
        loop {
            match self.set.change(&[one], Some(end.saturating_sub(now()))) {
                Ok(()) => return Admission::Admitted(Permit { set: self.set }),
                // The process was stopped and continued (signal(7)).
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Admission::Overdue,
                Err(Errno::IDRM | Errno::INVAL) => return Admission::Lifted,
                Err(errno) => return Admission::Failed(errno),
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // If the limit was removed, there is nothing to return the permit to.
        let one = Change::new(FREE, 1).undone_at_end().without_waiting();
        let _ = self.set.change(&[one], None);
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use sys::clone::CloneFlags;

    #[test]
    fn one_that_gives_no_permits_yet_is_none() {
        let test = || {
            // In an IPC namespace of its own, the test does not change the host's limit.
            if let Err(errno) = sys::ns::unshare(CloneFlags::NEWIPC) {
                return eprintln!("skipped: no IPC namespace: {errno}");
            }
            assert_eq!(Limit::set(0, LONGEST_WAIT), Err(Errno::INVAL));
            assert_eq!(Limit::set(40_000, LONGEST_WAIT), Err(Errno::INVAL));
            let set = Set::make(KEY, SEMAPHORES).unwrap();
            assert_eq!(Limit::find(), None);
            let limit = Limit::set(1, LONGEST_WAIT).unwrap();
            assert_ne!(limit.set, set);
        };
        thread::spawn(test).join().unwrap();
    }
}
