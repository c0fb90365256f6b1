//! What a group uses, by either interface.

use super::group::{Group, Tree, processes};
use cgroup::stats::{Pressure, Stats};
use report::Error;
use serde::Serialize;

/// A look at a group. Counters count since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Its name.
    pub group: String,
    /// Processes in it and below.
    pub processes: u64,
    /// Tasks in it and below, where the pids controller counts them.
    pub tasks: u64,
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Periods of its quota in which it was held back.
    pub throttled: u64,
    /// For how long, in nanoseconds.
    pub throttled_ns: u64,
    /// Memory, in bytes.
    pub memory: u64,
    /// The most there ever was; 0 where the kernel does not tell.
    pub memory_peak: u64,
    /// The limit, if there is one.
    pub memory_limit: Option<u64>,
    /// Read from block devices, in bytes.
    pub read: u64,
    /// Written to block devices, in bytes.
    pub written: u64,
    /// The share of the last ten seconds in which some task waited for a CPU, for memory, for a
    /// block device; in percent, on cgroup v2 alone.
    pub pressure: Option<[f64; 3]>,
}

impl Usage {
    /// Looks at `group`.
    ///
    /// # Errors
    /// It is not there; failing reads.
    pub fn of(tree: &Tree, group: &Group) -> Result<Self, Error> {
        let stats = tree.open(group)?.stats()?;
        let mut all = Vec::new();
        for inner in tree.walk(group) {
            all.extend(processes(&tree.directories(&inner))?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Self { processes: all.len() as u64, ..Self::from_stats(group.to_string(), &stats) })
    }

    fn from_stats(group: String, stats: &Stats) -> Self {
        let limit = stats.memory.usage.limit;
        let bytes = |op: &str| {
            let entries = stats.blkio.io_service_bytes_recursive.iter();
            entries.filter(|entry| entry.op == op).map(|entry| entry.value).sum()
        };
        let some = |psi: &Option<Pressure>| psi.as_ref().map(|psi| psi.some.avg10);
        let pressures = (some(&stats.cpu.psi), some(&stats.memory.psi), some(&stats.blkio.psi));
        Self {
            group,
            processes: 0,
            tasks: stats.pids.current,
            cpu_ns: stats.cpu.usage.total,
            throttled: stats.cpu.throttling.throttled_periods,
            throttled_ns: stats.cpu.throttling.throttled_time,
            memory: stats.memory.usage.usage,
            memory_peak: stats.memory.usage.max,
            // What v1 shows for none is the most pages that a counter holds.
            memory_limit: Some(limit)
                .filter(|limit| *limit != 0 && *limit < i64::MAX as u64 - 4095),
            read: bytes("Read"),
            written: bytes("Write"),
            pressure: match pressures {
                (None, None, None) => None,
                (cpu, memory, io) => Some([cpu, memory, io].map(Option::unwrap_or_default)),
            },
        }
    }
}

/// Bytes for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => bytes.to_string(),
        _ if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}{}", UNITS[unit]),
        _ => format!("{value:.1}{}", UNITS[unit]),
    }
}

/// CPU time for people.
#[must_use]
pub fn time(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match seconds {
        ..60.0 => format!("{seconds:.2}s"),
        ..3600.0 => format!("{:.0}m{:02.0}s", (seconds / 60.0).floor(), seconds % 60.0),
        _ => format!("{:.0}h{:02.0}m", (seconds / 3600.0).floor(), seconds % 3600.0 / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        assert_eq!(size(0), "0");
        assert_eq!(size(1023), "1023");
        assert_eq!(size(8 << 30), "8G");
        assert_eq!(size(1_500_000), "1.4M");
        assert_eq!(size(200 << 20), "200M");
        assert_eq!(time(1_500_000_000), "1.50s");
        assert_eq!(time(125_000_000_000), "2m05s");
        assert_eq!(time(7_300_000_000_000), "2h02m");
    }
}
