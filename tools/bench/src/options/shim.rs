//! Those of `shim`.

use super::{Common, some, time};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// `shim`.
#[derive(Debug, Args)]
#[command(
    mut_arg("runtimes", |arg| arg.help("A runtime that containerd's own shim executes; repeatable [default: dayfly and the crun, runc and youki found]")),
    mut_arg("bundle", |arg| arg.hide(true)),
    mut_arg("profile", |arg| arg.hide(true)),
    mut_arg("no_device_rules", |arg| arg.hide(true)),
    mut_arg("program", |arg| arg.hide(true))
)]
pub struct Shim {
    /// What all experiments take.
    #[command(flatten)]
    pub common: Common,
    /// dayfly's shim [default: containerd-shim-dayfly-v2 beside this program or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
    /// A directory with containerd, ctr and containerd-shim-runc-v2 [default: containerd2 in the build directory beside this
    /// program's, else $PATH]
    #[arg(long, value_name = "DIR")]
    pub containerd: Option<PathBuf>,
    /// The client of the CRI that scripts/shim-client builds [default: cri-client beside that directory, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub client: Option<PathBuf>,
    /// What is measured
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "run,exec,idle,pod,idle-pod"
    )]
    pub figure: Vec<Measured>,
    /// Rounds that count
    #[arg(long, value_name = "N", value_parser = some, default_value = "30")]
    pub rounds: usize,
    /// Rounds before those that count
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warm_up: usize,
    /// Wait this long after each go, on its account: containerd is busy longer than its client
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60ms")]
    pub pause: Duration,
    /// Last of all hold N pods and execute a program in each of them every interval, as a kubelet's probes do
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100", value_parser = some)]
    pub probes: Option<usize>,
    /// The time between two probes of a pod
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub interval: Duration,
    /// How long the pods are probed
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    pub probe_for: Duration,
}

/// The start of containerd: `shim-daemon`.
#[derive(Debug, Args)]
pub struct ShimDaemon {
    /// The file of the cgroup to go into
    #[arg(long)]
    pub procs: PathBuf,
    /// The program and its words
    #[arg(last = true)]
    pub program: Vec<String>,
}

/// What is measured of a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// \"ctr run\" of a program that ends at once
    Run,
    /// \"ctr task exec\" of such a program
    Exec,
    /// Memory and threads beside a container that sleeps
    Idle,
    /// A pod with a container by the CRI, from nothing to nothing, call by call
    Pod,
    /// Memory and threads beside such a pod
    IdlePod,
}
