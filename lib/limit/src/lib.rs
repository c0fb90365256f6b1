//! How many starts a host has in flight at once, and the queue of those that wait.
//!
//! Starts meet at locks of the kernel's. From some number on more of them at once get no more done, they only wait for
//! each other, and so does all else on the host (seed 001). A limit has them wait in a queue instead, where they cost
//! nothing.
//!
//! A set of System V semaphores is the limit: permits that are free, how many there are in all, and how long a start
//! waits at most. The kernel keeps the queue, first come first served, wakes one start a permit, and gives back the
//! permit of one that was killed. Nobody polls, and nothing runs in between. The set belongs to an IPC namespace, as
//! its user: the host's root has one limit, and what runs in an IPC namespace of its own has none of it.
#![cfg_attr(not(test), no_std)]

use core::time::Duration;
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use sys::semaphore::{Change, MOST, Set};

/// "dayf".
const KEY: u32 = 0x6461_7966;
/// Permits that are free.
const FREE: u16 = 0;
/// Permits in all.
const WIDTH: u16 = 1;
/// How long a start waits at most, in seconds.
const LONGEST: u16 = 2;
const SEMAPHORES: usize = 3;

/// How long a start waits if nobody says otherwise: half of what the kubelet gives a call of the CRI.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A bound on starts in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    set: Set,
}

/// What a limit is and how it is made use of, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// How many starts may be in flight.
    pub width: usize,
    /// How many of these permits nobody has.
    pub free: usize,
    /// How many starts wait for one.
    pub waiting: usize,
    /// How long they wait at most.
    pub longest: Duration,
}

/// The right to start a container now; given back when dropped, or when the process ends.
#[derive(Debug)]
pub struct Permit {
    set: Set,
}

/// How a wait for a permit ended.
#[derive(Debug)]
pub enum Admission {
    /// With one.
    Admitted(Permit),
    /// Without one, after as long as a start waits at most.
    Overdue,
    /// The limit was lifted, or another one put in its place.
    Lifted,
    /// Without one, for this reason of semtimedop(2)'s.
    Failed(Errno),
}

impl Limit {
    /// The limit of this IPC namespace. One that somebody else has made is none: they could hold up our starts.
    #[must_use]
    pub fn find() -> Option<Self> {
        let set = Set::find(KEY).ok()?;
        let status = set.status().ok()?;
        let own = geteuid().as_raw();
        // What was never changed is being made, or who made it was killed before it gave permits.
        let is_ours = status.owner == own && status.maker == own && status.mode & 0o077 == 0;
        (is_ours && status.changed > 0).then_some(Self { set })
    }

    /// Sets the limit, in place of one there may be: what waits there asks again, what is in flight is not counted any more.
    ///
    /// # Errors
    /// EINVAL for a `width` of 0, and beyond what a semaphore holds; EPERM where somebody else's set has the key;
    /// ENOSPC where the host has no more semaphores, ENOSYS where the kernel has none (CONFIG_SYSVIPC).
    pub fn set(width: u16, longest: Duration) -> Result<Self, Errno> {
        let held = |number: u64| {
            let fits = (1..=u64::from(MOST)).contains(&number);
            i16::try_from(number).ok().filter(|_| fits).ok_or(Errno::INVAL)
        };
        let (width, longest) = (held(u64::from(width))?, held(longest.as_secs())?);
        let set = loop {
            match Set::make(KEY, SEMAPHORES) {
                Err(Errno::EXIST) => remove()?,
                made => break made?,
            };
        };
        let all = [(FREE, width), (WIDTH, width), (LONGEST, longest)];
        set.change(&all.map(|(index, by)| Change::new(index, by)), None)?;
        Ok(Self { set })
    }

    /// Lifts the limit: what waits goes on. False if there was none.
    ///
    /// # Errors
    /// EPERM where somebody else's set has the key.
    pub fn lift() -> Result<bool, Errno> {
        remove()
    }

    /// What it is at this moment; nothing if it was lifted.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        Some(State {
            width: self.set.value(WIDTH).ok()?,
            free: self.set.value(FREE).ok()?,
            waiting: self.set.waiting(FREE).ok()?,
            longest: Duration::from_secs(self.set.value(LONGEST).ok()? as u64),
        })
    }

    /// A permit, if one is free and nobody waits for it.
    #[must_use]
    pub fn try_admit(&self) -> Option<Permit> {
        let one = Change::new(FREE, -1).undone_at_end().without_waiting();
        self.set.change(&[one], None).ok().map(|()| Permit { set: self.set })
    }

    /// Waits in the queue for a permit, for up to `longest`.
    #[must_use]
    pub fn admit(&self, longest: Duration) -> Admission {
        let end = now() + longest;
        let one = Change::new(FREE, -1).undone_at_end();
        loop {
            match self.set.change(&[one], Some(end.saturating_sub(now()))) {
                Ok(()) => return Admission::Admitted(Permit { set: self.set }),
                // Stopped and continued (signal(7)).
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
        // A limit that was lifted wants none back.
        let one = Change::new(FREE, 1).undone_at_end().without_waiting();
        let _ = self.set.change(&[one], None);
    }
}

fn remove() -> Result<bool, Errno> {
    match Set::find(KEY).and_then(Set::remove) {
        Ok(()) => Ok(true),
        // Somebody else removes it, too.
        Err(Errno::NOENT | Errno::INVAL | Errno::IDRM) => Ok(false),
        Err(errno) => Err(errno),
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

    /// In an IPC namespace of its own, so that the host's limit is left alone; says so where that can't be had.
    fn alone(test: impl FnOnce() + Send + 'static) {
        let test = move || match sys::ns::unshare(CloneFlags::NEWIPC) {
            Ok(()) => test(),
            Err(errno) => eprintln!("skipped: no IPC namespace: {errno}"),
        };
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn as_many_as_its_width() {
        alone(|| {
            assert_eq!(Limit::find(), None);
            let limit = Limit::set(2, LONGEST_WAIT).unwrap();
            assert_eq!(Limit::find(), Some(limit));
            let one = limit.try_admit().unwrap();
            let _two = limit.try_admit().unwrap();
            assert!(limit.try_admit().is_none());
            let state = State { width: 2, free: 0, waiting: 0, longest: LONGEST_WAIT };
            assert_eq!(limit.state(), Some(state));
            assert!(matches!(limit.admit(Duration::from_millis(5)), Admission::Overdue));
            drop(one);
            assert!(matches!(limit.admit(Duration::ZERO), Admission::Admitted(_)));
        });
    }

    #[test]
    fn another_width_and_none() {
        alone(|| {
            assert_eq!(Limit::set(0, LONGEST_WAIT), Err(Errno::INVAL));
            assert_eq!(Limit::set(40_000, LONGEST_WAIT), Err(Errno::INVAL));
            let old = Limit::set(1, LONGEST_WAIT).unwrap();
            let held = old.try_admit();
            let new = Limit::set(3, LONGEST_WAIT).unwrap();
            assert!(matches!(old.admit(LONGEST_WAIT), Admission::Lifted));
            drop(held);
            assert_eq!(new.state().map(|state| state.free), Some(3));
            assert_eq!(Limit::lift(), Ok(true));
            assert_eq!((Limit::lift(), Limit::find(), new.state()), (Ok(false), None, None));
        });
    }

    #[test]
    fn one_that_gives_no_permits_yet_is_none() {
        alone(|| {
            let set = Set::make(KEY, SEMAPHORES).unwrap();
            assert_eq!(Limit::find(), None);
            let limit = Limit::set(1, LONGEST_WAIT).unwrap();
            assert_ne!(limit.set, set);
        });
    }
}
