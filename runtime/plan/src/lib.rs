//! Compiles an OCI config into the steps of a container start.
//!
//! A container start is a program: `config.json` is its source, a [`Plan`] is what it compiles to, and
//! the launch crate runs it. Compiling makes no system call that changes anything; what it decides
//! can be printed (`dayfly plan`) and tested without root.
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
mod request;
mod state;
pub mod step;

pub use attributes::Execution;
pub use caller::Caller;
pub use compile::{compile, compile_seccomp, makes_network};
pub use error::Error;
pub use exec::compile as compile_exec;
pub use fast_path::{FastPaths, WITHOUT};
pub use hooks::compile as compile_hooks;
pub use init::step::StateText;
pub use kernel::Kernel;
pub use label::{INIT, Labelled, NETWORK, labels};
pub use listener::ExecAgent;
pub use path::{absolute, below, is_at_or_below};
pub use process::{KEEP_GROUPS, keeps_groups};
pub use request::{Console, ExecRequest, GivenRoot, Request, RootSource};
pub use spec::clean;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use spec::resources::Resources;

/// A container start as a program for two actors.
#[derive(Debug)]
pub struct Plan {
    /// The container's id.
    pub id: String,
    /// What the parent does.
    pub parent: Vec<step::ParentStep>,
    /// What init does. What these steps borrow is never freed.
    pub init: Vec<step::InitStep>,
    /// How many slots for descriptors the steps use.
    pub slots: u16,
    /// What is not done as it was asked for, and is no reason to fail.
    pub warnings: Vec<String>,
    /// prestart and createRuntime, which the parent runs.
    pub runtime_hooks: [step::Hooks; 2],
    /// The state that hooks are told.
    pub state: StateText<'static>,
    /// What every process of the container has.
    pub execution: Execution,
    /// What the root filesystem is assembled from, where that is layers.
    pub rootfs: Option<Box<rootfs::Recipe>>,
    /// The cgroup; `None` where the container stays in the caller's.
    pub cgroup: Option<CgroupPlan>,
    /// The group of the resctrl file system, if the configuration has one.
    pub resctrl: Option<ResctrlPlan>,
    /// The seccomp program, to be loaded, and for the record.
    pub filter: Option<seccomp::Program>,
}

/// What happens to the container's resctrl group (`linux.intelRdt`).
#[derive(Debug)]
pub enum ResctrlPlan {
    /// Made, unless it is there, for a new container.
    Create {
        /// Where.
        group: resctrl::Group,
        /// Its limits.
        schemata: resctrl::Schemata,
    },
    /// Joined by an additional process.
    Join {
        /// Where.
        group: resctrl::Group,
    },
}

/// What happens to the container's cgroup.
#[derive(Debug)]
pub enum CgroupPlan {
    /// Made for a new container.
    Create {
        /// Where.
        location: cgroup::Location,
        /// Its limits.
        resources: Box<Resources>,
        /// Whether the caller may lack the right to some of it (`--rootless`).
        as_user: bool,
    },
    /// Made by systemd for a new container.
    Scope {
        /// Where; it has a unit.
        location: cgroup::Location,
        /// Its limits.
        resources: Box<Resources>,
        /// What annotations say of the unit.
        properties: Vec<systemd::Property>,
    },
    /// Joined by an additional process.
    Join {
        /// Where.
        location: cgroup::Location,
        /// The container's init, whose cgroup is joined where this one takes no processes (any more);
        /// `None` where it is one that was asked for.
        or_that_of: Option<i32>,
    },
}
