//! The arguments that experiments share.

use crate::base::*;
use crate::config::Profile;
use crate::view::View;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The output format of an experiment. Only `trace` has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables
    Table,
    /// All figures and samples as JSON
    Json,
    /// One line per sample; in "trace", one start, one line per step
    Csv,
    /// One start as Chrome trace events, which Perfetto opens
    Chrome,
    /// One start as folded stacks, for flame graphs
    Folded,
    /// One start as a picture
    Svg,
    /// One start as JSON Lines, as `dayfly run --trace` writes it
    Jsonl,
}

impl Format {
    /// Returns the format of a single traced start; tables and JSON have the figures of all starts.
    pub fn of_one_start(self) -> Option<trace::Format> {
        match self {
            Self::Table | Self::Json => None,
            _ => trace::Format::parse(&self.name()),
        }
    }
}

/// Returns the parser of formats that all experiments have.
fn common_formats() -> impl TypedValueParser<Value = Format> {
    let common = [Format::Table, Format::Json, Format::Csv];
    PossibleValuesParser::new(common.iter().filter_map(ValueEnum::to_possible_value))
        .try_map(|name| Format::from_str(&name, false))
}

/// The forms of an experiment's output.
#[derive(Debug, Args)]
pub struct Forms {
    /// The output format
    #[arg(long, value_name = "FORMAT", value_parser = common_formats(), default_value = "table")]
    pub format: Format,
    /// The same as --format json
    #[arg(long)]
    pub json: bool,
    /// Write every sample as a line of CSV; - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a picture of the results
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the output to FILE instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Forms {
    /// Returns whether the output is JSON.
    pub fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }

    /// Checks that the directories of the output files exist. Otherwise an experiment would run for
    /// minutes, and its results would be lost.
    ///
    /// # Errors
    /// If a directory does not exist, or is not a directory.
    pub fn check_directories(&self) -> Result<(), Error> {
        let files = [&self.csv, &self.svg, &self.output];
        for directory in files.into_iter().flatten().filter_map(|file| file.parent()) {
            // The parent of a plain name is the empty path: the working directory.
            if directory != Path::new("") && !directory.is_dir() {
                let shown = directory.display();
                bail!("{shown}, for the output, is not a directory");
            }
        }
        Ok(())
    }
}

/// Options of all experiments.
#[derive(Debug, Args)]
pub struct Common {
    /// A runtime; may be given several times, and the others are compared with the first [default:
    /// dayfly, and crun, runc and youki as far as they are found]
    #[arg(long = "runtime", value_name = "[NAME=]PATH")]
    pub runtimes: Vec<String>,
    /// Use this bundle for containers instead of making one
    #[arg(long, value_name = "DIR", conflicts_with = "profile")]
    pub bundle: Option<PathBuf>,
    /// The kind of container
    #[arg(long, value_enum, default_value_t = Profile::Seccomp)]
    pub profile: Profile,
    /// Omit the device rules: crun before 1.9 can't load them without CAP_SYS_RESOURCE
    #[arg(long)]
    pub no_device_rules: bool,
    /// Who makes the containers' cgroups: the runtime itself or, on a host that systemd runs, systemd (--systemd-cgroup)
    #[arg(long, value_enum, default_value_t = Driver::Cgroupfs)]
    pub driver: Driver,
    /// The slice of the containers' scopes, with --driver systemd
    #[arg(long, value_name = "SLICE", default_value = "system.slice")]
    pub slice: String,
    /// Kill a command after this time, and exclude its runtime
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub deadline: Duration,
    /// Measure in this view of the host's cgroups; a hybrid host can also be shown in the other
    /// views, in a mount namespace of the experiment's own [default: the host's own view]
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
    /// Run this in containers instead of the bundle's program; it must exit by itself
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// Who makes the containers' cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Driver {
    /// The runtime.
    Cgroupfs,
    /// systemd.
    Systemd,
}

/// The number of rounds, and pauses.
#[derive(Debug, Args)]
pub struct Timing {
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 100)]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// Wait this long before every start; a pause longer than the kernel's RCU grace periods reveals costs that
    /// back-to-back starts hide
    #[arg(long, value_name = "TIME,…", value_parser = time, value_delimiter = ',', default_value = "0,60ms")]
    pub pause: Vec<Duration>,
}

/// The number of repetitions of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rounds {
    /// The number of repetitions before the measured ones, which fill the kernel's and the runtimes' caches.
    pub warm_up: usize,
    /// The number of measured repetitions.
    pub timed: usize,
    /// The pause before each repetition.
    pub pause: Duration,
}

impl Timing {
    /// Returns the rounds for each pause.
    pub fn by_pause(&self) -> impl Iterator<Item = Rounds> + '_ {
        let Self { rounds, warm_up, pause } = self;
        pause.iter().map(|&pause| Rounds { warm_up: *warm_up, timed: *rounds, pause })
    }
}

/// Parses a number above 0.
///
/// # Errors
/// Any other text.
pub fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a number from 1 on".to_owned())
}

/// Parses the arguments of one experiment.
#[cfg(test)]
pub(crate) fn parse<A: Args>(words: &[&str]) -> Result<A, clap::Error> {
    let command = A::augment_args(clap::Command::new("bench").no_binary_name(true));
    A::from_arg_matches(&command.try_get_matches_from(words)?)
}
