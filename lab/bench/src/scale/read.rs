//! Reads the JSON of `kubernetes`, `shim` and `burst`.

use crate::harness::*;
use std::fs;
use std::io::Read;

/// The maximum size of a file, in bytes. A measurement of an hour writes a few megabytes.
const MOST: u64 = 64 << 20;

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    StartCpuMs,
    LockMs,
    MemoryKib,
    ProbeCpuMs,
    /// The time until all of many pods, created at once on one node, were ready, in s. The model is compared with this
    /// time.
    AllReadyS,
    /// The mean time of a pod's start in this burst, measured by the kubelet, in s.
    MeanS,
}

/// A figure of a runtime in a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) runtime: String,
    pub(super) kind: Kind,
    pub(super) value: f64,
    /// The number of pods in the measurement.
    pub(super) pods: Option<usize>,
    pub(super) source: String,
}

impl Found {
    /// Returns whether the value can be right. A value that was computed as the difference of two measurements may be
    /// negative, so it is not always right. Only the time under a lock may be zero: then starts scale perfectly.
    pub(super) fn is_usable(&self) -> bool {
        self.value.is_finite()
            && (self.value > 0.0 || self.kind == Kind::LockMs && self.value == 0.0)
    }
}

/// A file, with the host on which it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct File {
    pub(super) file: String,
    /// The experiment.
    pub(super) experiment: &'static str,
    pub(super) date: String,
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    pub(super) memory_mib: usize,
    #[serde(skip)]
    pub(super) found: Vec<Found>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// The file can't be read, or is not the JSON of one of these experiments.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let file = fs::File::open(path).map_err(Error::at("open", path))?;
        let mut text = String::new();
        let read = file.take(MOST + 1).read_to_string(&mut text);
        let read = read.map_err(Error::at("read", path))?;
        if read as u64 > MOST {
            bail!("{}: more than 64 MiB", path.display());
        }
        let value: Value =
            serde_json::from_str(&text).map_err(|error| unfit!("{}: {error}", path.display()))?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        Self::of(&value, &name).ok_or_else(|| {
            unfit!(
                "{} is not the JSON of \"dayfly bench kubernetes\", \"shim\" or \"burst\"",
                path.display()
            )
        })
    }

    /// Interprets the JSON of an experiment.
    pub(super) fn of(value: &Value, name: &str) -> Option<Self> {
        let record = value.get("record")?;
        let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
        let number = |key: &str| {
            record.get(key).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
        };
        let cpus = number("cpus").filter(|cpus| *cpus > 0)?;
        let (experiment, found) = if value.get("kubernetes").is_some() {
            ("kubernetes", figures(value, name, cluster)?)
        } else if value.get("containerd").is_some() {
            ("shim", figures(value, name, shim)?)
        } else if value.get("idle").is_some() {
            ("burst", locks(value, name, cpus)?)
        } else {
            return None;
        };
        Some(Self {
            file: name.to_owned(),
            experiment,
            date: text("date"),
            kernel: text("kernel"),
            cpu: text("cpu"),
            cpus,
            memory_mib: number("memory_mib").unwrap_or(0),
            found,
        })
    }
}

/// Reads the medians of the figures whose names `kind` knows. Figures of excluded runtimes are omitted.
fn figures(value: &Value, source: &str, kind: fn(&str) -> Option<Measured>) -> Option<Vec<Found>> {
    let out = |runtime: &str| {
        let failures = value.get("failures").and_then(Value::as_array);
        failures.is_some_and(|all| all.iter().any(|of| of["runtime"] == runtime))
    };
    let mut found = Vec::new();
    let mut rates: Vec<(String, f64)> = Vec::new();
    let mut loads: Vec<Found> = Vec::new();
    for of in value.get("figures")?.as_array()? {
        let (Some(name), Some(runtime)) = (of["name"].as_str(), of["entrant"].as_str()) else {
            return None;
        };
        let Some(measured) = kind(name).filter(|_| !out(runtime)) else { continue };
        let samples = of["samples"].as_array()?;
        let mut samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
        if samples.is_empty() {
            continue;
        }
        let value = median(&mut samples);
        let runtime = class(runtime);
        let pods = name.split(' ').next().and_then(|number| number.parse().ok());
        let make =
            |kind| Found { runtime: runtime.clone(), kind, value, pods, source: source.to_owned() };
        match measured {
            Measured::Is(kind) => found.push(make(kind)),
            Measured::ProbeLoad => loads.push(make(Kind::ProbeCpuMs)),
            Measured::ProbeRate => rates.push((runtime, value)),
        }
    }
    for load in loads {
        if let Some((_, rate)) =
            rates.iter().find(|(name, rate)| *name == load.runtime && *rate > 0.0)
        {
            found.push(Found { value: load.value / rate, pods: None, ..load });
        }
    }
    Some(found)
}

