//! Measures each kind of work once.

use super::cluster::Cluster;
use super::metrics::Histogram;
use super::{Kubernetes, Load, node};
use crate::figures::Sample;
use crate::harness::*;

/// The program of pods that run until they are deleted: sh exits at once when SIGTERM arrives.
const STAYS: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";
/// The maximum time for which the node is measured without pods.
const IDLE: Duration = Duration::from_secs(20);
/// The length of the windows in which the node is measured until it is calm: after earlier pods are
/// removed, the kubelet and containerd still work for a while.
const WINDOW: Duration = Duration::from_secs(5);
/// The maximum wait for a calm node.
const LONGEST_CALM: Duration = Duration::from_secs(120);
/// The kubelet's histogram of pods' starts, without the time to pull images.
const POD_START: &str = "kubelet_pod_start_sli_duration_seconds";
/// The kubelet's histograms of calls to the container runtime.
const CALLS: &str = "kubelet_runtime_operations_duration_seconds";

/// Performs the work `load` once with pods of the RuntimeClass `class`, and removes the pods.
///
/// # Errors
/// Errors of the harness itself, an interrupt; the reason why the class is excluded.
pub(super) fn go(
    options: &Kubernetes,
    cluster: &Cluster,
    class: &str,
    load: Load,
) -> Result<Sample, Error> {
    let went = match load {
        Load::Burst => burst(options, cluster, class),
        Load::Job => job(options, cluster, class),
        Load::Probes => probes(options, cluster, class),
    };
    let went = went.map_err(|error| error.during(load.name()));
    if matches!(went, Err(Error::Out(_))) {
        interrupt::check()?;
        // Objects that a failure has left must not disturb the measurement of the next class.
        let _ = cluster.delete(&["job,pod", "--all", "--grace-period=0"], options.deadline);
    }
    went
}

/// The clocks and counters of the node at one moment.
struct Moment {
    at: Instant,
    /// The CPU time of the node's processes except kubectl, in milliseconds.
    cpu_ms: f64,
    metrics: String,
}

impl Moment {
    /// Reads the clocks and counters at the beginning of a measurement. The kubelet's metrics are
    /// read before the clock, so that reading them is not measured.
    fn first(cluster: &Cluster) -> Result<Self, Error> {
        let metrics = cluster.metrics()?;
        Ok(Self { cpu_ms: node::cpu_ms()? - cluster.spent_ms(), at: Instant::now(), metrics })
    }

    fn last(cluster: &Cluster) -> Result<Self, Error> {
        let (at, cpu_ms) = (Instant::now(), node::cpu_ms()? - cluster.spent_ms());
        Ok(Self { at, cpu_ms, metrics: cluster.metrics()? })
    }

    /// Returns the kubelet's histogram between `first` and this moment.
    fn histogram(&self, first: &Self, name: &str, label: &str) -> Histogram {
        let find = |of: &Self| Histogram::find(&of.metrics, name, label);
        find(self).since(&find(first))
    }

    /// Returns seconds since `first`.
    fn since(&self, first: &Self) -> f64 {
        (self.at - first.at).as_secs_f64()
    }

    /// Returns the node's CPU time since `first`, in ms per second.
    fn rate(&self, first: &Self) -> f64 {
        (self.cpu_ms - first.cpu_ms) / self.since(first)
    }
}

/// Returns the label that selects the operation `name` in [`CALLS`].
fn call(name: &str) -> String {
    format!("operation_type=\"{name}\"")
}

/// Returns `count` pods of one specification.
fn pods(count: usize, spec: &Value) -> Vec<Value> {
    let pod = |number| {
        let name = format!("pod-{number}");
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    };
    (0..count).map(pod).collect()
}

/// Measures many pods that are made at once.
fn burst(options: &Kubernetes, cluster: &Cluster, class: &str) -> Result<Sample, Error> {
    let (shims, mounts) = (node::shims(), node::mounts(options.mounts_of)?);
    let pods = pods(options.pods, &cluster.pod_of(class, STAYS, "Never"));
    let first = Moment::first(cluster)?;
    let made = cluster
        .create(&pods)
        .and_then(|()| cluster.wait("Ready", &["pod", "--all"], options.deadline));
    let last = Moment::last(cluster)?;
    made?;
    let mounted = node::mounts(options.mounts_of)?.saturating_sub(mounts);
    let held = node::beside(&shims);
    let began = Instant::now();
    cluster.delete(&["pod", "--all"], options.deadline)?;
    let gone = began.elapsed().as_secs_f64();
    let what = format!("{} at once", counted(options.pods, "pod"));
    let each = options.pods as f64;
    let mut sample: Sample = vec![
        (format!("{what}: until all are ready"), "s", last.since(&first)),
        (format!("{what}: until all are gone"), "s", gone),
    ];
    let starts = last.histogram(&first, POD_START, "");
    let figures =
        [("mean", starts.mean()), ("median", starts.quantile(0.5)), ("p99", starts.quantile(0.99))];
    for (of, value) in figures {
        let name = format!("{what}: a pod's start by the kubelet, {of}");
        sample.extend(value.map(|s| (name, "s", s)));
    }
    for of in ["run_podsandbox", "create_container", "start_container"] {
        let mean = last.histogram(&first, CALLS, &call(of)).mean();
        sample.extend(mean.map(|s| (format!("{what}: {of} by the kubelet, mean"), "ms", s * 1e3)));
    }
    sample.extend([
        (format!("{what}: CPU of the node, a pod"), "ms CPU", (last.cpu_ms - first.cpu_ms) / each),
        ("mounts on the node, a pod".to_owned(), "mounts", mounted as f64 / each),
        ("private memory of shims, a pod".to_owned(), "KiB", held.private_kib / each),
        ("memory of shims (PSS), a pod".to_owned(), "KiB", held.pss_kib / each),
        ("threads of shims, a pod".to_owned(), "threads", held.threads / each),
    ]);
    Ok(sample)
}

