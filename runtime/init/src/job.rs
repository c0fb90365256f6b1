//! What init is born with.

use core::sync::atomic::AtomicI32;

use rustix::fd::RawFd;
use sys::clone::CloneFlags;
use sys::recorder::Recorder;
use sys::seccomp::Instruction;

use crate::slots::Slots;
use crate::step::{InitStep, Intermediate, Memory, StateText, TimeNamespace};

/// What init works with. In shared memory it is read until init's exec, so that all of it stays for as
/// long as the process; descriptors are numbers, which mean init's own copies.
#[derive(Debug)]
pub struct Job {
    /// What it does.
    pub steps: &'static [InitStep<'static>],
    /// The filter that it loads, if there is one.
    pub filter: Option<Filter>,
    /// The container's state, as its hooks are told.
    pub state: StateText<'static>,
    /// What the steps work on.
    pub slots: Slots,
    /// What init writes to, to join the hierarchies that it was not born in: `tasks` or `cgroup.procs`.
    pub procs: &'static [RawFd],
    /// Init's end of the channel.
    pub channel: RawFd,
    /// The parent's, which is closed first.
    pub parent_end: RawFd,
    /// Where an intermediate with memory of its own says what it has to say: on the channel init may be quicker.
    pub relay: Option<RawFd>,
    /// Where it leaves when it did what, if anybody asks.
    pub recorder: Option<Recorder>,
    /// Namespaces that an intermediate makes, from inside the user namespace of a slot.
    pub flags: CloneFlags,
    /// Who makes it, if not the parent.
    pub intermediate: Option<Intermediate>,
    /// Where the intermediate goes as well, if it is to.
    pub time: Option<TimeNamespace<'static>>,
    /// Whose memory init works in, or the intermediate if there is one.
    pub memory: Memory,
    /// What an intermediate that strips leaves open.
    pub kept: &'static [RawFd],
    /// Whether the parent moves init to its cgroups once it is there.
    pub is_moved: bool,
    /// Which of init's steps to stop before, in builds for tests.
    pub pause: Option<usize>,
    /// The pid of the init that an intermediate in the parent's memory has made; 0 before.
    pub made: AtomicI32,
}

impl Job {
    /// Whether an intermediate works in the parent's memory.
    pub fn relay_shares(&self) -> bool {
        self.intermediate.is_some() && self.relay.is_none()
    }

    /// The number of the step that makes a cgroup namespace, where the intermediate leaves that to init: it
    /// begins where init is once it has been moved.
    pub fn late_cgroup_namespace(&self) -> Option<usize> {
        let steps = self.intermediate.filter(|_| self.is_moved)?.steps;
        let mut first = self.steps.iter().take(steps);
        first.position(|step| {
            matches!(step, InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWCGROUP))
        })
    }
}

/// A seccomp filter as it is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// Its instructions.
    pub instructions: &'static [Instruction],
    /// SECCOMP_FILTER_FLAG_*.
    pub flags: u32,
}
