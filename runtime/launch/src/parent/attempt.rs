//! One attempt to create init, and the reason why it failed.

use alloc::vec::Vec;

use cgroup::Cgroup;
use plan::Plan;
use plan::step::{Intermediate, Memory, ParentStep, TimeNamespace};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use sys::clone::CloneFlags;

use crate::Error;

/// One way to create init.
pub(super) struct Attempt {
    /// The new namespaces.
    pub flags: CloneFlags,
    pub intermediate: Option<Intermediate>,
    pub time: Option<TimeNamespace>,
    pub memory: Memory,
    /// Whether the clone creates init in the v2 cgroup (CLONE_INTO_CGROUP).
    pub into_cgroup: bool,
    /// Whether init joins v1 cgroups by moving its only thread.
    pub thread_move: bool,
    /// The files through which init joins its cgroup, if it is not created there.
    pub procs: Vec<OwnedFd>,
    /// The cgroup in which init is created, if not the plan's.
    pub beside: Option<Cgroup>,
    /// The way in which init is moved, if it is created outside its v2 cgroup and does not move
    /// itself.
    pub moved: Moved,
}

impl Attempt {
    /// Returns the way that the plan requires, without the files.
    pub fn of(plan: &Plan) -> Option<Self> {
        plan.parent.iter().find_map(|step| match *step {
            ParentStep::Clone { flags, intermediate, memory, time, into_cgroup, thread_move } => {
                let (procs, beside, moved) = (Vec::new(), None, Moved::No);
                Some(Self {
                    flags,
                    intermediate,
                    time,
                    memory,
                    into_cgroup,
                    thread_move,
                    procs,
                    beside,
                    moved,
                })
            }
            _ => None,
        })
    }

    /// Returns the namespaces that the parent's clone creates. If there is an intermediate, the result is empty,
    /// because the intermediate creates the namespaces later.
    pub fn at_birth(&self) -> CloneFlags {
        if self.intermediate.is_some() { CloneFlags::empty() } else { self.flags }
    }

    /// Returns the directory in which init, or its intermediate, is created.
    pub fn born_in<'a>(&'a self, own: Option<&'a Cgroup>) -> Option<BorrowedFd<'a>> {
        let is_born_inside = self.into_cgroup && self.moved == Moved::No;
        let cgroup = self.beside.as_ref().or(own).filter(|_| is_born_inside);
        cgroup.and_then(Cgroup::dir_fd)
    }
}

/// Whether the parent moves init to its cgroups after the clone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// No: init is created in its cgroup, or moves itself.
    No,
    /// Only in the v2 hierarchy; init itself joins its v1 cgroups.
    Unified,
    /// In all hierarchies, so that neither init nor its intermediate moves itself.
    Everywhere,
}

/// The reason why an attempt failed.
pub(super) enum AttemptError {
    /// The clone itself failed.
    Clone(Errno),
    /// A step before or after the clone failed.
    Other(Error),
}

impl From<sys::Error> for AttemptError {
    fn from(error: sys::Error) -> Self {
        Self::Other(error.into())
    }
}