/// Measures a Job.
fn job(options: &Kubernetes, cluster: &Cluster, class: &str) -> Result<Sample, Error> {
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {
            "completions": options.completions,
            "parallelism": options.parallelism,
            "backoffLimit": 0,
            "template": {"spec": cluster.pod_of(class, "exit 0", "Never")},
        },
    });
    let first = Moment::first(cluster)?;
    let done = cluster
        .create(&[job])
        .and_then(|()| cluster.wait("Complete", &["job/job"], options.deadline));
    let last = Moment::last(cluster)?;
    done?;
    cluster.delete(&["job/job", "--cascade=foreground"], options.deadline)?;
    let what = format!(
        "Job of {}, {} at a time",
        counted(options.completions, "pod"),
        options.parallelism
    );
    let each = options.completions as f64;
    Ok(vec![
        (format!("{what}: time a pod"), "ms", last.since(&first) * 1e3 / each),
        (format!("{what}: CPU of the node, a pod"), "ms CPU", (last.cpu_ms - first.cpu_ms) / each),
    ])
}

/// Measures pods that the kubelet probes.
fn probes(options: &Kubernetes, cluster: &Cluster, class: &str) -> Result<Sample, Error> {
    calm(cluster)?;
    let idle = Moment::first(cluster)?;
    pause(options.span.min(IDLE), &mut || {})?;
    let idle_end = Moment::last(cluster)?;
    let mut spec = cluster.pod_of(class, STAYS, "Never");
    spec["containers"][0]["readinessProbe"] = json!({
        "exec": {"command": ["/bin/true"]},
        "periodSeconds": options.interval.as_secs(),
        "timeoutSeconds": 5,
    });
    cluster.create(&pods(options.pods, &spec))?;
    cluster.wait("Ready", &["pod", "--all"], options.deadline)?;
    // Right after a burst, the kubelet has additional work.
    pause(options.interval, &mut || {})?;
    let first = Moment::first(cluster)?;
    pause(options.span, &mut || {})?;
    let last = Moment::last(cluster)?;
    cluster.delete(&["pod", "--all"], options.deadline)?;
    let beyond = last.rate(&first) - idle_end.rate(&idle);
    let probes = last.histogram(&first, CALLS, &call("exec_sync"));
    let none = || Error::Out("probes: the kubelet has counted none".to_owned());
    let mean = probes.mean().ok_or_else(none)?;
    let what =
        format!("{} probed each {} s", counted(options.pods, "pod"), options.interval.as_secs());
    Ok(vec![
        (format!("{what}: CPU of the node beyond that without pods"), "ms CPU/s", beyond),
        ("probes".to_owned(), "probes/s", probes.count / last.since(&first)),
        ("a probe by the kubelet, mean".to_owned(), "ms", mean * 1e3),
    ])
}

/// Waits until the node's CPU time no longer falls, or for [`LONGEST_CALM`].
fn calm(cluster: &Cluster) -> Result<(), Error> {
    let end = Instant::now() + LONGEST_CALM;
    let mut rates = Vec::new();
    while !is_calm(&rates) && Instant::now() < end {
        let first = Moment::first(cluster)?;
        pause(WINDOW, &mut || {})?;
        rates.push(Moment::last(cluster)?.rate(&first));
    }
    Ok(())
}

/// Returns whether each of the last two rates is more than nine tenths of the rate before it.
fn is_calm(rates: &[f64]) -> bool {
    match rates {
        [.., before, first, second] => *first > before * 0.9 && *second > first * 0.9,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_calm_once_its_cpu_time_no_longer_falls() {
        assert!(!is_calm(&[]) && !is_calm(&[500.0, 500.0]));
        assert!(!is_calm(&[900.0, 500.0, 300.0]) && !is_calm(&[500.0, 500.0, 300.0]));
        assert!(is_calm(&[900.0, 300.0, 290.0, 285.0]));
        assert!(is_calm(&[100.0, 100.0, 200.0]));
    }
}
