//! The options of `scale`.

use crate::harness::*;
use ::report::size;

/// The maximum number of pods of one simulation.
pub const MOST_PODS: u64 = 1_000_000;
/// The maximum number of nodes, and of CPUs of a node.
pub const MOST_NODES: u64 = 100_000;

/// `scale`.
#[derive(Debug, Args)]
pub struct Scale {
    /// The JSON of "kubernetes", "shim" or "burst" of this program; may be given several times
    #[arg(long, value_name = "FILE")]
    pub from: Vec<PathBuf>,
    /// CPU time of a pod's start on its node, of one runtime or of all, in ms; instead of the one measured by
    /// "kubernetes"
    #[arg(long, value_name = "[NAME=]MS", value_parser = above_zero)]
    pub start_cpu_ms: Vec<Given>,
    /// The part of it that is spent under a lock of the whole host, in ms; instead of the one estimated from "burst"
    #[arg(long, value_name = "[NAME=]MS", value_parser = from_zero)]
    pub lock_ms: Vec<Given>,
    /// Memory of the shim of a pod, in KiB; instead of the one measured by "kubernetes" or "shim"
    #[arg(long, value_name = "[NAME=]KIB", value_parser = from_zero)]
    pub memory_kib: Vec<Given>,
    /// CPU time of a probe, in ms; instead of the one measured by "kubernetes" or "shim --probes"
    #[arg(long, value_name = "[NAME=]MS", value_parser = from_zero)]
    pub probe_cpu_ms: Vec<Given>,
    /// CPUs of a node
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = nodes, default_value = "1,2,4,8,16,32,64")]
    pub cores: Vec<usize>,
    /// Nodes of the cluster; each of them has the most CPUs of --cores
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = nodes, default_value = "1,10,100,1000")]
    pub nodes: Vec<usize>,
    /// Pods for each node of the cluster
    #[arg(long, value_name = "N", value_parser = pods, default_value = "100")]
    pub pods_per_node: usize,
    /// Pods in all, whatever the number of nodes
    #[arg(long, value_name = "N", value_parser = pods, conflicts_with = "pods_per_node")]
    pub pods: Option<usize>,
    /// Pods arrive at random, N a second on average, instead of all at once
    #[arg(long, value_name = "N", value_parser = positive)]
    pub rate: Option<f64>,
    /// Memory of a node for pods [default: that of the measured host]
    #[arg(long, value_name = "SIZE", value_parser = size::mebibytes)]
    pub memory: Option<usize>,
    /// Memory of a pod's own containers
    #[arg(long, value_name = "SIZE", value_parser = size::kibibytes)]
    pub pod_memory: Option<usize>,
    /// The most pods of a node: the kubelet's maxPods
    #[arg(long, value_name = "N", value_parser = pods, default_value = "110")]
    pub max_pods: usize,
    /// Time between two probes of a pod
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s")]
    pub interval: Duration,
    /// The kubelet starts at most N pods of a node at a time [default: all, as the kubelet does]
    #[arg(long, value_name = "N", value_parser = pods)]
    pub workers: Option<usize>,
    /// Time between two looks of the kubelet for changed containers
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub relist: Duration,
    /// The kubelet's kubeAPIQPS: requests a second
    #[arg(long, value_name = "N", value_parser = positive, default_value = "50")]
    pub kubelet_qps: f64,
    /// The kubelet's kubeAPIBurst
    #[arg(long, value_name = "N", value_parser = positive, default_value = "100")]
    pub kubelet_burst: f64,
    /// The kubelet's requests until a pod is ready: two reports of its state, each read first
    #[arg(long, value_name = "N", value_parser = zero_or_more, default_value = "4")]
    pub kubelet_calls: f64,
    /// The kubelet's eventRecordQPS: events a second
    #[arg(long, value_name = "N", value_parser = positive, default_value = "50")]
    pub event_qps: f64,
    /// The kubelet's eventBurst
    #[arg(long, value_name = "N", value_parser = positive, default_value = "100")]
    pub event_burst: f64,
    /// The kubelet's events of a pod's start: Pulled, Created, Started
    #[arg(long, value_name = "N", value_parser = zero_or_more, default_value = "3")]
    pub events: f64,
    /// The scheduler's clientConnection.qps: it binds a pod by one request
    #[arg(long, value_name = "N", value_parser = positive, default_value = "50")]
    pub scheduler_qps: f64,
    /// The scheduler's clientConnection.burst
    #[arg(long, value_name = "N", value_parser = positive, default_value = "100")]
    pub scheduler_burst: f64,
    /// Requests a second that the API server answers [default: as many as there are]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub api_rate: Option<f64>,
    /// The seed of random numbers; the same seed gives the same results
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The forms of the output.
    #[command(flatten)]
    pub forms: Forms,
}

