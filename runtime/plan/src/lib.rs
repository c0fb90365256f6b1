//! Compiles an OCI config into the steps of a container start.
//!
//! A container start is a program: `config.json` is its source, a [`Plan`] is the compiled form, and the launch crate
//! runs it. Compiling makes no system call that changes anything, so a plan can be printed (`dayfly plan`) and tested
//! without root.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod attributes;
mod birth;
mod builder;
mod caller;
pub mod check;
mod clone;
mod compile;
mod confinement;
mod context;
mod devices;
mod error;
mod exec;
mod fast_path;
mod filter;
mod hooks;
mod idmap;
mod keep;
mod kernel;
mod label;
mod layers;
mod listener;
mod mounts;
mod namespaces;
mod newborn;
mod path;
mod process;
mod program;
pub mod purpose;
mod request;
mod state;
pub mod step;

pub use attributes::Execution;
pub use birth::makes_network;
pub use caller::Caller;
pub use compile::compile;
pub use devices::device_paths;
pub use error::Error;
pub use exec::compile as compile_exec;
pub use fast_path::{FastPaths, WITHOUT};
pub use filter::compile_seccomp;
pub use hooks::compile as compile_hooks;
pub use init::step::StateText;
pub use kernel::Kernel;
pub use label::{INIT, Labelled, NETWORK, labels};
pub use listener::ExecAgent;
pub use mounts::propagation_of;
pub use path::{absolute, below, is_at_or_below};
pub use process::{KEEP_GROUPS, keeps_groups};
pub use request::{Console, ExecRequest, GivenRoot, ProgramStart, Request, RootSource};
pub use spec::clean;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use cgroup::resctrl;
use spec::resources::Resources;

/// A container start, compiled into one list of steps for the parent (dayfly itself) and one for init.
#[derive(Debug)]
pub struct Plan {
    /// The container's id.
    pub id: String,
    /// The parent's steps.
    pub parent: Vec<step::ParentStep>,
    /// Init's steps. The data they borrow is never freed.
    pub init: Vec<step::InitStep>,
    /// The number of descriptor slots that the steps use.
    pub slots: u16,
    /// The limit on open descriptors of the parent and of init while they run these steps, if the caller's is too low.
    pub descriptors: Option<Descriptors>,
    /// Warnings about settings that are not applied as requested.
    pub warnings: Vec<String>,
    /// prestart and createRuntime hooks, which the parent runs.
    pub runtime_hooks: [step::Hooks; 2],
    /// The state passed to hooks.
    pub state: StateText<'static>,
    /// Attributes of every process of the container.
    pub execution: Execution,
    /// The recipe of a root filesystem assembled from layers.
    pub rootfs: Option<Box<rootfs::Recipe>>,
    /// The cgroup; `None` if the container stays in the caller's cgroup.
    pub cgroup: Option<CgroupPlan>,
    /// The group of the resctrl file system, if the configuration has one.
    pub resctrl: Option<ResctrlPlan>,
    /// The seccomp program, for loading and for the record.
    pub filter: Option<seccomp::Program>,
}

/// A raised limit on open descriptors.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    /// The raised limit.
    pub raised: step::Limit,
    /// The caller's own limit. Hooks have it, and the program has it unless the configuration sets another.
    pub own: step::Limit,
}

/// The setup of the container's resctrl group (`linux.intelRdt`).
#[derive(Debug)]
pub enum ResctrlPlan {
    /// Created for a new container unless it exists.
    Create {
        /// The group.
        group: resctrl::Group,
        /// The group's limits.
        schemata: resctrl::Schemata,
    },
    /// Joined by an additional process.
    Join {
        /// The group.
        group: resctrl::Group,
    },
}

impl CgroupPlan {
    /// Returns whether the configuration limits the memory of a new container.
    pub fn limits_memory(&self) -> bool {
        let (Self::Create { resources, .. } | Self::Scope { resources, .. }) = self else {
            return false;
        };
        let limit = resources.memory.as_ref().and_then(|memory| memory.limit);
        limit.is_some_and(|limit| limit > 0) || resources.unified.contains_key("memory.max")
    }
}

/// The setup of the container's cgroup.
#[derive(Debug)]
pub enum CgroupPlan {
    /// Created for a new container.
    Create {
        /// The cgroup's location.
        location: cgroup::Location,
        /// The cgroup's limits.
        resources: Box<Resources>,
        /// Whether the caller may lack permission for parts of the cgroup (`--rootless`).
        as_user: bool,
    },
    /// Created by systemd for a new container.
    Scope {
        /// The cgroup's location, which includes a unit.
        location: cgroup::Location,
        /// The cgroup's limits.
        resources: Box<Resources>,
        /// Properties of the unit from annotations.
        properties: Vec<cgroup::systemd::Property>,
        /// Whether the scope's directory is made before systemd has the scope, if the host permits it. The plan then has
        /// a step [`AwaitScope`](step::ParentStep::AwaitScope).
        early: bool,
    },
    /// Joined by an additional process.
    Join {
        /// The cgroup's location.
        location: cgroup::Location,
        /// The pid of the container's init. If the location accepts no processes (any more), the
        /// cgroup of init is joined instead. `None` if the cgroup was requested explicitly.
        or_that_of: Option<i32>,
    },
}
