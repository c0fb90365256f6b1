//! System V semaphores, sysvipc(7): the kernel queues those that wait, first come first served, and gives back what a
//! process that ended had taken.
//!
//! Chosen over file locks, which have no queue of a width, and over futexes in shared memory, which keep what a killed
//! process had taken.

use crate::raw::{self, nr};
use core::time::Duration;
use rustix::io::Errno;

const IPC_CREAT: usize = 0o1000;
const IPC_EXCL: usize = 0o2000;
const IPC_NOWAIT: i16 = 0o4000;
const SEM_UNDO: i16 = 0x1000;
const IPC_RMID: usize = 0;
const IPC_STAT: usize = 2;
const GETNCNT: usize = 14;
const GETVAL: usize = 12;

/// The most that a semaphore can hold.
pub const MOST: u16 = 32767;

/// A set of semaphores, of the caller's IPC namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set(usize);

/// What is known of a set: the beginning of `struct semid64_ds`, which is the same on x86-64 and aarch64.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Status {
    key: u32,
    /// Whose it is: user id, as the caller's user namespace sees it.
    pub owner: u32,
    group: u32,
    /// Who made it: user id.
    pub maker: u32,
    maker_group: u32,
    /// Permissions, as of a file.
    pub mode: u32,
    sequence: u64,
    unused: [u64; 2],
    /// When a semaphore was last changed, in seconds since the epoch; 0 if none ever was.
    pub changed: i64,
    rest: [u64; 8],
}

/// `struct sembuf`: what is added to a semaphore.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Change {
    index: u16,
    by: i16,
    flags: i16,
}

impl Change {
    /// Adds `by` to the semaphore at `index`. What is taken away has to be there first; the change waits for that.
    #[must_use]
    pub fn new(index: u16, by: i16) -> Self {
        Self { index, by, flags: 0 }
    }

    /// Taken back by the kernel when the calling process ends.
    #[must_use]
    pub fn undone_at_end(self) -> Self {
        Self { flags: self.flags | SEM_UNDO, ..self }
    }

    /// Fails with EAGAIN where it would wait.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        Self { flags: self.flags | IPC_NOWAIT, ..self }
    }
}

impl Set {
    /// The set of this key, semget(2).
    ///
    /// # Errors
    /// ENOENT if there is none, EACCES if it is not for the caller, ENOSYS without CONFIG_SYSVIPC.
    pub fn find(key: u32) -> Result<Self, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMGET, [key as usize, 0, 0]) }.map(Self)
    }

    /// A new set of this key, each of its `count` semaphores 0, for its owner alone.
    ///
    /// # Errors
    /// EEXIST if there is one, ENOSPC where the host's limits are reached, ENOSYS without CONFIG_SYSVIPC.
    pub fn make(key: u32, count: usize) -> Result<Self, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMGET, [key as usize, count, IPC_CREAT | IPC_EXCL | 0o600]) }
            .map(Self)
    }

    /// Whose it is, and whether it was ever used.
    ///
    /// # Errors
    /// EACCES, and EINVAL or EIDRM once it is removed.
    pub fn status(self) -> Result<Status, Errno> {
        let mut status = Status::default();
        // SAFETY: the kernel writes 104 bytes at most (`struct semid64_ds` of x86-64), and `Status` has more.
        unsafe {
            raw::call(nr::SEMCTL, [self.0, 0, IPC_STAT, (&raw mut status).addr()])?;
        }
        Ok(status)
    }

    /// Makes all `changes` at once, semtimedop(2), waiting up to `longest` where one has to.
    ///
    /// # Errors
    /// EAGAIN if it would have to wait for longer, EIDRM or EINVAL if the set was removed, EINTR, ERANGE beyond
    /// [`MOST`].
    pub fn change(self, changes: &[Change], longest: Option<Duration>) -> Result<(), Errno> {
        let time =
            longest.map(|time| [time.as_secs().cast_signed(), i64::from(time.subsec_nanos())]);
        let time = time.as_ref().map_or(0, |time| core::ptr::from_ref(time).addr());
        // SAFETY: as many changes as are said, and a `struct timespec` or null; the kernel reads both only.
        unsafe {
            raw::call(nr::SEMTIMEDOP, [self.0, changes.as_ptr().addr(), changes.len(), time])?;
        }
        Ok(())
    }

    /// What the semaphore at `index` holds.
    ///
    /// # Errors
    /// EINVAL or EIDRM once the set is removed.
    pub fn value(self, index: u16) -> Result<usize, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMCTL, [self.0, usize::from(index), GETVAL]) }
    }

    /// How many wait for the semaphore at `index` to hold more.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn waiting(self, index: u16) -> Result<usize, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMCTL, [self.0, usize::from(index), GETNCNT]) }
    }

    /// Removes it; those that wait get EIDRM.
    ///
    /// # Errors
    /// EPERM if it is somebody else's, EINVAL or EIDRM if it is removed.
    pub fn remove(self) -> Result<(), Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMCTL, [self.0, 0, IPC_RMID]) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_given_back_and_removed() {
        let key = 0x6461_0000 | (std::process::id() & 0xffff);
        let set = Set::make(key, 2).unwrap();
        assert_eq!(Set::make(key, 2), Err(Errno::EXIST));
        assert_eq!(Set::find(key), Ok(set));
        let status = set.status().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((status.owner, status.maker, status.mode & 0o777), (own, own, 0o600));
        assert_eq!(status.changed, 0);
        set.change(&[Change::new(0, 2), Change::new(1, 7)], None).unwrap();
        assert!(set.status().unwrap().changed > 0);
        set.change(&[Change::new(0, -2).undone_at_end()], None).unwrap();
        let one = Change::new(0, -1);
        assert_eq!(set.change(&[one.without_waiting()], None), Err(Errno::AGAIN));
        assert_eq!(set.change(&[one], Some(Duration::from_millis(1))), Err(Errno::AGAIN));
        assert_eq!((set.value(0), set.value(1), set.waiting(0)), (Ok(0), Ok(7), Ok(0)));
        set.remove().unwrap();
        assert_eq!(Set::find(key), Err(Errno::NOENT));
        assert!(set.value(0).is_err());
    }
}
