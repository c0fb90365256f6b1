//! The table of descriptors that the host actor opens and init uses.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;

use plan::step::Slot;
use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

const EMPTY: RawFd = -1;

/// Descriptors by slot. The table itself stays for as long as the process: an init that shares its
/// memory reads it until its exec, which may be long after the host actor is done with it.
#[derive(Debug)]
pub struct Slots(Vec<Cell<RawFd>>);

impl Slots {
    /// Room for `count` descriptors.
    pub fn leak(count: u16) -> &'static Self {
        Box::leak(Box::new(Self((0..count).map(|_| Cell::new(EMPTY)).collect())))
    }

    /// Puts a descriptor into a slot of this table. Before the clone.
    pub fn set(&self, slot: Slot, fd: OwnedFd) {
        if let Some(place) = self.0.get(usize::from(slot.0)) {
            place.set(fd.into_raw_fd());
        }
    }

    /// The descriptor in a slot, if there is one.
    pub fn get(&self, slot: Slot) -> Option<BorrowedFd<'_>> {
        let fd = self.0.get(usize::from(slot.0))?.get();
        // SAFETY: a descriptor that was put here stays open until `close`, after which the host actor
        // has no more use for the table.
        (fd != EMPTY).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Closes the descriptors of this process; the table keeps its numbers, which mean something to
    /// init still.
    pub fn close(&self) {
        for fd in self.0.iter().map(Cell::get).filter(|fd| *fd != EMPTY) {
            // SAFETY: ours since `set`, and closed once: the launch is over.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}
