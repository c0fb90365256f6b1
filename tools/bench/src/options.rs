//! The command line.

use crate::config::Profile;
use crate::race::{Operation, Rounds};
use crate::view::View;
use ::report::time::time;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

mod faas;
mod figures;
mod groups;
mod report;
mod shim;
mod trace;

pub use faas::{Arrivals, Faas, MINUTES, Policy, Regular};
pub use figures::{Bulk, Figure, Learned, Memory, Steps, Written};
pub use groups::{Groups, Use, Work};
pub use report::{FavorDynmods, Lookups, Report, Unshare};
pub use shim::{Measured, Shim, ShimDaemon};
pub use trace::{Kind, Output, Trace, TraceOverhead};

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
    ///
    /// CPU times are exact, by the scheduler's clock, with those of children that were waited for. Where the kernel
    /// divides them into user and system time by timer ticks, these can't be shown.
    Start(Start),
    /// Run many containers with several in flight, and probe how the host feels meanwhile
    Burst(Burst),
    /// Start a container at a fixed interval, and measure until it says itself that it runs
    Spaced(Spaced),
    /// Replay invocations of functions, and tell what each way to keep containers ready costs and saves
    ///
    /// An invocation is due at its time, whether or not earlier ones are done. A container's program waits on its standard
    /// input for invocations, tells the time when one begins, waits as long as it takes, and tells the time again. In
    /// the first place by the three functions of a paper; --trace replays any trace in the format of Azure's.
    Faas(Box<Faas>),
    /// Time the same start on hosts with short and long mount tables
    Mounts(Mounts),
    /// Start containers from root filesystems of few and many layers, by every way to assemble them
    Layers(Layers),
    /// Time the first start with a seccomp profile that no cache has seen, and the next one
    ///
    /// In every round each runtime runs two containers with the same profile: the bundle's, and a rule that no round
    /// before had. The first time the runtime compiles it, the second time it may have kept the filter. dayfly
    /// keeps filters in /run/dayfly-cache, over which the experiment has a tmpfs in its own mount namespace; crun
    /// below its --root, which is the experiment's anyway; runc compiles each time. The report says who kept one.
    FirstUse(Steps),
    /// Time the same container without seccomp, network namespace, message queues, IPC namespace
    ///
    /// What each of these costs a start, by each runtime: in every round it runs the container as it is, then without
    /// each of them, then without them all.
    Staircase(Steps),
    /// Time the same container with its seccomp profile, with one learned from what it does, and without
    ///
    /// First each runtime runs the container some times, followed by ptrace(2) as \"dayfly profile learn\" does, and gets
    /// a profile of its own: what it calls itself under the filter is in it. The instructions are those of dayfly's
    /// compiler; other runtimes' filters are libseccomp's.
    Learned(Learned),
    /// Time how system calls of the engines' profile are found by name: by dayfly, by libseccomp
    ///
    /// All names, a thousand times, for each architecture of the profile. libseccomp is asked by the program
    /// dayfly-libseccomp, if that is beside this one; names that it does not know are left out. A search that compares
    /// with one name after the other stands for libseccomp before its version 2.5.
    Lookups(Lookups),
    /// Time a program that makes a thousand IPC namespaces, one after the other
    Unshare(Unshare),
    /// Time moves between cgroups, forks and exits, reads and starts, with and without favordynmods
    ///
    /// By itself it changes nothing of the host and times it as it is.
    #[command(name = "favordynmods")]
    FavorDynmods(FavorDynmods),
    /// Tell the smallest memory limit that a container starts with, what commands take at their peak, and what stays
    ///
    /// limit: memory.max, on v1 memory.limit_in_bytes, by binary search; the container's program is in it. Needs a
    /// memory controller, and says so where there is none. peak: VmHWM of the runtime's processes, looked at by
    /// ptrace(2) when each ends or executes another program; what wait4(2) tells has the memory of whoever spawned
    /// them in it. idle: processes that the runtime has left beside the container's own, what they have resident,
    /// its files of state, and what the container's cgroup is charged with, which the kernel does up to 256 KiB a
    /// CPU ahead.
    Memory(Memory),
    /// Create many containers, then time the starts of all of them
    ///
    /// As a host comes up on which everything was made ready. What is timed is from before the first start until the
    /// last one is back; the containers' programs end by themselves, and are waited for afterwards.
    Bulk(Bulk),
    /// Compare shims of containerd: dayfly's own, and containerd's with each runtime
    ///
    /// By a containerd that the experiment starts, with root, state, sockets and cgroup of its own. Told are times, CPU of all
    /// that is beside the client (containerd, shims, runtime, the container), from a shim's start to the end of its delete,
    /// memory and threads of shims; pods need a client of the CRI, which scripts/shim-client builds.
    Shim(Shim),
    /// Tell what each fast path is worth here
    Ablation(Ablation),
    /// Tell what cgroups that were made ahead save a start
    #[command(name = "pools", alias = "tiers")]
    Tiers(Tiers),
    /// Tell where the time of a start goes, step by step: dayfly by its own account, any runtime by
    /// its system calls
    Trace(Trace),
    /// Tell what it costs dayfly to trace itself
    TraceOverhead(TraceOverhead),
    /// Do the experiments of papers and articles on container starts here, and write a page
    ///
    /// Each part is an experiment of this program's or of \"dayfly host\"; the page has what was published beside what
    /// was measured, the command that does it again, versions and the host: index.html with all pictures in it,
    /// report.md with pictures beside it, and report.json. What is done is kept in the directory, and not done again
    /// by the same command: one that was interrupted goes on. Leave the machine alone meanwhile.
    Report(Report),
    /// Show what control groups do for applications that share a host
    ///
    /// Instances of a work on memory, made and given CPUs and memory by \"dayfly cgroup\": transactions a second, and the
    /// slowest hundredth of them. The whole host is theirs meanwhile.
    Groups(Groups),
    /// Tell where the CPUs are in a burst, as flame graphs with the kernel's functions
    ///
    /// By perf(1), which samples the stacks of all processes of the burst. What the kernel's own threads do for a container
    /// later is not in it.
    Flame(Flame),
    /// Remove what experiments have left that were killed: cgroups, mounts, directories
    Gc,
    /// Write a bundle that the experiments use
    Bundle(Bundle),
    /// Be an instance of \"groups\"
    #[command(hide = true)]
    Work(Work),
    /// Become the containerd of \"shim\"
    #[command(hide = true)]
    ShimDaemon(ShimDaemon),
    /// Make N IPC namespaces
    #[command(hide = true)]
    MakeIpcNamespaces {
        /// How many.
        count: u32,
    },
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
    /// Write a picture of the results
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
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
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 100)]
    pub rounds: usize,
    /// Rounds before those that count
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// Wait this long before every start; a pause longer than the kernel's grace periods brings out
    /// costs that back-to-back starts hide
    #[arg(long, value_name = "TIME,…", value_parser = time, value_delimiter = ',', default_value = "0,60ms")]
    pub pause: Vec<Duration>,
}

