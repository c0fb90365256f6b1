//! The command line.

use crate::config::Profile;
use crate::race::Operation;
use crate::view::View;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Measures OCI runtimes on this host, in interleaved rounds, and says what the samples show.
#[derive(Debug, Parser)]
#[command(name = "dayfly-bench", bin_name = "dayfly bench", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The experiments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Time the commands of a container's life, runtime by runtime
    Start(Start),
    /// Run many containers with several in flight, and probe how the host feels meanwhile
    Burst(Burst),
    /// Start a container at a fixed interval, and measure until it says itself that it runs
    Spaced(Spaced),
    /// Time the same start on hosts with short and long mount tables
    Mounts(Mounts),
    /// Start containers from root filesystems of few and many layers, by every way to assemble them
    Layers(Layers),
    /// Tell what each fast path path is worth here
    Ablation(Ablation),
    /// Tell what cgroups that were made ahead save a start
    Tiers(Tiers),
    /// Tell where the time of a start goes, step by step: dayfly by its own account, any runtime by
    /// its system calls
    Trace(Trace),
    /// Tell what it costs dayfly to trace itself
    TraceOverhead(TraceOverhead),
    /// Remove what experiments have left that were killed: cgroups, mounts, directories
    Gc,
    /// Write a bundle that the experiments use
    Bundle(Bundle),
    /// Make N system calls that do nothing and print how many nanoseconds they took
    #[command(hide = true)]
    IdleCalls {
        /// How many.
        count: u32,
    },
}

/// What all experiments take.
#[derive(Debug, Args)]
pub struct Common {
    /// A runtime; repeatable, the first is the one that others are compared with [default: dayfly
    /// and the crun, runc and youki found]
    #[arg(long = "runtime", value_name = "[NAME=]PATH")]
    pub runtimes: Vec<String>,
    /// Take containers from this bundle instead of making one
    #[arg(long, value_name = "DIR", conflicts_with = "profile")]
    pub bundle: Option<PathBuf>,
    /// The kind of container
    #[arg(long, value_enum, default_value_t = Profile::Seccomp)]
    pub profile: Profile,
    /// Leave the device rules out: crun before 1.9 can't load them without CAP_SYS_RESOURCE
    #[arg(long)]
    pub no_device_rules: bool,
    /// Kill a command after this time, and leave its runtime out
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub deadline: Duration,
    /// Measure in this view of the host's cgroups; a hybrid host has the others too, in a mount
    /// namespace of the experiment's own [default: as the host is]
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// Print JSON, every sample in it, instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write every sample as a line of CSV, - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write what would be printed to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Run this in containers, not what the bundle says; it must end by itself
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// How rounds are run.
#[derive(Debug, Args)]
pub struct Timing {
    /// Rounds that count
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub rounds: usize,
    /// Rounds before those that count
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// Wait this long before every start; a pause longer than the kernel's grace periods brings out
    /// costs that back-to-back starts hide
    #[arg(long, value_name = "TIME,…", value_parser = time, value_delimiter = ',', default_value = "0,60ms")]
    pub pause: Vec<Duration>,
}

/// `start`.
#[derive(Debug, Args)]
pub struct Start {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
    /// What is timed
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "run,lifecycle,kill,exec"
    )]
    pub operation: Vec<Operation>,
    /// Count instructions in user space too, up to N a command [default: 3000000]; a million take up
    /// to half a minute
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3000000")]
    pub instructions: Option<u64>,
}

/// `burst`.
#[derive(Debug, Args)]
pub struct Burst {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// Containers in flight
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8,16")]
    pub width: Vec<usize>,
    /// Containers a round
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub count: usize,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rounds: usize,
}

/// `spaced`.
#[derive(Debug, Args)]
pub struct Spaced {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// The time between two starts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    pub interval: Duration,
    /// Starts of each runtime
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub count: usize,
}

/// `mounts`.
#[derive(Debug, Args)]
pub struct Mounts {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// Lengths of the mount table
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "10,100,1000")]
    pub mounts: Vec<usize>,
    /// Rounds at each length
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub rounds: usize,
}

