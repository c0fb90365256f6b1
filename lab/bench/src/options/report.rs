//! The options of `report`, `unshare`, `lookups` and `favordynmods`.

use super::{Common, Forms, some, time};
use crate::view::View;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The directory for the page and the kept results
    #[arg(short, long, value_name = "DIR", default_value = "dayfly-report")]
    pub output: PathBuf,
    /// Measure nothing: make the page again from the report.json of an earlier report and the
    /// pictures in its directory
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["quick", "only", "list", "again", "runtimes", "view", "no_device_rules", "rounds"]
    )]
    pub from: Option<PathBuf>,
    /// Measure fewer rounds: takes up to 10 minutes on two CPUs, instead of up to an hour
    #[arg(long)]
    pub quick: bool,
    /// Run only these parts
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// List the parts, with the paper's figures that they reproduce, and the duration of each
    #[arg(long)]
    pub list: bool,
    /// Run finished parts again
    #[arg(long)]
    pub again: bool,
    /// A runtime; may be given several times, the first one must be a dayfly [default: dayfly, and
    /// crun, runc and youki as far as they are found]
    #[arg(long = "runtime", value_name = "[NAME=]PATH")]
    pub runtimes: Vec<String>,
    /// Measure in this view of the host's cgroups [default: as the host is]
    #[arg(long, value_enum)]
    pub view: Option<View>,
    /// Omit the device rules: crun before 1.9 can't load them without CAP_SYS_RESOURCE
    #[arg(long)]
    pub no_device_rules: bool,
    /// Number of rounds of every part, even if that is too few for an interval
    #[arg(long, value_name = "N", value_parser = some)]
    pub rounds: Option<usize>,
}

/// `lookups`.
#[derive(Debug, Args)]
pub struct Lookups {
    /// Number of lookups of all names per round
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "10")]
    pub rounds: usize,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// `unshare`.
#[derive(Debug, Args)]
pub struct Unshare {
    /// Number of namespaces per round
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub count: u32,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "10")]
    pub rounds: usize,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// `favordynmods`.
#[derive(Debug, Args)]
pub struct FavorDynmods {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "30")]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warm_up: usize,
    /// Wait this long before every move and start
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60ms")]
    pub pause: Duration,
    /// Turn favordynmods on and off in turns, for the whole host; works before Linux 6.18, on
    /// cgroup v2
    #[arg(long)]
    pub switch: bool,
}
