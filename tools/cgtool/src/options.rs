//! The options of `dayfly cgroup`.
// The descriptions are help texts too, where brackets mean "may be left out".
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_rust_codeblocks)]

mod plans;
mod words;

pub use plans::{Apply, Init, Persist, PlanFile, Snapshot, Unpersist};
pub use words::{Setting, Word};
use words::{setting, word};

use crate::account::{self, Owner};
use crate::group::Group;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use report::time;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Looks after the cgroups of this host.
#[derive(Debug, Parser)]
#[command(name = "dayfly-cgtool", bin_name = "dayfly", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan, apply and change the cgroups of this host
    #[command(subcommand)]
    Cgroup(CgroupCommand),
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

/// Commands of `dayfly cgroup`.
///
/// A GROUP is a path from the root of the hierarchies, as in `a/b`. With `CONTROLLER[,…]:` before it,
/// it is meant in the v1 hierarchies of those controllers only.
#[derive(Debug, Subcommand)]
pub enum CgroupCommand {
    /// Show groups as a tree, with what they use
    Ls(Ls),
    /// Show values of a group, by v1 or v2 names
    Get(Get),
    /// Set values of groups, by v1 or v2 names
    Set(Set),
    /// Make groups
    Create(Create),
    /// Move running processes into a group, with all their threads
    Classify(Classify),
    /// Run a program in a group
    Exec(Exec),
    /// Remove groups
    Rm(Rm),
    /// Stop every process of a group
    Freeze(Named),
    /// Let the processes of a frozen group go on
    Thaw(Named),
    /// Send a signal to every process of a group
    Kill(Kill),
    /// Watch what groups use
    Top(Top),
    /// Write what groups use over time as CSV
    Record(Record),
    /// Give a group CPUs and memory nodes by what they are
    Pin(Pin),
    /// Exchange the CPUs of two groups while they run
    Swap(Swap),
    /// Have a group's memory moved to other nodes
    MoveMemory(MoveMemory),
    /// Make groups as a file says: a plan, or a cgconfig.conf
    Apply(Apply),
    /// Show what apply would change; exit code 1 if there is anything
    Diff(PlanFile),
    /// Write the groups there are as a plan
    Snapshot(Snapshot),
    /// Apply a plan now and at each boot
    Persist(Persist),
    /// No longer apply a plan at boot
    Unpersist(Unpersist),
    /// Keep groups ready for containers to start in
    #[command(subcommand, alias = "tier")]
    Pool(Pool),
}

/// Groups by name.
#[derive(Debug, Args)]
pub struct Named {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<Group>,
}

/// `ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// Where to begin; without it, at the root
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Names alone, a line each
    #[arg(long)]
    pub names: bool,
    /// Show hierarchies and their controllers instead of groups
    #[arg(long)]
    pub hierarchies: bool,
    /// How results are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<Group>,
    /// A file of the group, such as memory.max; more than once for more
    #[arg(short = 'r', long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Every file of these controllers
    #[arg(short = 'g', long = "controller", value_name = "CONTROLLER")]
    pub controllers: Vec<String>,
    /// Every file of every controller
    #[arg(short, long)]
    pub all: bool,
    /// Without the name of the group
    #[arg(short = 'n', long)]
    pub no_headers: bool,
    /// Without the names of the files
    #[arg(short = 'v', long)]
    pub values_only: bool,
    /// How results are written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `set`.
#[derive(Debug, Args)]
pub struct Set {
    /// The groups, and what to set in them. All is set or, if any of it fails, nothing
    #[arg(value_name = "GROUP|KEY=VALUE", required = true, value_parser = word)]
    pub words: Vec<Word>,
    /// The same as KEY=VALUE without it, as cgset takes it
    #[arg(short = 'r', long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub more: Vec<Setting>,
    /// Set everything as this group has it
    #[arg(long, value_name = "GROUP", conflicts_with = "more")]
    pub copy_from: Option<Group>,
}

/// `create`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").args(["groups", "more"]).required(true).multiple(true))]
pub struct Create {
    /// The groups
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// A group, as cgcreate takes it; more than once for more
    #[arg(short = 'g', value_name = "CONTROLLERS:GROUP")]
    pub more: Vec<Group>,
    /// To whom they belong
    #[command(flatten)]
    pub ownership: Ownership,
}

/// To whom groups belong.
#[derive(Debug, Args, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Who may move tasks into it, as USER:GROUP
    #[arg(short = 't', long = "tasks", value_name = "USER:GROUP")]
    pub task: Option<Owner>,
    /// Who may change it and make groups in it, as USER:GROUP
    #[arg(short = 'a', long = "admin", value_name = "USER:GROUP")]
    pub admin: Option<Owner>,
    /// Permissions of its directory
    #[arg(short = 'd', long = "dperm", value_name = "MODE", value_parser = account::mode)]
    pub directory_mode: Option<u32>,
    /// Permissions of its files, as far as the kernel gives them to the owner
    #[arg(short = 'f', long = "fperm", value_name = "MODE", value_parser = account::mode)]
    pub file_mode: Option<u32>,
    /// Permissions of its file of tasks
    #[arg(short = 's', long = "tperm", value_name = "MODE", value_parser = account::mode)]
    pub task_mode: Option<u32>,
}

