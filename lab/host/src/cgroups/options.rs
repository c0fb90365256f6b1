//! The options of `dayfly cgroup`.
// The docstrings are help texts too, where brackets mark optional parts.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_rust_codeblocks)]

mod plans;
mod words;

pub use plans::{Apply, Init, Persist, PlanFile, Snapshot, Unpersist};
pub use words::{Setting, Word};
use words::{setting, word};

use crate::account::{self, Owner};
use crate::cgroups::group::Group;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use report::{Format, time};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Commands of `dayfly cgroup`.
///
/// A GROUP is a path from the root of the hierarchies, such as `a/b`. The prefix `CONTROLLER[,…]:` limits it to the v1
/// hierarchies of those controllers.
#[derive(Debug, Subcommand)]
pub enum CgroupCommand {
    /// Show groups as a tree, with their usage
    Ls(Ls),
    /// Show values of a group, by v1 or v2 names
    Get(Get),
    /// Set values of groups, by v1 or v2 names
    Set(Set),
    /// Create groups
    Create(Create),
    /// Move running processes into a group, with all their threads
    Classify(Classify),
    /// Run a program in a group
    Exec(Exec),
    /// Remove groups
    Rm(Rm),
    /// Freeze every process of a group
    Freeze(Named),
    /// Thaw the processes of a frozen group
    Thaw(Named),
    /// Send a signal to every process of a group
    Kill(Kill),
    /// Watch the usage of groups
    Top(Top),
    /// Record the usage of groups over time as CSV
    Record(Record),
    /// Pin a group to CPUs and memory nodes, chosen by the host's topology
    Pin(Pin),
    /// Exchange the CPUs of two groups while they run
    Swap(Swap),
    /// Move a group's memory to other nodes
    MoveMemory(MoveMemory),
    /// Create groups from a cgroup plan or a cgconfig.conf
    Apply(Apply),
    /// Show what apply would change; the exit code is 1 if there are changes
    Diff(PlanFile),
    /// Write the existing groups as a cgroup plan
    Snapshot(Snapshot),
    /// Apply a cgroup plan now and at each boot
    Persist(Persist),
    /// Stop applying a cgroup plan at boot
    Unpersist(Unpersist),
    /// Keep groups ready for containers to start in
    #[command(subcommand, alias = "tier")]
    Pool(Pool),
}

/// Groups, by name.
#[derive(Debug, Args)]
pub struct Named {
    /// The groups
    #[arg(value_name = "GROUP", required = true)]
    pub groups: Vec<Group>,
}

/// `ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// The groups to start at, by default the root
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Print only names, one per line
    #[arg(long)]
    pub names: bool,
    /// Print whole names, also if lines are wider than the terminal
    #[arg(long)]
    pub no_trunc: bool,
    /// Show hierarchies and their controllers instead of groups
    #[arg(long)]
    pub hierarchies: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// The groups, and the files to show, such as: db memory.max
    #[arg(value_name = "GROUP|KEY", required = true)]
    pub groups: Vec<Group>,
    /// A file of the group, as an option like cgget's; may be given several times
    #[arg(short = 'r', long = "key", value_name = "KEY")]
    pub keys: Vec<String>,
    /// Every file of these controllers
    #[arg(short = 'g', long = "controller", value_name = "CONTROLLER")]
    pub controllers: Vec<String>,
    /// Every file of every controller
    #[arg(short, long)]
    pub all: bool,
    /// Omit the name of the group
    #[arg(short = 'n', long)]
    pub no_headers: bool,
    /// Omit the names of the files
    #[arg(short = 'v', long)]
    pub values_only: bool,
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `set`.
#[derive(Debug, Args)]
pub struct Set {
    /// The groups, and the values to set in them. If one value cannot be set, none is set
    #[arg(value_name = "GROUP|KEY=VALUE", required = true, value_parser = word)]
    pub words: Vec<Word>,
    /// A KEY=VALUE, as an option like cgset's
    #[arg(short = 'r', long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub more: Vec<Setting>,
    /// Copy all settings of this group
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
    /// A group, as an option like cgcreate's; may be given several times
    #[arg(short = 'g', value_name = "CONTROLLERS:GROUP")]
    pub more: Vec<Group>,
    /// Owners and permissions
    #[command(flatten)]
    pub ownership: Ownership,
}

/// Owners and permissions of groups.
#[derive(Debug, Args, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The owner who may move tasks into the group, as USER:GROUP
    #[arg(short = 't', long = "tasks", value_name = "USER:GROUP")]
    pub task: Option<Owner>,
    /// The owner who may change the group and create groups in it, as USER:GROUP
    #[arg(short = 'a', long = "admin", value_name = "USER:GROUP")]
    pub admin: Option<Owner>,
    /// The mode of the group's directory
    #[arg(short = 'd', long = "dperm", value_name = "MODE", value_parser = account::mode)]
    pub directory_mode: Option<u32>,
    /// The mode of the group's files, limited to the permissions that the kernel gives the owner
    #[arg(short = 'f', long = "fperm", value_name = "MODE", value_parser = account::mode)]
    pub file_mode: Option<u32>,
    /// The mode of the group's file of tasks
    #[arg(short = 's', long = "tperm", value_name = "MODE", value_parser = account::mode)]
    pub task_mode: Option<u32>,
}

impl Ownership {
    /// Returns the owner that is called `task` or `admin`.
    pub fn owner(&mut self, whose: &str) -> &mut Option<Owner> {
        if whose == "task" { &mut self.task } else { &mut self.admin }
    }
}

