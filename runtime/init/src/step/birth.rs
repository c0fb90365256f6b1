//! The creation of init, and of the intermediate if there is one.

use sys::clone::CloneFlags;

use super::Slot;

/// The memory of a new process: a copy of the parent's memory, or the parent's memory itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A copy of the parent's memory.
    Copied,
    /// The parent's own memory. Used only if init is the first process of a PID namespace: another
    /// process in that namespace could trace init, and so write to the parent's memory.
    Shared,
}

/// A time namespace. unshare(2) moves only future children of the caller to a new time namespace, and the offsets of
/// its clocks must be written before the first process enters it (time_namespaces(7)). So the parent selects this
/// namespace for its children, clones, and then returns to its old time namespace.
#[derive(Debug, Clone, Copy)]
pub enum TimeNamespace<'a> {
    /// A new namespace, with this text for its file timens_offsets.
    New(&'a str),
    /// An existing namespace: the slot contains the namespace, or the pidfd of a process in it.
    Joined(Slot),
}

/// The namespaces that the intermediate joins, and the steps that it runs, before it creates init in place of the
/// parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intermediate {
    /// Namespaces that the intermediate joins before the user namespace: a namespace that the user namespace does not
    /// own cannot be joined from inside. Empty if the parent can join these namespaces and then return to its own.
    pub first: [Option<(Slot, CloneFlags)>; 4],
    /// The slot of a user namespace, or of the pidfd of a process in it.
    pub user: Option<Slot>,
    /// The PID namespace for init, if the parent cannot join it and then return to its own. If `pid` and `user` are the
    /// same slot, the slot contains the pidfd of a process in both namespaces.
    pub pid: Option<Slot>,
    /// Whether the intermediate also joins the time namespace.
    pub time: bool,
    /// The number of init's first steps that the intermediate runs. Init inherits the effects of these steps, so it
    /// starts in the container's namespaces, root directory and cgroups.
    pub steps: usize,
    /// If set, the intermediate closes the descriptors from this number on, except those that init uses, before it
    /// creates init. A process with CAP_SYS_PTRACE in the PID namespace can stop init before its first instruction, and
    /// could then copy descriptors that init would have closed.
    pub strips: Option<u32>,
}

impl Intermediate {
    /// Returns `best` if the intermediate can work with that memory, or else [`Memory::Copied`]. A process that shares
    /// the parent's memory cannot join a user or time namespace.
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