/// `classify`.
#[derive(Debug, Args)]
pub struct Classify {
    /// The group, as cgclassify takes it; more than once for more. Then there are only PIDs
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// The group, and the processes
    #[arg(value_name = "GROUP PID", required = true)]
    pub words: Vec<String>,
    /// Accepted for cgclassify's sake; there is no daemon that would move them on
    #[arg(long, hide = true)]
    pub sticky: bool,
    /// The same
    #[arg(long, hide = true)]
    pub cancel_sticky: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// The group, as cgexec takes it; on cgroup v1, one for each set of controllers. Then there is only COMMAND
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Accepted for cgexec's sake; there is no daemon that would move it on
    #[arg(long, hide = true)]
    pub sticky: bool,
    /// The group, the program and its arguments
    #[arg(
        value_name = "GROUP COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<OsString>,
}

/// `rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// The groups
    #[arg(value_name = "GROUP", required_unless_present = "plan")]
    pub groups: Vec<Group>,
    /// And the groups of this plan
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// With all groups below
    #[arg(short, long)]
    pub recursive: bool,
    /// Move processes to the parent first, as cgdelete does
    #[arg(short = 'm', long = "move", conflicts_with = "kill")]
    pub move_up: bool,
    /// Kill processes first
    #[arg(long)]
    pub kill: bool,
}

/// `kill`.
#[derive(Debug, Args)]
pub struct Kill {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<Group>,
    /// The signal's number
    #[arg(short, long, default_value_t = 9, value_parser = clap::value_parser!(i32).range(1..=64))]
    pub signal: i32,
}

/// What is watched, and how often.
#[derive(Debug, Args)]
pub struct Watched {
    /// The groups, with those below; without any, all
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Time between two looks, such as 500ms or 2s
    #[arg(short, long, default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// End after so many looks
    #[arg(short = 'n', long)]
    pub count: Option<u64>,
}

/// `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// What is watched
    #[command(flatten)]
    pub watched: Watched,
    /// By which column; the key s changes it
    #[arg(short, long, value_enum, default_value_t)]
    pub sort: Column,
}

/// `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// What is watched
    #[command(flatten)]
    pub watched: Watched,
    /// Where to; without it, the standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `pin`.
#[derive(Debug, Args)]
pub struct Pin {
    /// GROUP and WORDS, such as node:0, nodes:0-1, ccx:1, package:0, cpus:0-3, cores:4, spread:4, with
    /// no-smt for one CPU a core, or GROUP=WORDS; with --auto GROUP=CPUS…
    #[arg(value_name = "GROUP WORDS", required = true)]
    pub words: Vec<String>,
    /// Place groups of these sizes on memory nodes, so that as few as can be are cut in two
    #[arg(long)]
    pub auto: bool,
    /// Only show what would be set, as cgset lines
    #[arg(long)]
    pub dry_run: bool,
    /// Have memory follow on cgroup v1, too (on v2 it always does)
    #[arg(long)]
    pub move_memory: bool,
    /// Look at the CPUs of another host, below this directory; only with --dry-run
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    pub sysroot: Option<PathBuf>,
}

/// `swap`.
#[derive(Debug, Args)]
#[command(after_help = "\
Both get the CPUs of both first, then each gives up its own. The steps are shown before the first is \
made. ^C takes back what was made; after SIGKILL, the last step shown of each group says what it was to have.")]
pub struct Swap {
    /// One group
    #[arg(value_name = "A")]
    pub one: Group,
    /// The other
    #[arg(value_name = "B")]
    pub other: Group,
    /// Exchange memory nodes as well, and move memory that is in use
    #[arg(long)]
    pub move_memory: bool,
    /// Only show the steps
    #[arg(long)]
    pub dry_run: bool,
}

/// `move-memory`.
#[derive(Debug, Args)]
pub struct MoveMemory {
    /// The group
    #[arg(value_name = "GROUP")]
    pub group: Group,
    /// The memory nodes, such as 0-1
    #[arg(value_name = "NODES")]
    pub nodes: String,
}

/// `pool`.
#[derive(Debug, Subcommand)]
pub enum Pool {
    /// Make pools of groups with these limits of memory, or fill them up
    ///
    /// A start takes a group out, and delete removes it: no group has two containers, so that what the kernel
    /// counts of one is one container's. Neither makes another: that is done by this command, once more, or as
    /// long as it stays. Pools are for accounting only: no sooner start has been shown.
    Create {
        /// The sizes, such as 128M,256M,512M
        #[arg(value_name = "SIZES", value_delimiter = ',', required = true)]
        sizes: Vec<String>,
        /// Groups in each
        #[arg(long, default_value_t = 16)]
        count: u32,
        /// Stay, and make one more for each that went with its container, until a signal comes or the pools are
        /// removed
        #[arg(long)]
        stay: bool,
    },
    /// Show the pools
    Ls {
        /// How results are written
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove pools; without sizes, all. Those in use stay
    Rm {
        /// The sizes
        #[arg(value_name = "SIZES", value_delimiter = ',')]
        sizes: Vec<String>,
    },
}

fn duration(text: &str) -> Result<Duration, String> {
    time::within(time::seconds(text)?, Duration::from_millis(10), Duration::MAX)
}

/// What groups are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// CPU time since the last look
    #[default]
    Cpu,
    /// Memory
    Memory,
    /// Bytes to and from block devices since the last look
    Io,
    /// Time waited for CPUs, memory and block devices
    Pressure,
    /// Name
    Name,
}

impl Column {
    /// What people read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Memory => "memory",
            Self::Io => "I/O",
            Self::Pressure => "pressure",
            Self::Name => "name",
        }
    }

    /// What one key press goes on to.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Io,
            Self::Io => Self::Pressure,
            Self::Pressure => Self::Name,
            Self::Name => Self::Cpu,
        }
    }
}
