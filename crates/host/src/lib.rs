//! Looks after the cgroups of this host and what it does to container starts.
//!
//! | part | what |
//! |---|---|
//! | [`topology`] | CPUs, cores, caches, sockets and memory nodes |
//! | [`cgroup`] | plan files, commands, pinning, live change, tiers |
//! | [`host`] | what this host does to container starts, and what helps |
//! | [`table`], [`chart`], [`error`], [`options`], [`say`] | what they share |

#[macro_use]
pub mod say;

pub mod cgroup;
pub mod chart;
pub mod error;
pub mod host;
pub mod options;
pub mod table;
pub mod topology;

pub use error::Error;
