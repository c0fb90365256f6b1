//! The options of `trace` and `trace-overhead`.

use super::{Common, Timing, some, time};
use crate::race::Operation;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The help of `trace` about runtimes.
const TRACED: &str = "A runtime; repeatable. dayfly traces itself; other runtimes are traced by \
    ptrace(2), and then dayfly is also traced by ptrace(2), in addition [default: dayfly]";

/// `trace`.
#[derive(Debug, Args)]
#[command(mut_arg("runtimes", |runtimes| runtimes.help(TRACED)))]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
#[command(mut_arg("csv", |csv| csv.help("Write the categories of each runtime and command as CSV")))]
pub struct Trace {
    /// The bundle to start [default: a bundle like that of the experiments, see --profile]
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["bundle", "profile"])]
    pub directory: Option<PathBuf>,
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
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
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
    /// Trace dayfly from outside like the other runtimes, instead of using its own trace
    #[arg(long)]
    pub outside: bool,
    /// The output: tables over all starts, the same figures as JSON, or one start as a file for a
    /// viewer. That start is the first runtime's start that is nearest to the median
    #[arg(long, value_enum, default_value_t = Kind::Table)]
    pub format: Kind,
}

/// The output of `trace`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Categories, slowest steps and critical path over all starts
    Table,
    /// The same figures as JSON
    Json,
    /// One start as Chrome trace events, which Perfetto opens
    Chrome,
    /// One start, one line per step
    Csv,
    /// One start as folded stacks, for flame graphs
    Folded,
    /// One start as a picture
    Svg,
    /// One start as JSON Lines, as `dayfly run --trace` writes it
    Jsonl,
}

/// Figures or a single start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Figures over all starts.
    Figures,
    /// One start.
    Picture(trace::Format),
}

impl Kind {
    /// Returns whether the output is figures or a single start.
    #[must_use]
    pub fn output(self) -> Output {
        match self {
            Self::Table | Self::Json => Output::Figures,
            Self::Chrome => Output::Picture(trace::Format::Chrome),
            Self::Csv => Output::Picture(trace::Format::Csv),
            Self::Folded => Output::Picture(trace::Format::Folded),
            Self::Svg => Output::Picture(trace::Format::Svg),
            Self::Jsonl => Output::Picture(trace::Format::Lines),
        }
    }
}

impl Trace {
    /// Moves the bundle and the format to the common options.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.common.bundle = self.directory.take().or(self.common.bundle);
        self.common.forms.json |= self.format == Kind::Json;
        self
    }
}

/// `trace-overhead`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("300")))]
#[command(mut_arg("runtimes", |runtimes| runtimes.help("A dayfly [default: this one]")))]
pub struct TraceOverhead {
    /// Options of all experiments; only the first runtime takes part, which must be a dayfly.
    #[command(flatten)]
    pub common: Common,
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
}
