//! The table of descriptors that the host actor opens and init uses.

use alloc::vec::Vec;
use plan::step::Slot;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors by slot.
#[derive(Debug, Default)]
pub struct Slots(Vec<Option<OwnedFd>>);

impl Slots {
    /// Room for `count` descriptors.
    pub fn new(count: u16) -> Self {
        Self((0..count).map(|_| None).collect())
    }

    /// Puts a descriptor into a slot of this table.
    pub fn set(&mut self, slot: Slot, fd: OwnedFd) {
        if let Some(place) = self.0.get_mut(usize::from(slot.0)) {
            *place = Some(fd);
        }
    }

    /// The descriptor in a slot, if there is one.
    pub fn get(&self, slot: Slot) -> Option<BorrowedFd<'_>> {
        self.0.get(usize::from(slot.0))?.as_ref().map(AsFd::as_fd)
    }
}
