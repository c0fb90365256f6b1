//! Collects the steps of both actors.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use init::channel::MOST_STEPS;

use crate::step::{CloneTree, DeviceSource, InitStep, ParentStep, Slot};
use crate::{Error, newborn};

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
        // `finish` refuses a plan that has used up the numbers.
        self.slots = self.slots.saturating_add(1);
        Slot(self.slots - 1)
    }

    /// Returns the steps of parent and init, and the number of slots.
    ///
    /// # Errors
    /// If there are too many of them for the numbers by which init's messages and trace name them.
    pub fn finish(mut self) -> Result<(Vec<ParentStep>, Vec<InitStep>, u16), Error> {
        newborn::settle(&mut self.parent, &mut self.init, self.by_init);
        let count = self.init.len().max(usize::from(self.slots));
        if count >= MOST_STEPS {
            return Err(Error::Config(format!(
                "the configuration takes {count} steps in the container or more; {} are possible: it has too many \
                 mounts, devices, masked paths or sysctls",
                MOST_STEPS - 1
            )));
        }
        Ok((self.parent, self.init, self.slots))
    }
}
