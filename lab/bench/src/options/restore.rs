//! The options of `restore`.

use super::{Common, Written, some};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `restore`.
#[derive(Debug, Args)]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
pub struct Restore {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// Programs that warm up
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "python,java,node"
    )]
    pub programs: Vec<Warmed>,
    /// The program criu [default: peers/bin/criu of the build directory, or criu in $PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 20)]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// The output format
    #[arg(long, value_enum, default_value_t = Written::Table)]
    pub format: Written,
}

/// A program that warms up before it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Warmed {
    /// Python with 26 imports
    Python,
    /// A JVM with collections, regular expressions, dates
    Java,
    /// Node.js with 24 of its modules
    Node,
}
