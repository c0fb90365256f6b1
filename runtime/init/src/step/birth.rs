//! The creation of init, and of the intermediate if there is one.

use sys::clone::CloneFlags;

use super::Slot;

/// The memory that init works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A copy of the parent's memory.
    Copied,
    /// The parent's own memory. Used only if init is the first process of a PID namespace: another
    /// process in that namespace could trace init, and so write to the parent's memory.
    Shared,
}

/// A time namespace. unshare(2) moves only children to a new time namespace, and its clocks are set before the first
/// process enters (time_namespaces(7)). So the parent selects the namespace for its children for the duration of the
/// clone.
#[derive(Debug, Clone, Copy)]
pub enum TimeNamespace<'a> {
    /// A new namespace, with this text for its file timens_offsets.
    New(&'a str),
    /// An existing namespace: the slot contains the namespace, or the pidfd of a process in it.
    Joined(Slot),
}

/// The namespaces and steps of a process that creates init in place of the parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intermediate {
    /// Namespaces that the intermediate joins before the user namespace, because the user namespace may not own them.
    /// None if the parent can join them and then return to its own namespaces.
    pub first: [Option<(Slot, CloneFlags)>; 4],
    /// The slot of a user namespace, or of the pidfd of a process in it.
    pub user: Option<Slot>,
    /// The PID namespace for init, if the parent cannot join it and then return to its own. If `pid` and `user` are the
    /// same slot, the slot contains the pidfd of a process in both namespaces.
    pub pid: Option<Slot>,
    /// Whether the intermediate also joins the time namespace.
    pub time: bool,
    /// The number of init's first steps that the intermediate runs. Init inherits the effects of
    /// these steps, so that init starts in the container's namespaces, root directory and cgroups.
    pub steps: usize,
    /// If set, the intermediate closes every descriptor from this number on that init does not use, before it creates
    /// init. A process with CAP_SYS_PTRACE in the PID namespace can stop init before its first instruction, and could
    /// copy descriptors that init closes itself.
    pub strips: Option<u32>,
}

impl Intermediate {
    /// Returns the memory that the intermediate works in: `best` if possible. A process in the
    /// parent's memory cannot join a user or time namespace.
    pub fn memory(&self, best: Memory) -> Memory {
        match self.user.is_none() && !self.time {
            true => best,
            false => Memory::Copied,
        }
    }

    /// Returns the namespaces to join before the user namespace: at most one of each type.
    pub fn first(
        joins: impl IntoIterator<Item = (Slot, CloneFlags)>,
    ) -> [Option<(Slot, CloneFlags)>; 4] {
        let mut joins = joins.into_iter();
        core::array::from_fn(|_| joins.next())
    }
}
