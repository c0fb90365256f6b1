//! The options of `shim`.

use super::{Common, some, time};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// `shim`.
#[derive(Debug, Args)]
#[command(
    mut_arg("runtimes", |arg| arg.help("A runtime that containerd's own shim executes; repeatable [default: dayfly, and crun, runc and youki as far as they are found]")),
    mut_arg("bundle", |arg| arg.hide(true)),
    mut_arg("profile", |arg| arg.hide(true)),
    mut_arg("no_device_rules", |arg| arg.hide(true)),
    mut_arg("program", |arg| arg.hide(true))
)]
pub struct Shim {
    /// Options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// dayfly's shim [default: containerd-shim-dayfly-v2 beside this program or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
    /// A directory with containerd, ctr and containerd-shim-runc-v2 [default: build/containerd2
    /// beside this program's target directory, or else the directory of containerd in $PATH]
    #[arg(long, value_name = "DIR")]
    pub containerd: Option<PathBuf>,
    /// The CRI client that scripts/programs cri-client builds [default: cri-client beside that directory, or in $PATH]
    #[arg(long, value_name = "PATH")]
    pub client: Option<PathBuf>,
    /// The operations to measure
    #[arg(
        long,
        value_enum,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "run,exec,idle,pod,idle-pod"
    )]
    pub figure: Vec<Measured>,
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "30")]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warm_up: usize,
    /// Wait this long after each operation, and add the CPU time of this pause to the operation's,
    /// because containerd is busy longer than its client
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60ms")]
    pub pause: Duration,
    /// At the end, run N pods and execute a program in each of them at every interval, like a
    /// kubelet's probes
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "100", value_parser = some)]
    pub probes: Option<usize>,
    /// The time between two probes of a pod
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub interval: Duration,
    /// Duration of the probing
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    pub probe_for: Duration,
}

/// The start of containerd: `shim-daemon`.
#[derive(Debug, Args)]
pub struct ShimDaemon {
    /// The cgroup.procs file of the cgroup to enter
    #[arg(long)]
    pub procs: PathBuf,
    /// The program and its arguments
    #[arg(last = true)]
    pub program: Vec<String>,
}

/// An operation of a shim that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// `ctr run` of a program that exits at once
    Run,
    /// `ctr task exec` of a program that exits at once
    Exec,
    /// Memory and threads in use beside a sleeping container
    Idle,
    /// The life cycle of a pod with a container over the CRI, call by call
    Pod,
    /// Memory and threads in use beside a pod with a sleeping container
    IdlePod,
}
