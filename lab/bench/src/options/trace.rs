//! The options of `trace`, `trace-overhead` and `flame`.

use crate::arguments::{Format, Timing, some};
use crate::layers::Mode;
use crate::race::Operation;
use clap::Args;
use report::time::time;
use std::path::PathBuf;
use std::time::Duration;

/// The help of `trace` about runtimes.
const TRACED: &str = "A runtime; repeatable. dayfly traces itself; other runtimes are traced by \
    ptrace(2), and then dayfly is also traced by ptrace(2), in addition [default: dayfly]";

/// The help of `trace` about formats.
const FORMATS: &str = "The output: tables over all starts, the same figures as JSON, or one start as a file for a \
    viewer. That start is the first runtime's start that is nearest to the median";

/// `trace`.
#[derive(Debug, Args)]
#[command(mut_arg("runtimes", |runtimes| runtimes.help(TRACED)))]
#[command(mut_arg("format", |it| it.value_parser(clap::value_parser!(Format)).help(FORMATS)))]
#[command(mut_arg("program", |program| program.index(2)))]
#[command(mut_arg("csv", |csv| csv.help("Write the categories of each runtime and command as CSV")))]
pub struct Trace {
    /// The bundle to start [default: a bundle like that of the experiments, see --profile]
    #[arg(value_name = "BUNDLE", index = 1, conflicts_with_all = ["bundle", "profile"])]
    pub directory: Option<PathBuf>,
    /// Number of measured starts
    #[arg(short = 'n', long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// The time between two starts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    pub interval: Duration,
    /// Number of starts before the measured ones
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// The traced operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
    /// Trace dayfly from outside like the other runtimes, instead of using its own trace
    #[arg(long)]
    pub outside: bool,
    /// The format of a single start, if one is asked for.
    #[arg(skip)]
    pub of_one_start: Option<trace::Format>,
}

/// `trace-overhead`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("300")))]
#[command(mut_arg("runtimes", |runtimes| runtimes.help("A dayfly [default: this one]")))]
pub struct TraceOverhead {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
}

/// `flame`.
#[derive(Debug, Args)]
pub struct Flame {
    /// Containers in flight
    #[arg(long, value_name = "N", value_parser = some, default_value = "16")]
    pub width: usize,
    /// Number of containers of each runtime
    #[arg(long, value_name = "N", value_parser = some, default_value = "240")]
    pub count: usize,
    /// Samples per second of each CPU
    #[arg(long, value_name = "HERTZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
    /// Run only dayfly, with containers of this many layers, in each of the modes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub layers: usize,
    /// Ways to assemble their root filesystems
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "per-layer,fd",
        requires = "layers"
    )]
    pub modes: Vec<Mode>,
}
