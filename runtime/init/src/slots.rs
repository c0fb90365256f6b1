//! The table of descriptors that the parent opens and init uses.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicI32, Ordering};

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use rustix::io::{DupFlags, Errno, dup3};

use crate::step::Slot;

const EMPTY: RawFd = -1;
/// The number that stands for the descriptor 0 of init; lower numbers stand for higher descriptors ([`Slots::keep`]).
const OF_INIT: RawFd = -2;

/// The content of one slot.
#[derive(Debug)]
pub struct Place(AtomicI32);

impl Default for Place {
    /// Returns an empty slot.
    fn default() -> Self {
        Self(AtomicI32::new(EMPTY))
    }
}

/// Descriptors by slot, which are open for `'fd`. In init, the same numbers refer to init's own copies.
#[derive(Debug)]
pub struct Slots<'fd> {
    /// The numbers are never freed: an init that shares the memory reads them until its exec, which
    /// may be long after the parent has stopped using them.
    numbers: &'static [Place],
    owner: PhantomData<&'fd OwnedSlots>,
}

/// The parent's table. Dropping it closes the descriptors.
#[derive(Debug)]
pub struct OwnedSlots(Slots<'static>);

impl OwnedSlots {
    /// Returns an empty table that consists of `places`, one for each slot.
    pub fn new(places: &'static mut [Place]) -> Self {
        Self(Slots { numbers: places, owner: PhantomData })
    }
}

impl Deref for OwnedSlots {
    type Target = Slots<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Slots<'_> {
    /// Returns the same table for a process that is about to be cloned.
    pub fn of_init(&self) -> Slots<'_> {
        Slots { numbers: self.numbers, owner: PhantomData }
    }

    /// Puts a descriptor into a slot. A previous descriptor stays open, since it may be borrowed.
    pub fn set(&self, slot: Slot, fd: OwnedFd) {
        if let Some(place) = self.numbers.get(usize::from(slot.0)) {
            place.0.store(fd.into_raw_fd(), Ordering::Release);
        }
    }

    /// Replaces the descriptor in a slot by a duplicate of `fd` with the same number, and closes the previous one.
    ///
    /// # Errors
    /// Those of dup3(2); EBADF if the slot is empty.
    pub fn replace(&self, slot: Slot, fd: &OwnedFd) -> Result<(), Errno> {
        let number = self.get(slot).ok_or(Errno::BADF)?.as_raw_fd();
        // SAFETY: the table owns the descriptor, and keeps it: the number stays open.
        let mut place = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
        dup3(fd, &mut place, DupFlags::CLOEXEC)
    }

    /// Puts a descriptor that init has opened itself into a slot; dropping the table does not close it. If init shares
    /// the parent's memory, the parent's table has the number as well, where it means nothing.
    pub fn keep(&self, slot: Slot, fd: OwnedFd) {
        if let Some(place) = self.numbers.get(usize::from(slot.0)) {
            place.0.store(OF_INIT - fd.into_raw_fd(), Ordering::Release);
        }
    }

    /// Returns the descriptor in a slot, if any.
    pub fn get(&self, slot: Slot) -> Option<BorrowedFd<'_>> {
        let number = self.numbers.get(usize::from(slot.0))?.0.load(Ordering::Acquire);
        let fd = if number <= OF_INIT { OF_INIT - number } else { number };
        // SAFETY: a stored descriptor stays open until the drop of the parent's table, which is borrowed, and in init
        // until its exec or exit, but for calls of `close_all_but`, which make sure of that.
        (fd != EMPTY).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for OwnedSlots {
    fn drop(&mut self) {
        let open = self.numbers.iter().map(|place| place.0.load(Ordering::Relaxed));
        for fd in open.filter(|fd| *fd > EMPTY) {
            // SAFETY: owned by this process since `set`, and closed only here.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::fcntl_getfd;

    #[test]
    fn inits_own_descriptors_are_not_the_parents() {
        let slots = OwnedSlots::new(Box::leak(Box::new([Place::default(), Place::default()])));
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let number = fd.as_raw_fd();
        slots.keep(Slot(1), fd);
        assert_eq!(slots.get(Slot(1)).map(|fd| fd.as_raw_fd()), Some(number));
        drop(slots);
        // SAFETY: the table has not closed the descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn closed_once_by_the_host_actor_and_not_by_init() {
        let slots = OwnedSlots::new(Box::leak(Box::new([Place::default(), Place::default()])));
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let number = fd.as_raw_fd();
        slots.set(Slot(1), fd);
        slots.set(Slot(2), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let of_init = slots.of_init();
        assert!(slots.get(Slot(0)).is_none() && slots.get(Slot(2)).is_none());
        assert_eq!(of_init.get(Slot(1)).map(|fd| fd.as_raw_fd()), Some(number));
        assert!(fcntl_getfd(slots.get(Slot(1)).unwrap()).is_ok());
        let numbers = slots.numbers;
        drop(slots);
        assert_eq!(numbers[1].0.load(Ordering::Relaxed), number);
    }
}
