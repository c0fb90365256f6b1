//! Those of `report` and `unshare`.

use super::some;
use crate::view::View;
use clap::Args;
use std::path::PathBuf;

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The directory of the page, and of what is kept
    #[arg(short, long, value_name = "DIR", default_value = "dayfly-report")]
    pub output: PathBuf,
    /// Do less of everything: within 10 minutes on two CPUs, instead of within an hour
    #[arg(long)]
    pub quick: bool,
    /// Do these parts alone
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print the parts, what they stand for, and how long each takes
    #[arg(long)]
    pub list: bool,
    /// Do parts again that are done
    #[arg(long)]
    pub again: bool,
    /// A runtime; repeatable, the first one must be a dayfly [default: dayfly and the crun, runc and youki found]
    #[arg(long = "runtime", value_name = "[NAME=]PATH")]
    pub runtimes: Vec<String>,
    /// Measure in this view of the host's cgroups [default: as the host is]
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// Leave the device rules out: crun before 1.9 can't load them without CAP_SYS_RESOURCE
    #[arg(long)]
    pub no_device_rules: bool,
    /// Go through so many rounds in every part, however few that is
    #[arg(long, value_name = "N", value_parser = some)]
    pub rounds: Option<usize>,
}

/// `unshare`.
#[derive(Debug, Args)]
pub struct Unshare {
    /// Namespaces a round
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub count: u32,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "10")]
    pub rounds: usize,
    /// Print JSON, every sample in it, instead of a table
    #[arg(long)]
    pub json: bool,
}
