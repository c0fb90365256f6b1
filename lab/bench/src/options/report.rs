//! The options of `report`.

use crate::arguments::some;
use crate::view::View;
use clap::Args;
use std::path::PathBuf;

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
