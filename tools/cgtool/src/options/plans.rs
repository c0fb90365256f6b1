//! The options of commands that take plans.

use crate::account::Owner;
use crate::group::Group;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// A plan.
#[derive(Debug, Args)]
pub struct PlanFile {
    /// A plan in TOML, or a cgconfig.conf
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Make the groups of its templates for this user, as USER[:GROUP]
    #[arg(long = "for", value_name = "USER")]
    pub user: Option<Owner>,
    /// The process name that templates' %p stands for
    #[arg(long, value_name = "NAME", requires = "user")]
    pub process: Option<String>,
    /// The process id that templates' %P stands for
    #[arg(long, value_name = "PID", requires = "user")]
    pub pid: Option<i32>,
    /// Check against the CPUs of another host, below this directory, without looking at the groups
    /// of this one
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// The plan
    #[command(flatten)]
    pub plan: PlanFile,
    /// Only show the changes
    #[arg(long)]
    pub dry_run: bool,
    /// Don't show the changes
    #[arg(short, long)]
    pub quiet: bool,
    /// Set limits of memory below what is used now, too
    #[arg(long)]
    pub below_usage: bool,
}

/// `snapshot`.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// The groups, with those below; without any, all
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Everything that can be set, rather than what differs from a new group's
    #[arg(long)]
    pub full: bool,
    /// Where to; without it, the standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `persist`.
#[derive(Debug, Args)]
pub struct Persist {
    /// The plan; it is copied
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it is called; without it, as the file
    #[arg(long)]
    pub name: Option<String>,
    /// Which system starts it; without it, the one that runs this host
    #[arg(long, value_enum)]
    pub init: Option<Init>,
    /// Write below this directory and apply nothing now, for images of hosts
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// `unpersist`.
#[derive(Debug, Args)]
pub struct Unpersist {
    /// What it is called
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Write below this directory
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// What starts a host's services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Init {
    /// systemd
    Systemd,
    /// Scripts in /etc/init.d
    Sysv,
}
