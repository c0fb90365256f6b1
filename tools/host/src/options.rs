//! The options of `dayfly host`.

use clap::{Args, Parser, Subcommand, ValueEnum};
use report::time;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Tells what this host does to container starts, and what helps.
#[derive(Debug, Parser)]
#[command(name = "dayfly-host", bin_name = "dayfly", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check what this host does to container starts
    #[command(subcommand)]
    Host(HostCommand),
}

/// How results are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// Commands of `dayfly host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Tell what this host does to the start of containers, and what helps
    Check(Check),
    /// Show CPUs, level 3 caches, sockets and memory nodes, as "numactl --hardware" does and beyond
    Topology(Hardware),
    /// Look at or change whether cgroups favour changes of their members over forks and exits
    #[command(subcommand)]
    Favordynmods(Favordynmods),
    /// Measure how threads get in each other's way at a lock, and how many starts to have in flight
    Locks(Locks),
    /// Tell schedulers how well this host carries many starts at once: a number from 0 to 100, and what it is made of,
    /// as JSON
    Score(Score),
    /// Have no more than so many starts in flight at once; others wait their turn
    #[command(subcommand)]
    Limit(Limit),
    /// Draw a picture of CSV from standard input
    #[command(hide = true)]
    Chart(Chart),
}

/// `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0, all is well or merely worth knowing; 1, something can be improved;
2, something is broken, or the command line is wrong.")]
pub struct Check {
    /// How the verdicts are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Look at the host whose /proc, /sys and /etc are below DIR; nothing is tried out or measured then
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Measure nothing: half a second instead of four
    #[arg(long)]
    pub no_measure: bool,
}

/// `topology`.
#[derive(Debug, Args)]
pub struct Hardware {
    /// How it is written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write a picture to this file: nodes, caches, cores and CPUs, and the distances between nodes
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write what would be printed to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Look at the host whose /proc and /sys are below DIR
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `favordynmods`.
#[derive(Debug, Subcommand)]
pub enum Favordynmods {
    /// Tell whether it is on, why, and for how long
    Status {
        /// How it is written
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Look at the host whose files are below DIR
        #[arg(long, value_name = "DIR")]
        sysroot: Option<PathBuf>,
    },
    /// Turn it on, until the next boot
    On(Switch),
    /// Turn it off
    Off(Switch),
    /// Run a command with it on, and turn it off afterwards if it was off before
    ///
    /// For a burst of starts by runtimes that move processes between cgroups. Several such commands may run at once; the
    /// last one turns it off. Only where it can be turned off again: before Linux 6.18. Exits as the command does.
    Auto {
        /// The command, which is sent on the signals TERM, HUP and INT
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Have it turned on at every boot
    Persist(Switch),
    /// No longer turn it on at boot
    Unpersist(Switch),
}

/// What the commands that change something take.
#[derive(Debug, Args)]
pub struct Switch {
    /// Don't ask before what can't be taken back: from Linux 6.18 on it stays in effect until the next
    /// boot once it is on
    #[arg(long, short)]
    pub yes: bool,
    /// Change the host whose files are below DIR, which must not be running
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `locks`.
#[derive(Debug, Args)]
pub struct Locks {
    /// How the curves are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write a picture of the curves to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// What the threads do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lock,mounts")]
    pub work: Vec<Work>,
    /// How long each number of threads is measured, over five rounds
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = measured)]
    pub time: Duration,
}

impl Locks {
    /// How long each number of threads is measured, unless another time is given: `--time` says so too.
    pub const TIME: Duration = Duration::from_millis(250);
}

/// `score`.
#[derive(Debug, Args)]
#[command(after_help = "\
\"carried\" is the most starts at once with which nine tenths of the most still get done on all CPUs, times the part \
of that most which is still done with one on every CPU: all of it where the curve of \"dayfly host locks\" is flat, \
little where it slows down.

\"score\" is 100 * log2(1 + carried) / log2(1 + 64), at most 100, and 0 where \"dayfly host check\" finds something \
broken. Measure while nothing else runs: what others do to the curve is in the number, too.")]
pub struct Score {
    /// Measure briefly: less than a second rather than some, and none of what "host check" measures
    #[arg(long)]
    pub quick: bool,
    /// Take these curves, which "dayfly host locks --format json" has written, rather than measure
    #[arg(long, value_name = "FILE")]
    pub locks: Option<PathBuf>,
    /// Write the document to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Judge the host whose /proc, /sys and /etc are below DIR, with its curves
    #[arg(long, value_name = "DIR", requires = "locks")]
    pub sysroot: Option<PathBuf>,
}

/// `limit`.
#[derive(Debug, Subcommand)]
pub enum Limit {
    /// Tell what the limit is, how many starts are in flight and how many wait
    Status {
        /// How it is written
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Limit starts until the next boot, those that "create" and "run" of this user make, whoever called them
    Set(SetLimit),
    /// No longer limit starts; those that wait go on
    Off,
}

/// `limit set`.
#[derive(Debug, Args)]
pub struct SetLimit {
    /// How many starts may be in flight; auto for what "dayfly host locks --work mounts" advises, which it measures first
    #[arg(value_name = "WIDTH|auto")]
    pub width: Width,
    /// How long a start waits at most, in whole seconds; then it goes on without a permit. The kubelet gives up after
    /// 120 s
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = longest)]
    pub longest: Duration,
}

fn measured(text: &str) -> Result<Duration, String> {
    time::within(time::milliseconds(text)?, Duration::from_millis(5), Duration::from_secs(60))
}

/// In whole seconds, as a semaphore keeps them.
fn longest(text: &str) -> Result<Duration, String> {
    let longest = time::seconds(text)?;
    let longest = Duration::from_secs(longest.as_secs() + u64::from(longest.subsec_nanos() > 0));
    time::within(longest, Duration::from_secs(1), Duration::from_secs(32_767))
}

/// How many starts may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// As many as are measured to get about the most done.
    Auto,
    /// So many.
    Starts(u16),
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let width = text.parse().ok().filter(|width| (1..=32_767).contains(width));
        width
            .map(Self::Starts)
            .ok_or_else(|| "neither a number from 1 to 32767 nor auto".to_owned())
    }
}

/// What threads do to get in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Take and release one lock of this process, as the kernel's mount lock is
    Lock,
    /// Bind and unmount directories, each thread in a mount namespace of its own; needs root
    Mounts,
}

/// `chart`.
#[derive(Debug, Args)]
pub struct Chart {
    /// The heading
    #[arg(long)]
    pub title: String,
    /// What the vertical axis shows
    #[arg(long)]
    pub y: String,
    /// The kind of picture: a line a column over the first one, or bars a row
    #[arg(long, value_enum)]
    pub kind: ChartKind,
    /// A moment on the horizontal axis and what happened then, as 12.5=swap; repeatable
    #[arg(long = "mark", value_name = "X=TEXT")]
    pub marks: Vec<String>,
}

/// Kinds of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChartKind {
    /// Lines over a number.
    Lines,
    /// Bars, grouped by the first column.
    Bars,
}
