//! cgroup v2, v1 and hybrid through cgroupfs.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod controller;
pub mod devices;
mod directory;
mod error;
mod host;
mod location;
mod parse;
mod v2;

pub use controller::{Controller, Controllers};
pub use error::Error;
pub use host::{Hierarchy, Host, MOUNT_ROOT};
pub use location::{LegacyPlace, Location, Place};
