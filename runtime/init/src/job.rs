//! The data that init is created with.

use core::sync::atomic::{AtomicBool, AtomicI32};

use rustix::fd::{BorrowedFd, RawFd};
use sys::clone::CloneFlags;
use sys::recorder::Recorder;
use sys::seccomp::Instruction;
use sys::shared::Leaked;

use crate::slots::Slots;
use crate::step::{InitStep, Intermediate, Limit, Memory, StateText, TimeNamespace};

/// Init's input. An init that shares the parent's memory reads this data until its exec, so the data is never freed. The
/// parent may close the descriptors after the clone; init has its own copies, with the same numbers.
#[derive(Debug)]
pub struct Job<'fd> {
    /// The steps.
    pub steps: &'static [InitStep<'static>],
    /// The filter to load, if any.
    pub filter: Option<Filter>,
    /// The caller's limit on open descriptors, if init's own is higher until its last steps.
    pub own_nofile: Option<Limit>,
    /// The container's state, for its hooks.
    pub state: StateText<'static>,
    /// The descriptors that the steps use.
    pub slots: Slots<'fd>,
    /// The files to which init writes to join the cgroups in which it was not created: `tasks` or `cgroup.procs`.
    pub procs: Leaked<[BorrowedFd<'fd>]>,
    /// Init's end of the channel.
    pub channel: BorrowedFd<'fd>,
    /// The parent's end of the channel, which init closes first.
    pub parent_end: BorrowedFd<'fd>,
    /// The socket over which an intermediate reports to the parent, if the intermediate does not share the parent's
    /// memory. Over the channel, the intermediate's report could arrive after messages from init.
    pub relay: Option<BorrowedFd<'fd>>,
    /// The time line of init's steps, if the start is traced.
    pub recorder: Option<Recorder>,
    /// The new namespaces that an intermediate creates together with init.
    pub flags: CloneFlags,
    /// The intermediate process that creates init, if the parent does not.
    pub intermediate: Option<Intermediate>,
    /// The time namespace for the intermediate, if any.
    pub time: Option<TimeNamespace<'static>>,
    /// Whether the parent's child shares the parent's memory. The child is the intermediate, if there is one, or else
    /// init.
    pub memory: Memory,
    /// The descriptors that stay open if an intermediate closes the inherited ones.
    pub kept: &'static [RawFd],
    /// Whether the parent moves init to init's cgroups after the clone. If not, init is created there or moves itself.
    pub is_moved: bool,
    /// The step before which init stops, in test builds.
    pub pause: Option<usize>,
    /// Whether init has begun to run, if it shares the parent's memory.
    pub begun: &'static AtomicBool,
    /// Init's pid, stored by an intermediate that shares the parent's memory; 0 until init is created.
    pub made: AtomicI32,
}

impl Job<'_> {
    /// Returns whether there is an intermediate that shares the parent's memory.
    pub fn relay_shares(&self) -> bool {
        self.intermediate.is_some() && self.relay.is_none()
    }

    /// Returns the number of the step that creates a cgroup namespace, if the intermediate leaves that step to init.
    /// The intermediate does so if the parent moves init after the clone, because the cgroup to which init is moved
    /// must become the namespace's root.
    pub fn late_cgroup_namespace(&self) -> Option<usize> {
        let steps = self.intermediate.filter(|_| self.is_moved)?.steps;
        let mut first = self.steps.iter().take(steps);
        first.position(|step| {
            matches!(step, InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWCGROUP))
        })
    }
}

/// A seccomp filter to load.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// The instructions of the filter.
    pub instructions: &'static [Instruction],
    /// SECCOMP_FILTER_FLAG_*.
    pub flags: u32,
}