/// The meaning of a figure's name in a file.
enum Measured {
    Is(Kind),
    /// The CPU time of all probes per second.
    ProbeLoad,
    /// The number of probes per second.
    ProbeRate,
}

/// Returns the meaning of a figure of `kubernetes`.
fn cluster(name: &str) -> Option<Measured> {
    let at_once = name.contains(" at once: ");
    let is = |end: &str| at_once && name.ends_with(end);
    Some(match name {
        "memory of shims (PSS), a pod" => Measured::Is(Kind::MemoryKib),
        "probes" => Measured::ProbeRate,
        _ if is("CPU of the node, a pod") => Measured::Is(Kind::StartCpuMs),
        _ if is("until all are ready") => Measured::Is(Kind::AllReadyS),
        _ if is("a pod's start by the kubelet, mean") => Measured::Is(Kind::MeanS),
        _ if name.ends_with("CPU of the node beyond that without pods") => Measured::ProbeLoad,
        _ => return None,
    })
}

/// Returns the meaning of a figure of `shim`.
fn shim(name: &str) -> Option<Measured> {
    Some(match name {
        "a probe: CPU beside the client" => Measured::Is(Kind::ProbeCpuMs),
        "resident memory beside an idle pod, shared in parts" => Measured::Is(Kind::MemoryKib),
        _ => return None,
    })
}

/// Translates the name of an entrant of `shim` to the shorter name of the RuntimeClass in `scripts/bed kubernetes`.
fn class(entrant: &str) -> String {
    match entrant.strip_prefix("Go shim + ") {
        Some("dayfly") => "dayfly-go".to_owned(),
        Some(runtime) => runtime.to_owned(),
        None if entrant == "dayfly shim" => "dayfly".to_owned(),
        None => entrant.to_owned(),
    }
}

/// Estimates the time for which a start holds a lock, from the results of the experiment `burst` and Amdahl's law. Let
/// `c` be the number of CPUs, and `s` the speedup: the rate of starts with `c` containers in flight, divided by the
/// rate with one. Then the share of a start that does not run in parallel is (c ÷ s − 1) ÷ (c − 1). This share includes
/// everything else that keeps starts from running in parallel.
fn locks(value: &Value, source: &str, cpus: usize) -> Option<Vec<Found>> {
    let mut rates: Vec<(&str, u64, f64)> = Vec::new();
    for row in value.get("rows")?.as_array()? {
        let (Some(runtime), Some(width)) = (row["runtime"].as_str(), row["width"].as_u64()) else {
            return None;
        };
        let samples = row["rates"].as_array()?;
        let mut samples: Vec<f64> = samples.iter().filter_map(Value::as_f64).collect();
        if !samples.is_empty() {
            rates.push((runtime, width, median(&mut samples)));
        }
    }
    let rate = |runtime: &str, width: usize| {
        let of = |row: &&(&str, u64, f64)| row.0 == runtime && row.1 == width as u64;
        rates.iter().find(of).map(|row| row.2).filter(|rate| *rate > 0.0)
    };
    let mut found = Vec::new();
    for &(runtime, width, _) in &rates {
        if width != 1 || cpus < 2 {
            continue;
        }
        let (Some(one), Some(many)) = (rate(runtime, 1), rate(runtime, cpus)) else { continue };
        let cpus = cpus as f64;
        let share = ((cpus * one / many - 1.0) / (cpus - 1.0)).clamp(0.0, 1.0);
        found.push(Found {
            runtime: runtime.to_owned(),
            kind: Kind::LockMs,
            value: share * 1e3 / one,
            pods: None,
            source: source.to_owned(),
        });
    }
    Some(found)
}
