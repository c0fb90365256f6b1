//! The options of `dayfly cgroup`.

use clap::Subcommand;

/// Commands of `dayfly cgroup`.
#[derive(Debug, Subcommand)]
pub enum CgroupCommand {}
