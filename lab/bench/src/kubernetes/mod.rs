//! `kubernetes`: measures the RuntimeClasses of a cluster, on one of its nodes.
//!
//! | part | what |
//! |---|---|
//! | [`cluster`] | kubectl, a namespace, pods |
//! | [`metrics`] | the kubelet's histograms |
//! | [`node`] | CPU time, mounts and shims of the node |
//! | [`work`] | measures each kind of work once |
//!
//! The kubelet measures how long a pod takes to start. The node's CPU time is that of all processes
//! except kubectl: on a node that is also the control plane, the API server and etcd are included.

mod cluster;
mod metrics;
mod node;
mod work;

use crate::harness::*;
use cluster::Cluster;

/// `kubernetes`.
#[derive(Debug, Args)]
pub struct Kubernetes {
    /// RuntimeClasses; the others are compared with the first
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "dayfly,runc")]
    pub classes: Vec<String>,
    /// The program kubectl, which accesses the cluster that $KUBECONFIG names
    #[arg(long, value_name = "PATH", default_value = "kubectl")]
    pub kubectl: PathBuf,
    /// The node that this command runs on [default: the cluster's only node]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// The pods' image, which must contain /bin/sh, sleep and true
    #[arg(long, value_name = "IMAGE", default_value = "busybox")]
    pub image: String,
    /// The work to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "burst,job,probes")]
    pub work: Vec<Load>,
    /// Number of pods of burst and probes
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 100)]
    pub pods: usize,
    /// Number of pods of the Job
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 200)]
    pub completions: usize,
    /// Number of the Job's pods at a time
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 20)]
    pub parallelism: usize,
    /// Time between two probes of a pod, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub interval: Duration,
    /// Watch the probes for this time
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1m")]
    pub span: Duration,
    /// Number of rounds; in each of them all classes take turns
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 1)]
    pub rounds: usize,
    /// Count the mounts that the process with this pid sees, for example containerd if it has a
    /// mount namespace of its own
    #[arg(long, value_name = "PID", default_value_t = 1)]
    pub mounts_of: u32,
    /// Exclude a class whose pods take longer than this
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10m")]
    pub deadline: Duration,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// Work for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Many pods at once: the time until all are ready, and until all are deleted
    Burst,
    /// A Job whose pods exit at once
    Job,
    /// Pods with an exec probe: the node's CPU time, and a probe's time
    Probes,
}

/// Executes the command.
///
/// # Errors
/// No kubectl, cluster, node or class of that name; a file that can't be written; an interrupt.
pub fn command(options: &Kubernetes) -> Result<(), Error> {
    if options.interval.as_secs() == 0 && options.work.contains(&Load::Probes) {
        bail!("--interval: Kubernetes probes once a second at most");
    }
    options.forms.check_directories()?;
    let cluster = Cluster::reach(options)?;
    for class in &options.classes {
        cluster.has_class(class)?;
    }
    let classes: Vec<Entrant> = options.classes.iter().map(|it| Entrant::named(it)).collect();
    let mut figures = Figures::default();
    let rounds = Rounds { timed: options.rounds, ..Rounds::default() };
    for &load in &options.work {
        let go = |at: usize| work::go(options, &cluster, &options.classes[at], load);
        figures.add(&classes, in_turns(&classes, rounds, "kubernetes, measurements", go)?);
    }
    let version = cluster.version.clone();
    drop(cluster);
    let first = classes.iter().find(|class| !class.is_out());
    let mut outcome = figures.whole_outcome(first.map_or("", |first| &first.name))?;
    outcome.text.insert_str(0, &format!("Kubernetes: {version}\n\n"));
    let outcome = outcome.with("kubernetes", &version)?;
    let record = Circumstances::of_host("pods");
    session::tell(&options.forms, &record, &results::failures(&classes), classes.len(), outcome)
}
