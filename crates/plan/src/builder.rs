//! What the parts of the compiler share: what they read, and where their steps go.

use alloc::string::String;
use alloc::vec::Vec;
use spec::{Linux, Mount, NamespaceKind};
use sys::clone::CloneFlags;

use crate::birth::Birth;
use crate::caller::Caller;
use crate::path::clean;
use crate::step::{CloneTree, DeviceSource, HostStep, InitStep, Slot};

/// The namespaces of a container, sorted by how they come about.
#[derive(Debug, Default)]
pub struct Namespaces {
    /// Made by the clone.
    pub new: CloneFlags,
    /// Joined by path.
    pub joined: CloneFlags,
}

impl Namespaces {
    /// Reads the list of the configuration.
    pub fn of(linux: &Linux<'_>) -> Self {
        let mut namespaces = Self::default();
        for namespace in &linux.namespaces {
            let flag = flag(namespace.kind);
            match namespace.path {
                Some(_) => namespaces.joined |= flag,
                None => namespaces.new |= flag,
            }
        }
        namespaces
    }

    /// Whether the container has this namespace to itself or joins it: anything but the host's.
    pub fn has(&self, kind: CloneFlags) -> bool {
        self.new.contains(kind) || self.joined.contains(kind)
    }

    /// Whether it lives in a user namespace that is not the host's.
    pub fn user(&self) -> bool {
        self.has(CloneFlags::NEWUSER)
    }
}

/// The clone flag of a namespace.
pub fn flag(kind: NamespaceKind) -> CloneFlags {
    CloneFlags::from_bits_retain(kind.clone_flag())
}

/// What the parts of the compiler read.
pub struct Context<'a, 's> {
    pub(crate) bundle: &'a str,
    pub(crate) rootfs: String,
    pub(crate) layers: Option<&'a rootfs::Recipe>,
    pub(crate) linux: &'a Linux<'s>,
    pub(crate) mounts: &'a [Mount<'s>],
    pub(crate) namespaces: Namespaces,
    pub(crate) birth: Birth,
    pub(crate) cgroup: Option<&'a cgroup::Location>,
    pub(crate) caller: &'a Caller,
    /// Whether the start is to happen on CPUs of its own.
    pub has_start_cpus: bool,
}

impl Context<'_, '_> {
    /// Whether a path has to wait for the network namespace: it lies at or below a sysfs, which shows
    /// the one of whoever mounts it.
    pub(crate) fn shows_network(&self, path: &str) -> bool {
        if !self.birth.parallel_network {
            return false;
        }
        let place = clean(path);
        self.mounts.iter().filter(|mount| mount.kind == "sysfs").any(|sysfs| {
            let rest = place.strip_prefix(&*clean(&sysfs.destination));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

/// Collects the steps of both actors and hands out slots.
#[derive(Debug)]
pub struct Builder {
    pub(crate) host: Vec<HostStep>,
    pub(crate) init: Vec<InitStep>,
    pub(crate) slots: u16,
    /// What init takes from the host before anything else.
    pub(crate) taken: Vec<InitStep>,
    /// Whether it is init that takes mounts: the host actor may not.
    by_init: bool,
}

impl Builder {
    /// No steps. Of a `confined` caller it is init that takes mounts from the host.
    pub fn new(confined: bool) -> Self {
        Self {
            host: Vec::with_capacity(32),
            init: Vec::with_capacity(64),
            slots: Slot::FIRST_FREE.0,
            taken: Vec::new(),
            by_init: confined,
        }
    }

    /// Takes a mount tree from the host.
    pub fn take(&mut self, tree: CloneTree) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneTree(tree)),
            false => self.host.push(HostStep::CloneTree(tree)),
        }
    }

    /// Takes a device node from the host.
    pub fn take_device(&mut self, device: DeviceSource) {
        match self.by_init {
            true => self.taken.push(InitStep::CloneDevice(device)),
            false => self.host.push(HostStep::CloneDevice(device)),
        }
    }

    /// Appends a step of the host actor.
    pub fn host(&mut self, step: HostStep) {
        self.host.push(step);
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
    pub fn finish(self) -> (Vec<HostStep>, Vec<InitStep>, u16) {
        (self.host, self.init, self.slots)
    }
}