/// `classify`.
#[derive(Debug, Args)]
pub struct Classify {
    /// The group, as an option like cgclassify's; may be given several times. Then all arguments are PIDs
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// The group, and the process ids
    #[arg(value_name = "GROUP PID", required = true)]
    pub words: Vec<String>,
    /// Accepted for compatibility with cgclassify; no daemon moves processes later
    #[arg(long, hide = true)]
    pub sticky: bool,
    /// Accepted for compatibility, like --sticky
    #[arg(long, hide = true)]
    pub cancel_sticky: bool,
}

/// `exec`.
#[derive(Debug, Args)]
pub struct Exec {
    /// The group, given as with cgexec instead of in GROUP; on cgroup v1, once for each set of controllers. With this
    /// option, the arguments are only COMMAND
    #[arg(short = 'g', long = "group", value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Accepted for compatibility with cgexec; no daemon moves processes later
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
    /// Also remove the groups of this cgroup plan
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Also remove all groups below the groups
    #[arg(short, long)]
    pub recursive: bool,
    /// Move processes to the parent first, like cgdelete
    #[arg(short = 'm', long = "move", conflicts_with = "kill")]
    pub move_up: bool,
    /// Kill the processes first
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

/// The watched groups, and the interval.
#[derive(Debug, Args)]
pub struct Watched {
    /// The groups, including those below; by default all
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// The interval between samples, such as 500ms or 2s
    #[arg(short, long, default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Stop after this number of samples
    #[arg(short = 'n', long)]
    pub count: Option<u64>,
}

/// `top`.
#[derive(Debug, Args)]
pub struct Top {
    /// The watched groups
    #[command(flatten)]
    pub watched: Watched,
    /// The column to sort by; the key s changes it
    #[arg(short, long, value_enum, default_value_t)]
    pub sort: Column,
}

/// `record`.
#[derive(Debug, Args)]
pub struct Record {
    /// The watched groups
    #[command(flatten)]
    pub watched: Watched,
    /// The output file, by default standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `pin`.
#[derive(Debug, Args)]
pub struct Pin {
    /// GROUP and WORDS, such as node:0, nodes:0-1, ccx:1, package:0, cpus:0-3, cores:4, spread:4, with no-smt for one
    /// CPU per core, or GROUP=WORDS; with --auto GROUP=CPUS…
    #[arg(value_name = "GROUP WORDS", required = true)]
    pub words: Vec<String>,
    /// Choose CPUs for groups of these sizes, so that as few groups as possible extend over several
    /// memory nodes
    #[arg(long)]
    pub auto: bool,
    /// Only print what would be set, as cgset lines
    #[arg(long)]
    pub dry_run: bool,
    /// Move memory on cgroup v1 too (v2 always moves it)
    #[arg(long)]
    pub move_memory: bool,
    /// Use the topology of another host, found below this directory; requires --dry-run
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    pub sysroot: Option<PathBuf>,
}

/// `swap`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each group first gets the CPUs of both groups, and then gives up its own. All steps are shown before the first step is \
made. ^C undoes the steps made so far; after SIGKILL, the last shown step of each group contains its final CPUs.")]
pub struct Swap {
    /// One group
    #[arg(value_name = "A")]
    pub one: Group,
    /// The other group
    #[arg(value_name = "B")]
    pub other: Group,
    /// Also exchange memory nodes, and move the memory in use
    #[arg(long)]
    pub move_memory: bool,
    /// Only print the steps
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
    /// Create pools of groups with these memory limits, or refill them
    ///
    /// A container takes a group from the pool, and `delete` removes it: no group is used twice, so
    /// the kernel's counters of a group belong to one container. Only this command adds groups: run
    /// it again, or use --stay. Pools are for accounting only: they have not been shown to make
    /// starts faster.
    Create {
        /// The sizes, such as 128M,256M,512M
        #[arg(value_name = "SIZES", value_delimiter = ',', required = true)]
        sizes: Vec<String>,
        /// The number of groups in each pool
        #[arg(long, default_value_t = 16)]
        count: u32,
        /// Keep running, and replace each group that a container has used, until a signal arrives or the pools are
        /// removed
        #[arg(long)]
        stay: bool,
    },
    /// List the pools
    Ls {
        /// The output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Remove pools; by default all. Groups in use stay
    Rm {
        /// The sizes
        #[arg(value_name = "SIZES", value_delimiter = ',')]
        sizes: Vec<String>,
    },
}

fn duration(text: &str) -> Result<Duration, String> {
    time::within(time::seconds(text)?, Duration::from_millis(10), Duration::MAX)
}

/// The column that groups are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Column {
    /// CPU time since the last sample
    #[default]
    Cpu,
    /// Memory
    Memory,
    /// Bytes read from and written to block devices since the last sample
    Io,
    /// Time spent waiting for CPUs, memory and block devices
    Pressure,
    /// Name
    Name,
}

impl Column {
    /// Returns the heading of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Memory => "memory",
            Self::Io => "I/O",
            Self::Pressure => "pressure",
            Self::Name => "name",
        }
    }

    /// Returns the next column, for the key s.
    pub(crate) fn next(self) -> Self {
        let all = Self::value_variants();
        let next = all.iter().cycle().skip_while(|column| **column != self).nth(1);
        next.copied().unwrap_or_default()
    }
}