impl Timing {
    /// The rounds after each pause.
    pub fn by_pause(&self) -> impl Iterator<Item = Rounds> + '_ {
        let Self { rounds, warm_up, pause } = self;
        pause.iter().map(|&pause| Rounds { warm_up: *warm_up, timed: *rounds, pause })
    }
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
    /// Have dayfly run the same with so many starts in flight at once, too, by a limit as "dayfly host limit" sets it, in
    /// an IPC namespace of the experiment's own
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=32_767))]
    pub start_limit: Vec<u16>,
    /// Containers a round
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 32)]
    pub count: usize,
    /// Rounds of each runtime at each width
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 8)]
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
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 100)]
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
    /// Rounds at each length, in five sweeps: the next multiple of 5
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 50)]
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
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 16)]
    pub count: usize,
    /// Rounds of each way with each number of layers
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 5)]
    pub rounds: usize,
    /// Do without user namespaces: no layer has to be mapped then
    #[arg(long)]
    pub host_ids: bool,
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

/// `flame`.
#[derive(Debug, Args)]
pub struct Flame {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// Containers in flight
    #[arg(long, value_name = "N", value_parser = some, default_value = "16")]
    pub width: usize,
    /// Containers of each runtime
    #[arg(long, value_name = "N", value_parser = some, default_value = "240")]
    pub count: usize,
    /// Samples a second of each CPU
    #[arg(long, value_name = "HERTZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: u32,
    /// Have dayfly alone start containers of so many layers, by each of the ways
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub layers: usize,
    /// Ways to assemble their root filesystems
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "per-layer,fd",
        requires = "layers"
    )]
    pub modes: Vec<Mode>,
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
    /// Leave them out lever by lever: parallelism, caching, elimination of what is not needed
    #[arg(long, conflicts_with = "without")]
    pub levers: bool,
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

/// `bundle`.
#[derive(Debug, Args)]
pub struct Bundle {
    /// The directory to make
    pub directory: PathBuf,
    /// The kind of container; joined has its namespaces to itself until an experiment joins them
    #[arg(long, value_enum, default_value_t = Profile::Seccomp)]
    pub profile: Profile,
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
