//! Those of `trace` and `trace-overhead`.

use super::{Common, Timing, some, time};
use crate::race::Operation;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// What `trace` says of runtimes.
const TRACED: &str = "A runtime; repeatable. dayfly tells by itself what it did; any other is \
    followed by ptrace(2), as dayfly then is too, besides [default: dayfly]";

/// `trace`.
#[derive(Debug, Args)]
#[command(mut_arg("runtimes", |runtimes| runtimes.help(TRACED)))]
#[command(mut_arg("json", |json| json.help("The same as --format json")))]
#[command(mut_arg("csv", |csv| csv.help("Write the categories of each runtime and command as CSV")))]
pub struct Trace {
    /// The bundle to start [default: one that the experiments use, see --profile]
    #[arg(value_name = "BUNDLE", conflicts_with_all = ["bundle", "profile"])]
    pub directory: Option<PathBuf>,
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// Starts that count
    #[arg(short = 'n', long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// The time between two starts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    pub interval: Duration,
    /// Starts before those that count
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// What is done to a container, and traced
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
    /// Follow dayfly from outside as well, instead of asking it for its own trace
    #[arg(long)]
    pub outside: bool,
    /// What to write: tables over all starts for people, the same figures as JSON, or the one start
    /// by the first runtime that is nearest to the median, as a file for a viewer
    #[arg(long, value_enum, default_value_t = Kind::Table)]
    pub format: Kind,
}

/// What `trace` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Categories, slowest steps and critical path over all starts
    Table,
    /// The same figures as JSON
    Json,
    /// One start as Chrome's trace events, which Perfetto opens
    Chrome,
    /// One start, a line a step
    Csv,
    /// One start as folded stacks, for flame graphs
    Folded,
    /// One start as a picture
    Svg,
    /// One start as JSON Lines, as `dayfly run --trace` writes it
    Jsonl,
}

/// Whether figures or a start are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Figures over all starts.
    Figures,
    /// One start.
    Picture(trace::Format),
}

impl Kind {
    /// Which of both it is.
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
    /// The bundle and the format where the other experiments have them.
    #[must_use]
    pub fn settled(mut self) -> Self {
        self.common.bundle = self.directory.take().or(self.common.bundle);
        self.common.json |= self.format == Kind::Json;
        self
    }
}

/// `trace-overhead`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("300")))]
#[command(mut_arg("runtimes", |runtimes| runtimes.help("A dayfly [default: this one]")))]
pub struct TraceOverhead {
    /// What all experiments take; the first runtime alone takes part, which must be a dayfly.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
}
