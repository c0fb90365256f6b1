//! cgroup v2, v1 and hybrid through cgroupfs.
//!
//! [`Host`] says which hierarchies there are, [`Location`] which directories a container's cgroup
//! has in them, and [`Cgroup`] makes, opens, changes and removes it. Nothing here knows of containers.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod cgroup;
mod controller;
pub mod dbus;
pub mod devices;
mod directory;
mod error;
#[cfg(test)]
mod fixture;
mod freezer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod host;
mod list;
mod location;
mod oom;
mod parse;
pub mod pin;
mod processes;
mod remove;
pub mod resctrl;
pub mod stats;
pub mod systemd;
pub mod tier;
pub mod topology;
mod tree;
mod v1;
mod v2;
mod wait;

pub use cgroup::Cgroup;
pub use controller::{Controller, Controllers};
pub use error::Error;
pub use freezer::FreezerState;
pub use host::{Hierarchy, Host, MOUNT_ROOT};
pub use list::List;
pub use location::{LegacyPlace, Location, Place};
pub use oom::{OomEvent, OomWatch};
pub use topology::Topology;
pub use v2::limits::ignored as ignored_on_v2;
pub use v2::weight;
