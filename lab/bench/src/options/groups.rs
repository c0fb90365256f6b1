//! The options of `groups`, and of its workload.

use super::{Common, some, time};
use clap::{Args, ValueEnum};
use report::size;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// `groups`.
#[derive(Debug, Args)]
pub struct Groups {
    /// Options of all experiments; no runtime takes part.
    #[command(flatten)]
    pub common: Common,
    /// The uses of groups
    #[arg(
        long = "use",
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "consolidation,pinning,scaling,swap,isolation,rogue"
    )]
    pub uses: Vec<Use>,
    /// Duration of each state
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub phase: Duration,
    /// Number of threads of an instance, each of which performs one transaction at a time
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
    /// Four instances, unrestricted, and with CPU shares of 2 : 4 : 8 : 14
    Consolidation,
    /// One instance on all CPUs; then one instance per memory node at the same time, unpinned and
    /// pinned to its node
    Pinning,
    /// One instance with a growing number of CPUs
    Scaling,
    /// Two instances with different CPUs, exchanged while they work
    Swap,
    /// One instance limited to a part of the memory that it uses, beside others
    Isolation,
    /// An instance beside a rogue instance that uses all available memory and CPU time, first
    /// without and then with a limit on the rogue
    Rogue,
}

impl Use {
    /// Returns the name of the use in options and reports.
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

/// The workload of an instance: `work`.
#[derive(Debug, Args)]
pub struct Work {
    /// Threads
    #[arg(long)]
    pub threads: usize,
    /// Memory to work on, in MiB
    #[arg(long)]
    pub memory: usize,
    /// Create this file and read its pages, which the kernel caches, instead of using memory
    #[arg(long)]
    pub file: Option<PathBuf>,
}
