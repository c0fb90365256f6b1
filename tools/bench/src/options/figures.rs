//! Those of `first-use`, `staircase`, `learned`, `memory` and `bulk`.

use super::{Common, Faas, Timing, some};
use crate::race::Operation;
use clap::{Args, ValueEnum};
use report::size;
use std::path::PathBuf;

/// What an experiment writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Written {
    /// Tables for people
    Table,
    /// All figures and samples as JSON
    Json,
    /// A line a sample
    Csv,
}

impl Written {
    /// Says so where all experiments have it.
    fn settle(self, common: &mut Common) {
        match self {
            Self::Table => {}
            Self::Json => common.json = true,
            // Beside a file of its own, if there is one to be.
            Self::Csv => _ = common.csv.get_or_insert_with(|| PathBuf::from("-")),
        }
    }
}

/// `first-use` and `staircase`: steps that are timed by themselves.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Steps {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
    /// What to write
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// `learned`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Learned {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
    /// Runs that each runtime learns from
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub learn: usize,
    /// What to write
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// `memory`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Memory {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// What to find out
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "limit,peak,idle"
    )]
    pub figure: Vec<Figure>,
    /// How often each figure is taken
    #[arg(long, value_name = "N", value_parser = some, default_value = "6")]
    pub rounds: usize,
    /// How close the smallest limit is looked for
    #[arg(long, value_name = "SIZE", value_parser = size::kibibytes, default_value = "16k")]
    pub precision: usize,
    /// Starts in a row that a limit must let through
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub tries: usize,
    /// Whose commands are looked at for their peaks
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "run,lifecycle,exec"
    )]
    pub operation: Vec<Operation>,
    /// What to write
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
    /// What stays beside a container that sleeps
    Idle,
}

/// `bulk`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Bulk {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// Containers that are created, and then started
    #[arg(long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// Starts at a time; 1 is one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = some, default_value = "1,16")]
    pub width: Vec<usize>,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 6)]
    pub rounds: usize,
    /// Give each container 2 CPUs and 4 GiB of memory, as \"podman create --cpus 2 -m 4g\" does; needs these controllers
    #[arg(long)]
    pub limits: bool,
    /// What to write
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// The form where all experiments have it.
macro_rules! settled {
    ($($options:ty),*) => { $(
        impl $options {
            /// The form of what is written where the other experiments have it.
            #[must_use]
            pub fn settled(mut self) -> Self {
                self.format.settle(&mut self.common);
                self
            }
        }
    )* };
}
settled!(Steps, Learned, Memory, Bulk, Faas);
