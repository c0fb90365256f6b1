//! Intel RDT: cache and memory bandwidth by the groups of the resctrl file system
//! (Documentation/filesystems/resctrl.rst; runtime-spec, config-linux.md, `intelRdt`).
//!
//! Without `linux.intelRdt` in the configuration, nothing of this crate is called and it reads no file of the host.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod error;
mod group;
mod stats;

pub use error::Error;
pub use group::{Group, Schemata, is_enabled};
pub use stats::{BandwidthInfo, BandwidthUse, CacheInfo, CacheUse, Stats};
