//! The options of `dayfly host`.

use clap::Subcommand;

/// Commands of `dayfly host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {}
