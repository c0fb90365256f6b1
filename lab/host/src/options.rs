//! The options of `dayfly host`; those of `dayfly cgroup` are in [`crate::cgroups::options`].

use crate::cgroups::options::CgroupCommand;
use crate::facts::Facts;
use clap::{Args, Parser, Subcommand, ValueEnum};
use report::{Error, Format, time};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Shows the properties of this host that affect container starts, and how to improve them
#[derive(Debug, Parser)]
#[command(name = "dayfly-host", bin_name = "dayfly", version)]
pub struct Options {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the properties of this host that affect container starts
    #[command(subcommand)]
    Host(HostCommand),
    /// Plan, apply and change the cgroups of this host
    #[command(subcommand)]
    Cgroup(CgroupCommand),
}

/// Commands of `dayfly host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Check the properties of this host that affect the start of containers, and show how to
    /// improve them
    Check(Check),
    /// Show CPUs, level 3 caches, sockets and memory nodes, like "numactl --hardware" with additions
    Topology(Hardware),
    /// Show or change favordynmods: whether moves between cgroups are favoured over forks and exits
    #[command(subcommand)]
    Favordynmods(Favordynmods),
    /// Measure lock contention between threads, and how many starts to run concurrently
    Locks(Locks),
    /// Print a score of this host's performance with concurrent starts, for schedulers: 0 to 100,
    /// with its components, as JSON
    Score(Score),
    /// Limit the number of concurrent starts; further starts wait in a queue
    #[command(subcommand)]
    Limit(Limit),
    /// Draw CSV from standard input
    #[command(hide = true)]
    Chart(Chart),
}

/// `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0, all verdicts are good or only notes; 1, something can be improved;
2, something is broken, or the host could not be examined.")]
pub struct Check {
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Examine the host whose /proc, /sys and /etc are below DIR, without probing or measuring
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Skip the measurements: half a second instead of four
    #[arg(long)]
    pub no_measure: bool,
}

/// `topology`.
#[derive(Debug, Args)]
pub struct Hardware {
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write the output to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Examine the host whose /proc and /sys are below DIR
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `favordynmods`.
#[derive(Debug, Subcommand)]
pub enum Favordynmods {
    /// Show whether favordynmods is on, why, and for how long
    Status {
        /// The output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// Examine the host whose files are below DIR
        #[arg(long, value_name = "DIR")]
        sysroot: Option<PathBuf>,
    },
    /// Turn favordynmods on, until the next boot
    On(Switch),
    /// Turn favordynmods off
    Off(Switch),
    /// Run a command with favordynmods on, and turn it off afterwards if it was off before
    ///
    /// The option speeds up bursts of starts by runtimes that move processes between cgroups. Several such commands may
    /// run at once; the last one to end turns the option off. This command works only where the option can be turned off
    /// again: before Linux 6.18. The exit status is the command's.
    Auto {
        /// The command, which receives the signals TERM, HUP and INT
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Turn favordynmods on at every boot
    Persist(Switch),
    /// Stop turning favordynmods on at boot
    Unpersist(Switch),
}

/// Options of the commands that change something.
#[derive(Debug, Args)]
pub struct Switch {
    /// Do not ask for confirmation if the change cannot be undone: since Linux 6.18, favordynmods
    /// stays in effect until the next boot
    #[arg(long, short)]
    pub yes: bool,
    /// Change the host whose files are below DIR, which must not be running
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

impl Switch {
    /// Returns the facts of the host to change.
    ///
    /// # Errors
    /// Those of [`Facts::of`].
    pub fn facts(&self) -> Result<Facts, Error> {
        Facts::of(self.sysroot.as_deref())
    }
}

/// `locks`.
#[derive(Debug, Args)]
pub struct Locks {
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Draw the curves to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// The work of the threads
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lock,mounts")]
    pub work: Vec<Work>,
    /// The time for which each number of threads is measured, over five rounds
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = measured)]
    pub time: Duration,
}

impl Locks {
    /// The default time to measure each number of threads; the help of `--time` states it, too.
    pub const TIME: Duration = Duration::from_millis(250);
}

/// `score`.
#[derive(Debug, Args)]
#[command(after_help = "\
\"carried\" is the largest number of concurrent starts that reaches nine tenths of the maximum throughput on all CPUs, \
times the fraction of that maximum that remains with a start on every CPU. The fraction is 1 if the curve of \
\"dayfly host locks\" is flat, and less if it declines.

\"score\" is 100 * log2(1 + carried) / log2(1 + 64), at most 100, and 0 if \"dayfly host check\" finds something \
broken. Measure while the host is idle, because other programs affect the curve and thus the score.")]
pub struct Score {
    /// Measure for less than a second instead of several, and skip the measurements of "host check"
    #[arg(long)]
    pub quick: bool,
    /// Measure even if the host is busy
    #[arg(long)]
    pub busy: bool,
    /// Use these curves, written by "dayfly host locks --format json", instead of measuring
    #[arg(long, value_name = "FILE")]
    pub locks: Option<PathBuf>,
    /// Write the document to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Examine the host whose /proc, /sys and /etc are below DIR, with its curves
    #[arg(long, value_name = "DIR", requires = "locks")]
    pub sysroot: Option<PathBuf>,
}

/// `limit`.
#[derive(Debug, Subcommand)]
pub enum Limit {
    /// Show the limit, the number of starts in flight and the number that wait
    Status {
        /// The output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Limit starts by "create" and "run" of this user until the next boot, for all callers
    Set(SetLimit),
    /// Remove the limit; waiting starts proceed
    Off,
}

/// `limit set`.
#[derive(Debug, Args)]
pub struct SetLimit {
    /// Maximum number of concurrent starts; auto measures like "dayfly host locks --work mounts",
    /// and uses the resulting advice
    #[arg(value_name = "WIDTH|auto")]
    pub width: Width,
    /// Maximum wait of a start, in whole seconds; after it, the start proceeds without a permit.
    /// The kubelet gives up after 120 s
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = longest)]
    pub longest: Duration,
}

fn measured(text: &str) -> Result<Duration, String> {
    time::within(time::milliseconds(text)?, Duration::from_millis(5), Duration::from_secs(60))
}

/// Parses the maximum wait. It must be a whole number of seconds, because it is stored as the value
/// of a semaphore.
fn longest(text: &str) -> Result<Duration, String> {
    let longest = time::seconds(text)?;
    let longest = Duration::from_secs(longest.as_secs() + u64::from(longest.subsec_nanos() > 0));
    time::within(longest, Duration::from_secs(1), Duration::from_secs(32_767))
}

/// The maximum number of concurrent starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// The smallest number whose throughput, measured on this host, is nearly the best.
    Auto,
    /// A fixed number.
    Starts(u16),
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(width @ 1..=32_767) => Ok(Self::Starts(width)),
            _ if text == "auto" => Ok(Self::Auto),
            _ => Err("neither a number from 1 to 32767 nor auto".to_owned()),
        }
    }
}

/// The work of the threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Work {
    /// Take and release one lock of this process, which is like the kernel's mount lock
    Lock,
    /// Bind-mount and unmount directories, each thread in its own mount namespace; needs root
    Mounts,
}

/// `chart`.
#[derive(Debug, Args)]
pub struct Chart {
    /// The heading
    #[arg(long)]
    pub title: String,
    /// The title of the vertical axis
    #[arg(long)]
    pub y: String,
    /// The kind of picture: a line per column over the first column, or a group of bars per row
    #[arg(long, value_enum)]
    pub kind: ChartKind,
    /// A mark on the horizontal axis, such as 12.5=swap; repeatable
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