/// A figure that an option gives, for one runtime or for all.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The runtime; `None` for all runtimes.
    pub name: Option<String>,
    /// The figure.
    pub value: f64,
}

/// Returns the number in `text`, if `fits` accepts the number. The limit of 1e9 is greater than any figure of a node.
fn number(text: &str, fits: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite() && fits(*value));
    value.filter(|value| *value <= 1e9).ok_or_else(|| format!("a number {range}, up to 1e9"))
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, |value| value >= 1e-6, "from 1e-6 on")
}

fn zero_or_more(text: &str) -> Result<f64, String> {
    number(text, |value| value >= 0.0, "from 0 on")
}

fn given(text: &str, parse: fn(&str) -> Result<f64, String>) -> Result<Given, String> {
    let (name, value) = match text.rsplit_once('=') {
        Some(("", _)) => return Err("there is no name before =".to_owned()),
        Some((name, value)) => (Some(name.to_owned()), value),
        None => (None, text),
    };
    Ok(Given { name, value: parse(value)? })
}

fn above_zero(text: &str) -> Result<Given, String> {
    given(text, positive)
}

fn from_zero(text: &str) -> Result<Given, String> {
    given(text, zero_or_more)
}

fn count(text: &str, most: u64) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    let number = number.and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(|| format!("a number from 1 to {most}"))
}

fn nodes(text: &str) -> Result<usize, String> {
    count(text, MOST_NODES)
}

fn pods(text: &str) -> Result<usize, String> {
    count(text, MOST_PODS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Command, Options};
    use clap::Parser;

    fn parsed(line: &[&str]) -> Option<Scale> {
        let line = ["bench", "scale"].iter().chain(line);
        match Options::try_parse_from(line).ok()?.command {
            Command::Scale(scale) => Some(*scale),
            _ => None,
        }
    }

    #[test]
    fn figures_have_a_name_or_none() {
        let line = ["--lock-ms=2", "--lock-ms=a=b=3.5", "--format=json", "--memory=1g"];
        let scale = parsed(&line).expect("good");
        let name = Some("a=b".to_owned());
        assert_eq!(scale.lock_ms[0], Given { name: None, value: 2.0 });
        assert_eq!(scale.lock_ms[1], Given { name, value: 3.5 });
        assert!(scale.forms.is_json());
        assert_eq!((scale.memory, scale.cores.len(), scale.max_pods), (Some(1024), 7, 110));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let bad = [
            "--nodes=0",
            "--nodes=100001",
            "--cores=0",
            "--cores=1,x",
            "--pods=0",
            "--pods=1000001",
            "--pods=99999999999999999999999",
            "--start-cpu-ms=NaN",
            "--start-cpu-ms=0",
            "--start-cpu-ms=a=-1",
            "--start-cpu-ms==1",
            "--lock-ms=inf",
            "--lock-ms=-0.1",
            "--memory-kib=1e300",
            "--kubelet-qps=0",
            "--scheduler-qps=nan",
            "--rate=1e-300",
            "--max-pods=0",
            "--workers=0",
        ];
        for option in bad {
            assert!(parsed(&[option]).is_none(), "{option}");
        }
        assert!(parsed(&["--pods=5", "--pods-per-node=5"]).is_none());
    }
}
