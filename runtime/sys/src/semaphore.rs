//! System V semaphores, sysvipc(7). The kernel queues waiting processes in order of arrival, and can undo a process's
//! changes when it exits.
//!
//! File locks and futexes are not suitable: a file lock's queue cannot admit several holders at a time, and a futex in
//! shared memory is not released when its holder is killed.

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

/// The maximum value of a semaphore.
pub const MOST: u16 = 32767;

/// A set of semaphores in the caller's IPC namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set(usize);

/// The status of a set: the beginning of `struct semid64_ds`, which is the same on x86-64 and aarch64.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Status {
    key: u32,
    /// The owner's user id, in the caller's user namespace.
    pub owner: u32,
    group: u32,
    /// The creator's user id.
    pub maker: u32,
    maker_group: u32,
    /// Permission bits like a file's.
    pub mode: u32,
    sequence: u64,
    unused: [u64; 2],
    /// The time of the last [`Set::change`] in seconds since the epoch; 0 if there was none.
    pub changed: i64,
    rest: [u64; 8],
}

/// `struct sembuf`: a change of one semaphore.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Change {
    index: u16,
    by: i16,
    flags: i16,
}

impl Change {
    /// Returns a change that adds `by` to the semaphore at `index`. If `by` is negative, the change waits until the
    /// result is not negative.
    #[must_use]
    pub fn new(index: u16, by: i16) -> Self {
        Self { index, by, flags: 0 }
    }

    /// Makes the kernel undo the change when the calling process exits.
    #[must_use]
    pub fn undone_at_end(self) -> Self {
        Self { flags: self.flags | SEM_UNDO, ..self }
    }

    /// Makes the change fail with EAGAIN instead of waiting.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        Self { flags: self.flags | IPC_NOWAIT, ..self }
    }
}

impl Set {
    /// Opens the set with this key, semget(2).
    ///
    /// # Errors
    /// ENOENT if the set does not exist, EACCES without permission, ENOSYS without CONFIG_SYSVIPC.
    pub fn find(key: u32) -> Result<Self, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMGET, [key, 0, 0]) }.map(Self)
    }

    /// Creates a set of `count` semaphores, all 0, accessible to its owner only.
    ///
    /// # Errors
    /// EEXIST if a set with this key exists, ENOSPC if the host's limits are reached, ENOSYS without CONFIG_SYSVIPC.
    pub fn make(key: u32, count: usize) -> Result<Self, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMGET, raw::args![key, count, IPC_CREAT | IPC_EXCL | 0o600]) }
            .map(Self)
    }

    /// Returns the set's owner and the time of its last change.
    ///
    /// # Errors
    /// EACCES without read permission; EINVAL or EIDRM once the set is removed.
    pub fn status(self) -> Result<Status, Errno> {
        let mut status = Status::default();
        // SAFETY: the kernel writes 104 bytes at most (`struct semid64_ds` of x86-64), and `Status` is larger.
        unsafe {
            raw::call(nr::SEMCTL, crate::raw::args![self.0, 0, IPC_STAT, &raw mut status])?;
        }
        Ok(status)
    }

    /// Applies all `changes` atomically, semtimedop(2). If a change has to wait, waits for at most `longest`.
    ///
    /// # Errors
    /// EAGAIN after `longest`, EIDRM or EINVAL if the set was removed, EINTR, ERANGE if a value would exceed [`MOST`].
    pub fn change(self, changes: &[Change], longest: Option<Duration>) -> Result<(), Errno> {
        let time =
            longest.map(|time| [time.as_secs().cast_signed(), i64::from(time.subsec_nanos())]);
        let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the pointer and count of `changes`, and a `struct timespec` or null; the kernel only reads both.
        unsafe {
            raw::call(
                nr::SEMTIMEDOP,
                crate::raw::args![self.0, changes.as_ptr(), changes.len(), time],
            )?;
        }
        Ok(())
    }

    /// Returns the value of the semaphore at `index`.
    ///
    /// # Errors
    /// EINVAL or EIDRM once the set is removed.
    pub fn value(self, index: u16) -> Result<usize, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMCTL, [self.0, usize::from(index), GETVAL]) }
    }

    /// Returns the number of processes that wait for the semaphore at `index` to increase.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn waiting(self, index: u16) -> Result<usize, Errno> {
        // SAFETY: no pointers.
        unsafe { raw::call(nr::SEMCTL, [self.0, usize::from(index), GETNCNT]) }
    }

    /// Removes the set; the calls of waiting processes fail with EIDRM.
    ///
    /// # Errors
    /// EPERM if the caller is neither owner nor creator, EINVAL or EIDRM if the set is already removed.
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
