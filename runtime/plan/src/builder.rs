//! Collects the steps of both actors.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use init::channel::MOST_STEPS;

use crate::step::{CloneTree, DeviceSource, IdMaps, InitStep, ParentStep, Slot};
use crate::{Error, newborn};

/// The steps of one part of the plan.
#[derive(Debug, Default)]
pub struct Section {
    pub(crate) parent: Vec<ParentStep>,
    pub(crate) init: Vec<InitStep>,
}

/// Collects the steps of one section after the other, and hands out slots.
#[derive(Debug)]
pub struct Builder {
    /// The section that is being compiled.
    section: Section,
    pub(crate) slots: u16,
    /// Warnings, in runc's words, about settings that are ignored.
    pub(crate) warnings: Vec<String>,
    /// Init's steps that open resources of the host. They come before init joins namespaces and becomes root
    /// (`taken-before-root`, `joined-before-root`).
    pub(crate) taken: Vec<InitStep>,
    /// Init's steps that create filesystems as soon as it is in its namespaces. For a cgroup2 the kernel takes a lock, which
    /// systemd holds for some 10 ms while it starts an early scope.
    pub(crate) made: Vec<InitStep>,
    /// Init's steps that wait until everything is mounted, such as those that make a tmpfs read-only.
    pub(crate) frozen: Vec<InitStep>,
    /// The user namespaces that mounts use, with their mappings; the container's own, which is joined, without.
    pub(crate) user_namespaces: Vec<(Option<IdMaps>, Slot)>,
    /// Whether init opens mounts, because the parent lacks permission.
    by_init: bool,
}

impl Builder {
    /// Returns a builder without steps. With a `confined` caller, init opens mounts of the host.
    pub fn new(confined: bool) -> Self {
        Self {
            section: Section::default(),
            slots: Slot::FIRST_FREE.0,
            warnings: Vec::new(),
            taken: Vec::new(),
            made: Vec::new(),
            frozen: Vec::new(),
            user_namespaces: Vec::new(),
            by_init: confined,
        }
    }

    /// Adds a step that opens a mount tree of the host.
    pub fn take(&mut self, tree: CloneTree) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneTree(tree)),
            false => self.parent(ParentStep::CloneTree(tree)),
        }
    }

    /// Adds a step that opens a device node of the host.
    pub fn take_device(&mut self, device: DeviceSource) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneDevice(device)),
            false => self.parent(ParentStep::CloneDevice(device)),
        }
    }

    /// Appends a step to the parent's steps of the section.
    pub fn parent(&mut self, step: ParentStep) {
        self.section.parent.push(step);
    }

    /// Appends a step to init's steps of the section.
    pub fn init(&mut self, step: InitStep) {
        self.section.init.push(step);
    }

    /// Ends the section, and returns it.
    pub fn take_section(&mut self) -> Section {
        core::mem::take(&mut self.section)
    }

    /// Returns the slot of the user namespace with these mappings, if there is one already.
    pub fn user_namespace(&self, maps: Option<&IdMaps>) -> Option<Slot> {
        let mut known = self.user_namespaces.iter();
        known.find(|(own, _)| own.as_ref() == maps).map(|(_, slot)| *slot)
    }

    /// Allocates a slot.
    pub fn slot(&mut self) -> Slot {
        // `finish` refuses a plan that has used up the numbers.
        self.slots = self.slots.saturating_add(1);
        Slot(self.slots - 1)
    }

    /// Returns the steps of parent and init, section by section, and the number of slots.
    ///
    /// # Errors
    /// If there are too many of them for the numbers by which init's messages and trace name them.
    pub fn finish<const P: usize, const I: usize>(
        &self,
        parent: [Vec<ParentStep>; P],
        init: [Vec<InitStep>; I],
    ) -> Result<(Vec<ParentStep>, Vec<InitStep>, u16), Error> {
        let (mut parent, mut init) = (joined(parent), joined(init));
        newborn::settle(&mut parent, &mut init, self.by_init);
        let count = init.len().max(usize::from(self.slots));
        if count >= MOST_STEPS {
            return Err(Error::Config(format!(
                "the configuration takes {count} steps in the container or more; {} are possible: it has too many \
                 mounts, devices, masked paths or sysctls",
                MOST_STEPS - 1
            )));
        }
        Ok((parent, init, self.slots))
    }
}

fn joined<T, const N: usize>(sections: [Vec<T>; N]) -> Vec<T> {
    let mut steps = Vec::with_capacity(64);
    for mut section in sections {
        steps.append(&mut section);
    }
    steps
}
