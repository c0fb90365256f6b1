//! The input figures of the simulation, which are read from the JSON of other experiments or given by options; and the
//! limits of one node, computed from them by division: how many pods it starts per second in the long run, and how many
//! pods it holds.

use super::options::{Given, Scale};
use super::read::{File, Found, Kind};
use crate::Error;
use crate::results::distinct;
use serde::Serialize;

/// A figure and its source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) value: f64,
    /// The name of a file or of an option.
    pub(super) source: String,
}

/// The figures of one runtime.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    pub(super) runtime: String,
    /// The CPU time of a start on the node, including the time under the lock.
    pub(super) start_cpu_ms: Figure,
    pub(super) lock_ms: Figure,
    /// The memory of a pod's shim.
    pub(super) memory_kib: Figure,
    pub(super) probe_cpu_ms: Figure,
}

/// Returns the option that gives a figure, what the figure is, and how it is measured.
fn about(kind: Kind) -> [&'static str; 3] {
    match kind {
        Kind::StartCpuMs => [
            "--start-cpu-ms",
            "the CPU time of a pod's start",
            "\"dayfly bench kubernetes --work burst --json\"",
        ],
        Kind::LockMs => [
            "--lock-ms",
            "the part of a start under a lock of the whole host",
            "\"dayfly bench burst --json\", on two CPUs or more, allows an estimate",
        ],
        Kind::MemoryKib => [
            "--memory-kib",
            "the memory of a pod's shim",
            "\"dayfly bench kubernetes --work burst --json\" or \"dayfly bench shim --figure idle-pod --json\"",
        ],
        _ => [
            "--probe-cpu-ms",
            "the CPU time of a probe",
            "\"dayfly bench kubernetes --work probes --json\" or \"dayfly bench shim --probes --json\"",
        ],
    }
}

/// Gathers the figures of all runtimes that files or options name.
///
/// # Errors
/// A figure was neither measured nor given; the time under the lock is greater than that of the whole start.
pub(super) fn gather(options: &Scale, files: &[File]) -> Result<Vec<Figures>, Error> {
    let found: Vec<&Found> = files.iter().flat_map(|file| &file.found).collect();
    names(options, files)
        .into_iter()
        .map(|runtime| {
            let of = |kind, given: &[Given]| figure(&runtime, kind, given, &found);
            let figures = Figures {
                start_cpu_ms: of(Kind::StartCpuMs, &options.start_cpu_ms)?,
                lock_ms: of(Kind::LockMs, &options.lock_ms)?,
                memory_kib: of(Kind::MemoryKib, &options.memory_kib)?,
                probe_cpu_ms: of(Kind::ProbeCpuMs, &options.probe_cpu_ms)?,
                runtime: runtime.clone(),
            };
            let (start, lock) = (figures.start_cpu_ms.value, figures.lock_ms.value);
            if lock > start {
                bail!("{runtime}: of a start's {start:.3} ms of CPU time {lock:.3} ms cannot be under a lock");
            }
            Ok(figures)
        })
        .collect()
}

/// Returns the names of the runtimes for which the CPU time of a start was measured or given. If there are none,
/// returns the names of all runtimes that files or options name, or else `pods`.
fn names(options: &Scale, files: &[File]) -> Vec<String> {
    fn named(given: &[Given]) -> impl Iterator<Item = &str> {
        given.iter().filter_map(|given| given.name.as_deref())
    }
    let found = || files.iter().flat_map(|file| &file.found);
    let starts = found().filter(|found| found.kind == Kind::StartCpuMs);
    let starts = starts.map(|found| found.runtime.as_str());
    let mut names = distinct(starts.chain(named(&options.start_cpu_ms)));
    if names.is_empty() {
        let given = [&options.lock_ms, &options.memory_kib, &options.probe_cpu_ms];
        let all = found().map(|found| found.runtime.as_str());
        names = distinct(all.chain(given.into_iter().flat_map(|given| named(given))));
    }
    if names.is_empty() {
        names.push("pods");
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Returns a figure of the runtime. A value given for this runtime is preferred to a value given for all runtimes, and
/// that to a measured value. Of several values, the last is used.
fn figure(runtime: &str, kind: Kind, given: &[Given], found: &[&Found]) -> Result<Figure, Error> {
    let [option, what, measured_by] = about(kind);
    let own = given.iter().rev().find(|given| given.name.as_deref() == Some(runtime));
    let any = || given.iter().rev().find(|given| given.name.is_none());
    if let Some(given) = own.or_else(any) {
        return Ok(Figure { value: given.value, source: option.to_owned() });
    }
    let of = |found: &&&Found| found.kind == kind && found.runtime == runtime;
    let measured: Vec<_> = found.iter().filter(of).collect();
    if let Some(last) = measured.iter().rev().find(|found| found.is_usable()) {
        return Ok(Figure { value: last.value, source: last.source.clone() });
    }
    let reason = match measured.last() {
        Some(last) => format!(
            "{} has {:.3} for {what}, which is none: the node was not calm before",
            last.source, last.value
        ),
        None => format!("{what} was neither measured nor given"),
    };
    Err(unfit!("{runtime}: {reason}; {measured_by} (--from FILE); {option} {runtime}=N gives it"))
}

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
