//! The limits of one node, computed by division: how many pods it starts per second in the long run, and how many pods
//! it holds.

use super::figures::Figures;
use super::options::Scale;
use serde::Serialize;

/// A limit with its name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Bound {
    pub(super) by: &'static str,
    pub(super) most: f64,
}

/// Returns the smallest limit; if several are equal, the first of them.
pub(super) fn smallest(bounds: &[Bound]) -> Option<Bound> {
    bounds
        .iter()
        .copied()
        .reduce(|least, other| if other.most < least.most { other } else { least })
}

/// Returns the starts per second that each of its limits allows a node with `cores` CPUs.
pub(super) fn rates(options: &Scale, of: &Figures, cores: usize) -> Vec<Bound> {
    let (start, lock) = (of.start_cpu_ms.value / 1e3, of.lock_ms.value / 1e3);
    let mut bounds = vec![
        Bound { by: "node CPU", most: cores as f64 / start },
        Bound { by: "lock", most: 1.0 / lock },
    ];
    let mut kubelet = options.kubelet_qps / options.kubelet_calls;
    if let Some(workers) = options.workers {
        kubelet = kubelet.min(workers as f64 / start);
    }
    bounds.push(Bound { by: "kubelet", most: kubelet });
    bounds.retain(|bound| bound.most.is_finite());
    bounds
}

/// Returns the number of pods that each of its limits allows a node with `cores` CPUs and `memory_mib` MiB of memory.
pub(super) fn holds(options: &Scale, of: &Figures, cores: usize, memory_mib: usize) -> Vec<Bound> {
    let pod_kib = of.memory_kib.value + options.pod_memory.unwrap_or(0) as f64;
    // A pod's probes take this share of one CPU.
    let probed = probed(options, of);
    let whole = |most: f64| if most.is_finite() { most.floor() } else { most };
    let mut bounds = vec![
        Bound { by: "max-pods", most: options.max_pods as f64 },
        Bound { by: "memory", most: whole(memory_mib as f64 * 1024.0 / pod_kib) },
        Bound { by: "CPU of probes", most: whole(cores as f64 / probed) },
    ];
    bounds.retain(|bound| bound.most.is_finite());
    bounds
}

/// Returns the number of CPUs that the probes of one pod use on average.
pub(super) fn probed(options: &Scale, of: &Figures) -> f64 {
    match options.interval.as_secs_f64() {
        interval if interval > 0.0 => of.probe_cpu_ms.value / 1e3 / interval,
        _ => 0.0,
    }
}
