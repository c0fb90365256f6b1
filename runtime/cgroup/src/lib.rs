//! cgroups on hosts with cgroup v2, v1 or both (hybrid), through cgroupfs.
//!
//! [`Hierarchies`] describes the host's hierarchies, [`Location`] contains the directories of a container's cgroup in
//! these hierarchies, and [`Cgroup`] creates, opens, changes and removes that cgroup. [`resctrl`] has the groups of Intel
//! RDT, and [`systemd`] requests scopes over D-Bus. This crate does not depend on the crate `container`.
#![cfg_attr(not(any(test, feature = "fuzz")), no_std)]

extern crate alloc;

mod cgroup;
mod controller;
pub mod devices;
mod directory;
mod error;
#[cfg(test)]
mod fixture;
mod freezer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod hierarchies;
mod location;
mod oom;
mod own;
mod parse;
pub mod pool;
mod processes;
mod remove;
pub mod resctrl;
mod scope;
pub mod stats;
pub mod systemd;
mod tree;
mod v1;
mod v2;
mod wait;

pub use cgroup::Cgroup;
pub use controller::{Controller, Controllers};
pub use error::Error;
pub use freezer::FreezerState;
pub use hierarchies::{Hierarchies, Hierarchy, MOUNT_ROOT};
pub use location::{LegacyPlace, Location, Place};
pub use oom::{OomEvent, OomWatch};
pub use own::lines;
pub use scope::{ScopeJob, ScopeRequest, user_instance};
pub use v2::limits::ignored as ignored_on_v2;
pub use v2::weight;
