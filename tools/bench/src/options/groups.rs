//! Those of `groups`, and of the work that it has done.

use super::{Common, some, time};
use clap::{Args, ValueEnum};
use report::size;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// `groups`.
#[derive(Debug, Args)]
pub struct Groups {
    /// What all experiments take; no runtime takes part.
    #[command(flatten)]
    pub common: Common,
    /// What groups are used for
    #[arg(
        long = "use",
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "consolidation,pinning,scaling,swap,isolation,rogue"
    )]
    pub uses: Vec<Use>,
    /// How long each state lasts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub phase: Duration,
    /// Threads of an instance, each with a transaction at a time
    #[arg(long, value_name = "N", value_parser = some, default_value = "4")]
    pub threads: usize,
    /// Memory of an instance
    #[arg(long, value_name = "SIZE", value_parser = size::mebibytes, default_value = "256m")]
    pub memory: usize,
}

/// A use of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Four instances, unrestricted, and with parts of the CPUs as 2 : 4 : 8 : 14
    Consolidation,
    /// One instance on all CPUs, one a memory node side by side, and each pinned to its node
    Pinning,
    /// One instance with more and more CPUs
    Scaling,
    /// Two instances of unlike CPUs, exchanged while they work
    Swap,
    /// One instance held to a part of the memory that it uses, beside others
    Isolation,
    /// An instance beside one that takes what it can get, which is then limited
    Rogue,
}

impl Use {
    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Consolidation => "consolidation",
            Self::Pinning => "pinning",
            Self::Scaling => "scaling",
            Self::Swap => "swap",
            Self::Isolation => "isolation",
            Self::Rogue => "rogue",
        }
    }
}

/// The work of an instance: `work`.
#[derive(Debug, Args)]
pub struct Work {
    /// Threads
    #[arg(long)]
    pub threads: usize,
    /// Memory to work on, in MiB
    #[arg(long)]
    pub memory: usize,
    /// Work on this file instead, which is made, and on memory that the kernel keeps of it
    #[arg(long)]
    pub file: Option<PathBuf>,
}
