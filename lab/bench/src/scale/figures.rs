//! The input figures of the simulation, which are read from the JSON of other experiments or given by options.

use super::read::{File, Found, Kind};
use crate::Error;
use crate::options::{Given, Scale};
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

/// A figure that every runtime needs: the option that gives the figure, and the command that measures it.
struct Wanted {
    kind: Kind,
    option: &'static str,
    what: &'static str,
    measured_by: &'static str,
}

const START: Wanted = Wanted {
    kind: Kind::StartCpuMs,
    option: "--start-cpu-ms",
    what: "the CPU time of a pod's start",
    measured_by: "\"dayfly bench kubernetes --work burst --json\"",
};
const LOCK: Wanted = Wanted {
    kind: Kind::LockMs,
    option: "--lock-ms",
    what: "the part of a start under a lock of the whole host",
    measured_by: "\"dayfly bench burst --json\", on two CPUs or more, allows an estimate",
};
const MEMORY: Wanted = Wanted {
    kind: Kind::MemoryKib,
    option: "--memory-kib",
    what: "the memory of a pod's shim",
    measured_by: "\"dayfly bench kubernetes --work burst --json\" or \"dayfly bench shim --figure idle-pod --json\"",
};
const PROBE: Wanted = Wanted {
    kind: Kind::ProbeCpuMs,
    option: "--probe-cpu-ms",
    what: "the CPU time of a probe",
    measured_by: "\"dayfly bench kubernetes --work probes --json\" or \"dayfly bench shim --probes --json\"",
};

/// Gathers the figures of all runtimes that files or options name.
///
/// # Errors
/// A figure was neither measured nor given; the time under the lock is greater than that of the whole start.
pub(super) fn gather(options: &Scale, files: &[File]) -> Result<Vec<Figures>, Error> {
    let found: Vec<&Found> = files.iter().flat_map(|file| &file.found).collect();
    let names = names(options, files);
    names
        .into_iter()
        .map(|runtime| {
            let of = |wanted: &Wanted, given: &[Given]| figure(&runtime, wanted, given, &found);
            let figures = Figures {
                start_cpu_ms: of(&START, &options.start_cpu_ms)?,
                lock_ms: of(&LOCK, &options.lock_ms)?,
                memory_kib: of(&MEMORY, &options.memory_kib)?,
                probe_cpu_ms: of(&PROBE, &options.probe_cpu_ms)?,
                runtime: runtime.clone(),
            };
            let (start, lock) = (figures.start_cpu_ms.value, figures.lock_ms.value);
            if lock > start {
                return Err(Error::Unfit(format!(
                    "{runtime}: of a start's {start:.3} ms of CPU time {lock:.3} ms cannot be under a lock"
                )));
            }
            Ok(figures)
        })
        .collect()
}

/// Returns the names of the runtimes for which the CPU time of a start was measured or given. If there are none,
/// returns the names of all runtimes that files or options name, or else `pods`.
fn names(options: &Scale, files: &[File]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    let found = files.iter().flat_map(|file| &file.found);
    found.filter(|found| found.kind == Kind::StartCpuMs).for_each(|found| add(&found.runtime));
    options.start_cpu_ms.iter().filter_map(|given| given.name.as_deref()).for_each(&mut add);
    if names.is_empty() {
        let given = [&options.lock_ms, &options.memory_kib, &options.probe_cpu_ms];
        let given = given.into_iter().flatten().filter_map(|given| given.name.as_deref());
        let found = files.iter().flat_map(|file| &file.found).map(|found| found.runtime.as_str());
        let all: Vec<&str> = found.chain(given).collect();
        let mut names: Vec<String> = Vec::new();
        for name in all {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        if names.is_empty() {
            names.push("pods".to_owned());
        }
        return names;
    }
    names
}

/// Returns a figure of the runtime. A value given for this runtime is preferred to a value given for all runtimes, and
/// that to a measured value. Of several values, the last is used.
fn figure(
    runtime: &str,
    wanted: &Wanted,
    given: &[Given],
    found: &[&Found],
) -> Result<Figure, Error> {
    let own = given.iter().rev().find(|given| given.name.as_deref() == Some(runtime));
    let any = || given.iter().rev().find(|given| given.name.is_none());
    if let Some(given) = own.or_else(any) {
        return Ok(Figure { value: given.value, source: wanted.option.to_owned() });
    }
    let of = |found: &&&Found| found.kind == wanted.kind && found.runtime == runtime;
    let measured: Vec<_> = found.iter().filter(of).collect();
    if let Some(last) = measured.iter().rev().find(|found| found.is_usable()) {
        return Ok(Figure { value: last.value, source: last.source.clone() });
    }
    let Wanted { option, what, measured_by, .. } = wanted;
    let reason = match measured.last() {
        Some(last) => format!(
            "{} has {:.3} for {what}, which is none: the node was not calm before",
            last.source, last.value
        ),
        None => format!("{what} was neither measured nor given"),
    };
    Err(Error::Unfit(format!(
        "{runtime}: {reason}; {measured_by} (--from FILE); {option} {runtime}=N gives it"
    )))
}
