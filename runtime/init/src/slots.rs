//! The table of descriptors that the parent opens and init uses.

use core::sync::atomic::{AtomicI32, Ordering};

use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::step::Slot;

const EMPTY: RawFd = -1;

/// What one slot has.
#[derive(Debug)]
pub struct Place(AtomicI32);

impl Default for Place {
    /// Nothing.
    fn default() -> Self {
        Self(AtomicI32::new(EMPTY))
    }
}

/// Descriptors by slot. Those of the parent are closed when it drops them; what it has lent is given back by
/// then. Init has the same numbers for its own copies ([`Slots::of_init`]).
#[derive(Debug)]
pub struct Slots {
    /// Stays for as long as the process, with its numbers: an init that shares the memory reads them until its
    /// exec, which may be long after the parent is done with them.
    numbers: &'static [Place],
    /// Whether they are this process's to close.
    closes: bool,
}

impl Slots {
    /// As many as there are places.
    pub fn new(places: &'static mut [Place]) -> Self {
        Self { numbers: places, closes: true }
    }

    /// The same table for a process that is about to be cloned. Nothing is closed when that drops it.
    ///
    /// # Safety
    /// Only a process with a copy of the descriptors uses it, and closes none of them but by an exec or its end, or
    /// uses the table no longer.
    pub unsafe fn of_init(&self) -> Self {
        Self { numbers: self.numbers, closes: false }
    }

    /// Puts a descriptor into a slot of this table. What was there before stays open, as it may be lent.
    pub fn set(&self, slot: Slot, fd: OwnedFd) {
        if let Some(place) = self.numbers.get(usize::from(slot.0)) {
            place.0.store(fd.into_raw_fd(), Ordering::Release);
        }
    }

    /// The descriptor in a slot, if there is one.
    pub fn get(&self, slot: Slot) -> Option<BorrowedFd<'_>> {
        let fd = self.numbers.get(usize::from(slot.0))?.0.load(Ordering::Acquire);
        // SAFETY: a descriptor that was put here stays open until the drop, or by the promise to `of_init`.
        (fd != EMPTY).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let open = self.numbers.iter().map(|place| place.0.load(Ordering::Relaxed));
        for fd in open.filter(|fd| self.closes && *fd != EMPTY) {
            // SAFETY: this process's since `set`, and closed here alone.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::AsRawFd;
    use rustix::io::fcntl_getfd;

    #[test]
    fn closed_once_by_the_host_actor_and_not_by_init() {
        let slots = Slots::new(Box::leak(Box::new([Place::default(), Place::default()])));
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let number = fd.as_raw_fd();
        slots.set(Slot(1), fd);
        slots.set(Slot(2), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        // SAFETY: used while they are open.
        let of_init = unsafe { slots.of_init() };
        assert!(slots.get(Slot(0)).is_none() && slots.get(Slot(2)).is_none());
        drop(of_init);
        assert_eq!(slots.get(Slot(1)).map(|fd| fd.as_raw_fd()), Some(number));
        assert!(fcntl_getfd(slots.get(Slot(1)).unwrap()).is_ok());
        // SAFETY: nothing is done by it but to read numbers.
        let of_init = unsafe { slots.of_init() };
        drop(slots);
        assert_eq!(of_init.numbers[1].0.load(Ordering::Relaxed), number);
    }
}
