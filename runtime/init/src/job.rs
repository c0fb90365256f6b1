//! The data that init is created with.

use core::sync::atomic::AtomicI32;

use rustix::fd::RawFd;
use sys::clone::CloneFlags;
use sys::recorder::Recorder;
use sys::seccomp::Instruction;

use crate::slots::Slots;
use crate::step::{InitStep, Intermediate, Memory, StateText, TimeNamespace};

/// Init's input. An init in the parent's memory reads this data until its exec, so the data is
/// never freed. Descriptors are numbers, which refer to init's own copies.
#[derive(Debug)]
pub struct Job {
    /// The steps.
    pub steps: &'static [InitStep<'static>],
    /// The filter to load, if any.
    pub filter: Option<Filter>,
    /// The container's state, for its hooks.
    pub state: StateText<'static>,
    /// The descriptors that the steps use.
    pub slots: Slots,
    /// The files that init writes to join hierarchies it was not created in: `tasks` or `cgroup.procs`.
    pub procs: &'static [RawFd],
    /// Init's end of the channel.
    pub channel: RawFd,
    /// The parent's end of the channel, which init closes first.
    pub parent_end: RawFd,
    /// The socket on which an intermediate with memory of its own reports. On the channel, its report could arrive
    /// after messages from init.
    pub relay: Option<RawFd>,
    /// The time line of init's steps, if traced.
    pub recorder: Option<Recorder>,
    /// The new namespaces that an intermediate creates together with init.
    pub flags: CloneFlags,
    /// The intermediate process that creates init, if the parent does not.
    pub intermediate: Option<Intermediate>,
    /// The time namespace for the intermediate, if any.
    pub time: Option<TimeNamespace<'static>>,
    /// The memory that init works in, or the intermediate if there is one.
    pub memory: Memory,
    /// The descriptors that an intermediate leaves open if it closes inherited ones.
    pub kept: &'static [RawFd],
    /// Whether the parent moves init to init's cgroups after the clone.
    pub is_moved: bool,
    /// The step before which init stops, in test builds.
    pub pause: Option<usize>,
    /// The pid of the init created by an intermediate in the parent's memory; 0 before its creation.
    pub made: AtomicI32,
}

impl Job {
    /// Returns whether an intermediate works in the parent's memory.
    pub fn relay_shares(&self) -> bool {
        self.intermediate.is_some() && self.relay.is_none()
    }

    /// Returns the number of the step that creates a cgroup namespace, if the intermediate leaves that step to init:
    /// the namespace must be rooted at the cgroup to which the parent moves init.
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
