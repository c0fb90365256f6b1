//! Collects the steps of both actors.

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
    /// Warnings, in runc's words, about settings that are ignored.
    pub(crate) warnings: Vec<String>,
    /// Init's steps that open resources of the host. They come before init joins namespaces and becomes root
    /// (`taken-before-root`, `joined-before-root`).
    pub(crate) taken: Vec<InitStep>,
    /// Whether init opens mounts, because the parent lacks permission.
    by_init: bool,
}

impl Builder {
    /// Returns a builder without steps. With a `confined` caller, init opens mounts of the host.
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

    /// Adds a step that opens a mount tree of the host.
    pub fn take(&mut self, tree: CloneTree) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneTree(tree)),
            false => self.parent.push(ParentStep::CloneTree(tree)),
        }
    }

    /// Adds a step that opens a device node of the host.
    pub fn take_device(&mut self, device: DeviceSource) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneDevice(device)),
            false => self.parent.push(ParentStep::CloneDevice(device)),
        }
    }

    /// Appends a step to the parent's steps.
    pub fn parent(&mut self, step: ParentStep) {
        self.parent.push(step);
    }

    /// Appends a step to init's steps.
    pub fn init(&mut self, step: InitStep) {
        self.init.push(step);
    }

    /// Allocates a slot.
    pub fn slot(&mut self) -> Slot {
        self.slots += 1;
        Slot(self.slots - 1)
    }

    /// Returns the steps of parent and init, and the number of slots.
    pub fn finish(mut self) -> (Vec<ParentStep>, Vec<InitStep>, u16) {
        newborn::settle(&mut self.parent, &mut self.init, self.by_init);
        (self.parent, self.init, self.slots)
    }
}
