//! Where the steps of both actors are collected.

use alloc::string::String;
use alloc::vec::Vec;

use crate::newborn;
use crate::step::{CloneTree, DeviceSource, InitStep, ParentStep, Slot};

/// Collects the steps of both actors and hands out slots.
#[derive(Debug)]
pub struct Builder {
    pub(crate) parent: Vec<ParentStep>,
    pub(crate) init: Vec<InitStep>,
    pub(crate) slots: u16,
    /// What is not done as it was asked for, in runc's words.
    pub(crate) warnings: Vec<String>,
    /// What init takes from the host before anything else.
    pub(crate) taken: Vec<InitStep>,
    /// Whether it is init that takes mounts: the parent may not.
    by_init: bool,
}

impl Builder {
    /// No steps. Of a `confined` caller it is init that takes mounts from the host.
    pub fn new(confined: bool) -> Self {
        Self {
            parent: Vec::with_capacity(32),
            init: Vec::with_capacity(64),
            slots: Slot::FIRST_FREE.0,
            warnings: Vec::new(),
            taken: Vec::new(),
            by_init: confined,
        }
    }

    /// Takes a mount tree from the host.
    pub fn take(&mut self, tree: CloneTree) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneTree(tree)),
            false => self.parent.push(ParentStep::CloneTree(tree)),
        }
    }

    /// Takes a device node from the host.
    pub fn take_device(&mut self, device: DeviceSource) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneDevice(device)),
            false => self.parent.push(ParentStep::CloneDevice(device)),
        }
    }

    /// Appends a step of the parent.
    pub fn parent(&mut self, step: ParentStep) {
        self.parent.push(step);
    }

    /// Appends a step of init.
    pub fn init(&mut self, step: InitStep) {
        self.init.push(step);
    }

    /// A new slot.
    pub fn slot(&mut self) -> Slot {
        self.slots += 1;
        Slot(self.slots - 1)
    }

    /// The steps of host and init, and the number of slots.
    pub fn finish(mut self) -> (Vec<ParentStep>, Vec<InitStep>, u16) {
        newborn::settle(&mut self.parent, &mut self.init, self.by_init);
        (self.parent, self.init, self.slots)
    }
}