/// `layers`.
#[derive(Debug, Args)]
#[command(mut_arg("runtimes", |runtimes| runtimes.help("A dayfly [default: this one]")))]
pub struct Layers {
    /// What all experiments take; the first runtime alone takes part, which must be a dayfly.
    #[command(flatten)]
    pub common: Common,
    /// Ways to assemble a root filesystem
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "fd,parent,per-layer,copy"
    )]
    pub modes: Vec<Mode>,
    /// Layers of the root filesystem
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = some, default_value = "1,10,50,100,500")]
    pub layers: Vec<usize>,
    /// Starts at a time
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = some, default_value = "1,4,16,100")]
    pub width: Vec<usize>,
    /// Starts a round, at least as many as there are at a time
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub count: usize,
    /// Rounds of each way with each number of layers
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Do without user namespaces: no layer has to be mapped then
    #[arg(long)]
    pub host_ids: bool,
    /// Write a picture of the curves
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A way to assemble a root filesystem from layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One detached, id-mapped copy of the layers' parent: nothing in the host's mount table
    Fd,
    /// One attached, id-mapped copy of the layers' parent
    Parent,
    /// An attached, id-mapped mount a layer
    PerLayer,
    /// A copy of all files, owned by the container's ids
    Copy,
}

impl Mode {
    /// Its name in options and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fd => "fd",
            Self::Parent => "parent",
            Self::PerLayer => "per-layer",
            Self::Copy => "copy",
        }
    }
}

/// `ablation`.
#[derive(Debug, Args)]
pub struct Ablation {
    /// What all experiments take; the first runtime alone takes part.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
    /// What to leave out, one after the other [default: each that dayfly has]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub without: Vec<String>,
    /// What is timed
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
}

/// `tiers`.
#[derive(Debug, Args)]
pub struct Tiers {
    /// What all experiments take; the first runtime alone takes part.
    #[command(flatten)]
    pub common: Common,
    /// How rounds are run.
    #[command(flatten)]
    pub timing: Timing,
    /// The pool that is made for it
    #[arg(long, default_value = "256M")]
    pub size: String,
    /// Containers whose cgroups are looked at
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub tenants: usize,
}

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

/// `bundle`.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The directory to make
    pub directory: PathBuf,
    /// The kind of container; joined has its namespaces to itself until an experiment joins them
    #[arg(long, value_enum, default_value_t = Profile::Seccomp)]
    pub profile: Profile,
}

/// Reads `10s`, `60ms`, `250us` or `0`.
///
/// # Errors
/// Says what a time looks like.
pub fn time(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    // The longer suffix first: every one of them ends in s.
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let seconds = units.into_iter().find_map(|(suffix, unit)| {
        let number: f64 = text.strip_suffix(suffix)?.parse().ok()?;
        Some(number * unit)
    });
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a time is a number and us, ms or s, such as 60ms".to_owned())
}

/// Reads a number that is not 0.
///
/// # Errors
/// Says so.
fn some(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "a number from 1 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definition_is_sound() {
        Options::command().debug_assert();
    }

    #[test]
    fn reads_times() {
        assert_eq!(time("60ms"), Ok(Duration::from_millis(60)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(time("0"), Ok(Duration::ZERO));
        for bad in ["", "5", "ms", "-1s", "NaNs", "1e99s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn start_has_its_defaults() {
        let options = Options::try_parse_from(["bench", "start"]).expect("no arguments needed");
        let Command::Start(start) = options.command else { panic!("not start") };
        assert_eq!((start.timing.rounds, start.timing.warm_up), (100, 5));
        assert_eq!(start.timing.pause, [Duration::ZERO, Duration::from_millis(60)]);
        assert_eq!(start.operation.len(), 4);
        assert_eq!(start.common.profile, Profile::Seccomp);
    }

    #[test]
    fn a_step_stands_for_its_operation() {
        let line = ["bench", "start", "--operation", "run,create", "--view", "v2"];
        let options = Options::try_parse_from(line).expect("good");
        let Command::Start(start) = options.command else { panic!("not start") };
        assert_eq!(start.operation, [Operation::Run, Operation::Lifecycle]);
        assert_eq!(start.common.view, Some(View::V2));
    }

    #[test]
    fn a_trace_takes_a_bundle_and_a_program() {
        let line = ["bench", "trace", "/b", "-n", "5", "--format", "json", "--", "/bin/x", "-n"];
        let options = Options::try_parse_from(line).expect("good");
        let Command::Trace(trace) = options.command else { panic!("not trace") };
        let trace = trace.settled();
        assert_eq!((trace.count, trace.common.json), (5, true));
        assert_eq!(trace.common.bundle.as_deref(), Some(std::path::Path::new("/b")));
        assert_eq!(trace.common.program, ["/bin/x", "-n"]);
    }

    #[test]
    fn no_starts_are_refused() {
        assert!(Options::try_parse_from(["bench", "trace", "-n", "0"]).is_err());
    }

    #[test]
    fn a_bundle_has_no_profile() {
        let line = ["bench", "start", "--bundle", "/x", "--profile", "plain"];
        assert!(Options::try_parse_from(line).is_err());
    }
}
