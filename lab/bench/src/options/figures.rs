//! The options of `first-use`, `staircase`, `learned`, `memory` and `bulk`.

use super::{Common, Faas, Forms, Restore, Templates, Timing, some};
use crate::race::Operation;
use clap::{Args, ValueEnum};
use report::size;
use std::path::PathBuf;

/// The output format of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// Tables
    Table,
    /// All figures and samples as JSON
    Json,
    /// One line per sample
    Csv,
}

impl Written {
    /// Sets the forms for this format.
    pub(super) fn settle(self, forms: &mut Forms) {
        match self {
            Self::Table => {}
            Self::Json => forms.json = true,
            // A file given by --csv is written as well.
            Self::Csv => _ = forms.csv.get_or_insert_with(|| PathBuf::from("-")),
        }
    }
}

/// `first-use` and `staircase`: steps that are timed separately.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Steps {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// `learned`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Learned {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// Number of runs that each runtime learns from
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub learn: usize,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// `memory`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Memory {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// The figures to measure
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "limit,peak,idle"
    )]
    pub figure: Vec<Figure>,
    /// Number of measurements of each figure
    #[arg(long, value_name = "N", value_parser = some, default_value = "6")]
    pub rounds: usize,
    /// Precision with which the smallest sufficient limit is searched
    #[arg(long, value_name = "SIZE", value_parser = size::kibibytes, default_value = "16k")]
    pub precision: usize,
    /// Number of starts in a row that must succeed with a limit
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub tries: usize,
    /// Operations whose peaks are measured
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "run,lifecycle,exec"
    )]
    pub operation: Vec<Operation>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// A figure of `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// The smallest memory limit with which a container starts
    Limit,
    /// The largest resident set of any process of a command
    Peak,
    /// The resources in use beside a sleeping container
    Idle,
}

/// `bulk`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Bulk {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// Number of containers that are created, and then started
    #[arg(long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// Number of starts at a time; 1 is one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = some, default_value = "1,16")]
    pub width: Vec<usize>,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 6)]
    pub rounds: usize,
    /// Limit each container to 2 CPUs and 4 GiB of memory, like "podman create --cpus 2 -m 4g"; requires these
    /// controllers
    #[arg(long)]
    pub limits: bool,
    /// Create and start them by podman, which executes each runtime, instead of by the runtime itself
    #[arg(long)]
    pub podman: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// Moves the format to the common options.
macro_rules! settled {
    ($($options:ty),*) => { $(
        impl $options {
            /// Moves the format to the common options, where the other experiments have it.
            #[must_use]
            pub fn settled(mut self) -> Self {
                self.format.settle(&mut self.common.forms);
                self
            }
        }
    )* };
}
settled!(Steps, Learned, Memory, Bulk, Faas, Restore, Templates);
