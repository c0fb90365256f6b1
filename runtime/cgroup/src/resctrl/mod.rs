//! Intel RDT: controls cache and memory bandwidth through groups in the resctrl file system
//! (Documentation/filesystems/resctrl.rst; runtime-spec, config-linux.md, `intelRdt`).
//!
//! If the configuration does not contain `linux.intelRdt`, dayfly does not use this module, and
//! reads no file of the host.

mod error;
mod group;
mod stats;

pub use error::Error;
pub use group::{Group, Schemata, is_enabled};
pub use stats::{BandwidthInfo, BandwidthUse, CacheInfo, CacheUse, Stats};
