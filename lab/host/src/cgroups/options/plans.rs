//! The options of commands that read cgroup plans.

use super::*;

/// A cgroup plan.
#[derive(Debug, Args)]
pub struct PlanFile {
    /// A cgroup plan in TOML, or a cgconfig.conf
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Instantiate the cgroup plan's templates for this user, as USER[:GROUP]
    #[arg(long = "for", value_name = "USER")]
    pub user: Option<Owner>,
    /// The process name for %p in templates
    #[arg(long, value_name = "NAME", requires = "user")]
    pub process: Option<String>,
    /// The process id for %P in templates
    #[arg(long, value_name = "PID", requires = "user")]
    pub pid: Option<i32>,
    /// Check against the CPUs of another host, found below this directory, and ignore the groups of this one
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
}

/// `apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// The cgroup plan
    #[command(flatten)]
    pub plan: PlanFile,
    /// Only show the changes
    #[arg(long)]
    pub dry_run: bool,
    /// Don't show the changes
    #[arg(short, long)]
    pub quiet: bool,
    /// Allow memory limits below the present usage
    #[arg(long)]
    pub below_usage: bool,
}

/// `snapshot`.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// The groups, including those below; by default all
    #[arg(value_name = "GROUP")]
    pub groups: Vec<Group>,
    /// Include all settings, not only those that differ from a new group's
    #[arg(long)]
    pub full: bool,
    /// The output file, by default standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `persist`.
#[derive(Debug, Args)]
pub struct Persist {
    /// The cgroup plan, which is copied
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The name, by default the file's
    #[arg(long)]
    pub name: Option<String>,
    /// The init system that applies the cgroup plan at boot, by default this host's
    #[arg(long, value_enum)]
    pub init: Option<Init>,
    /// Install below this directory and apply nothing now, for host images
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// `unpersist`.
#[derive(Debug, Args)]
pub struct Unpersist {
    /// The name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Remove from below this directory
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// The init system of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Init {
    /// systemd
    Systemd,
    /// Scripts in /etc/init.d
    Sysv,
}
