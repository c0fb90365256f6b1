//! How init, and the intermediate that may make it, come into the world.

use sys::clone::CloneFlags;

use super::Slot;

/// Whose memory init works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A copy of the parent's.
    Copied,
    /// The parent's own. Only where init is the first process of a PID namespace: anybody else in
    /// there could trace it, and write to the parent.
    Shared,
}

/// A time namespace. Only children are born in a new one, and its clocks are set before the first
/// (time_namespaces(7)); so it is the parent who goes there, for the time of the clone.
#[derive(Debug, Clone, Copy)]
pub enum TimeNamespace<'a> {
    /// A new one, with this written to its timens_offsets.
    New(&'a str),
    /// The one of a slot, or of the process behind the pidfd there.
    Joined(Slot),
}

/// What the process that makes init in place of the parent joins and does first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intermediate {
    /// Namespaces that the user namespace does not own, where the parent may not go and come back.
    pub first: [Option<(Slot, CloneFlags)>; 4],
    /// A user namespace, or a process in it.
    pub user: Option<Slot>,
    /// The PID namespace that init is born in, where the parent may not go and come back; of the same
    /// process where it is the same slot.
    pub pid: Option<Slot>,
    /// Likewise the time namespace.
    pub time: bool,
    /// How many of init's first steps are the intermediate's: those whose effect init inherits, so that it is born in
    /// the container's namespaces, root directory and cgroups.
    pub steps: usize,
    /// If set, it closes every descriptor from this number on that init does not use before it makes init. Who
    /// has CAP_SYS_PTRACE and is in the PID namespace already can stop init before its first instruction;
    /// what init would close itself was in their hands by then.
    pub strips: Option<u32>,
}

impl Intermediate {
    /// Whose memory it works in: at best in `best`. In the parent's it may not join a user or time
    /// namespace.
    pub fn memory(&self, best: Memory) -> Memory {
        match self.user.is_none() && !self.time {
            true => best,
            false => Memory::Copied,
        }
    }

    /// The namespaces to be joined before the user namespace: one of each kind at most.
    pub fn first(
        joins: impl IntoIterator<Item = (Slot, CloneFlags)>,
    ) -> [Option<(Slot, CloneFlags)>; 4] {
        let mut joins = joins.into_iter();
        core::array::from_fn(|_| joins.next())
    }
}
