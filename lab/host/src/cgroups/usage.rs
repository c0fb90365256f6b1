//! The usage of a group, on cgroup v1 or v2.

use super::error::of_cgroup;
use super::group::{Group, Mount, Tree, Version, processes};
use cgroup::stats::Pressure;
use report::Error;
use report::size::{Units, readable};
use serde::Serialize;
use std::path::PathBuf;

/// A sample of a group's usage. Counters start at zero when the group is created. A figure is `None` if no controller
/// counts it for this group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// The name of the group.
    pub group: String,
    /// The number of processes in the group and below.
    pub processes: u64,
    /// The number of tasks in the group and below, counted by the pids controller.
    pub tasks: Option<u64>,
    /// CPU time, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// The number of periods in which the CPU quota throttled the group.
    pub throttled: Option<u64>,
    /// The throttled time, in nanoseconds.
    pub throttled_ns: Option<u64>,
    /// Memory, in bytes.
    pub memory: Option<u64>,
    /// The maximum memory so far, in bytes (on cgroup v2 since Linux 5.19).
    pub memory_peak: Option<u64>,
    /// The memory limit in bytes, if any.
    pub memory_limit: Option<u64>,
    /// Bytes read from block devices.
    pub read: Option<u64>,
    /// Bytes written to block devices.
    pub written: Option<u64>,
    /// The percentages of the last ten seconds in which some task waited for a CPU, for memory, or for a block device,
    /// in this order. They are available on cgroup v2 only.
    pub pressure: Option<[f64; 3]>,
}

impl Usage {
    /// Samples `group`.
    ///
    /// # Errors
    /// The group does not exist; failing reads.
    pub fn of(tree: &Tree, group: &Group) -> Result<Self, Error> {
        let stats = tree.open(group)?.stats().map_err(of_cgroup)?;
        let all = tree.walk(group);
        let all: Vec<PathBuf> = all.iter().flat_map(|group| tree.directories(group)).collect();
        // The statistics are those of v1 if the group is in any v1 hierarchy, and otherwise those of v2.
        let mut places: Vec<(&Mount, PathBuf)> =
            tree.places(group).filter(|(_, directory)| directory.is_dir()).collect();
        if places.iter().any(|(mount, _)| mount.version == Version::V1) {
            places.retain(|(mount, _)| mount.version == Version::V1);
        }
        // Figures that are not counted in these directories are zeros in the statistics.
        let has = |legacy: &str, unified: &str| {
            places.iter().any(|(mount, directory)| match mount.version {
                Version::V1 => directory.join(legacy).exists(),
                Version::V2 => directory.join(unified).exists(),
            })
        };
        let cpu = has("cpuacct.usage", "cpu.stat");
        // On v2, cpu.stat exists even without the controller, but then lacks the throttling.
        let throttling = has("cpu.stat", "cpu.max");
        let memory = has("memory.usage_in_bytes", "memory.current");
        let peak = has("memory.max_usage_in_bytes", "memory.peak");
        let io = has("blkio.throttle.io_service_bytes", "io.stat")
            || has("blkio.bfq.io_service_bytes", "io.stat");
        let limit = stats.memory.usage.limit;
        let bytes = |op: &str| {
            let entries = stats.blkio.io_service_bytes_recursive.iter();
            entries.filter(|entry| entry.op == op).map(|entry| entry.value).sum()
        };
        let some = |psi: &Option<Pressure>| psi.as_ref().map(|psi| psi.some.avg10);
        let pressures = (some(&stats.cpu.psi), some(&stats.memory.psi), some(&stats.blkio.psi));
        Ok(Self {
            group: group.to_string(),
            processes: processes(&all)?.len() as u64,
            tasks: has("pids.current", "pids.current").then_some(stats.pids.current),
            cpu_ns: cpu.then_some(stats.cpu.usage.total),
            throttled: throttling.then_some(stats.cpu.throttling.throttled_periods),
            throttled_ns: throttling.then_some(stats.cpu.throttling.throttled_time),
            memory: memory.then_some(stats.memory.usage.usage),
            memory_peak: peak.then_some(stats.memory.usage.max),
            // v1 prints "no limit" as the largest number of pages that a counter can hold.
            memory_limit: Some(limit)
                .filter(|limit| *limit != 0 && *limit < i64::MAX as u64 - 4095),
            read: io.then(|| bytes("Read")),
            written: io.then(|| bytes("Write")),
            pressure: match pressures {
                (None, None, None) => None,
                (cpu, memory, io) => Some([cpu, memory, io].map(Option::unwrap_or_default)),
            },
        })
    }
}

/// Formats a figure; `-` if it is unknown.
pub fn known<T>(figure: Option<T>, text: impl FnOnce(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), text)
}

/// Formats a number of bytes in the units in which limits are written.
pub fn size(bytes: u64) -> String {
    readable(bytes, Units::Binary)
}

/// Formats a CPU time.
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
        assert_eq!(time(1_500_000_000), "1.50s");
        assert_eq!(time(125_000_000_000), "2m05s");
        assert_eq!(time(7_300_000_000_000), "2h02m");
    }
}
