//! The command line.

pub mod cgroup;
pub mod host;

use self::cgroup::CgroupCommand;
use self::host::HostCommand;
use clap::{Parser, Subcommand};

/// Looks after the cgroups of this host and what it does to container starts.
#[derive(Debug, Parser)]
#[command(name = "dayfly-host", bin_name = "dayfly", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan, apply and change the cgroups of this host
    #[command(subcommand)]
    Cgroup(CgroupCommand),
    /// Check what this host does to container starts
    #[command(subcommand)]
    Host(HostCommand),
}

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}
