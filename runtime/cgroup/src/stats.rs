//! A container's resource usage, in the format that `runc events` prints and that engines read.
//!
//! The names and the nesting are those of runc 1.5 (`types.Stats`). The same members are omitted if they are zero.
//! Unless a member's description states otherwise, times are in nanoseconds and sizes in bytes. Counters start from
//! zero at the creation of the cgroup.

mod files;
mod legacy;
mod unified;

pub use crate::parse::{device, key, keys, number};
pub use files::Files;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use rustix::fs::{CWD, Dir};
use serde::Serialize;
use sys::fs::open_dir;

use crate::{Cgroup, Error};

/// The part of the data of a `stats` event that comes from a cgroup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stats {
    /// CPU time.
    pub cpu: CpuStats,
    /// The allowed CPUs and memory nodes; cgroup v1 only.
    pub cpuset: CpusetStats,
    /// Memory and swap usage.
    pub memory: MemoryStats,
    /// The number of tasks.
    pub pids: PidsStats,
    /// I/O of block devices.
    pub blkio: BlkioStats,
    /// Huge pages, by page size (for example `2MB`).
    pub hugetlb: BTreeMap<String, HugetlbStats>,
}

/// CPU time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CpuStats {
    /// CPU time used.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: CpuUsage,
    /// Throttling by the CPU quota.
    #[serde(skip_serializing_if = "is_default")]
    pub throttling: Throttling,
    /// Pressure stall information for the CPU; cgroup v2 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// CPU time used, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CpuUsage {
    /// The total CPU time.
    #[serde(skip_serializing_if = "is_default")]
    pub total: u64,
    /// The CPU time on each CPU; cgroup v1 only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percpu: Vec<u64>,
    /// The CPU time in the kernel on each CPU; cgroup v1 only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percpu_kernel: Vec<u64>,
    /// The CPU time in user mode on each CPU; cgroup v1 only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percpu_user: Vec<u64>,
    /// The CPU time in the kernel on all CPUs.
    pub kernel: u64,
    /// The CPU time in user mode on all CPUs.
    pub user: u64,
}

/// Throttling by a CPU quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Throttling {
    /// The number of elapsed periods.
    #[serde(skip_serializing_if = "is_default")]
    pub periods: u64,
    /// The number of periods in which the quota was used up.
    #[serde(skip_serializing_if = "is_default")]
    pub throttled_periods: u64,
    /// The time for which tasks were throttled, in nanoseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub throttled_time: u64,
}

/// The allowed CPUs and memory nodes, from the files of the v1 cpuset controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "each is the file of that name in cgroup-v1/cpusets.rst")]
pub struct CpusetStats {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u16>,
    pub cpu_exclusive: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mems: Vec<u16>,
    pub mem_hardwall: u64,
    pub mem_exclusive: u64,
    pub memory_migrate: u64,
    pub memory_spread_page: u64,
    pub memory_spread_slab: u64,
    pub memory_pressure: u64,
    pub sched_load_balance: u64,
    pub sched_relax_domain_level: i64,
}

/// Memory and swap usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MemoryStats {
    /// The size of the page cache.
    #[serde(skip_serializing_if = "is_default")]
    pub cache: u64,
    /// Memory usage, without swap.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: MemoryUsage,
    /// The usage of memory and swap together.
    #[serde(skip_serializing_if = "is_default")]
    pub swap: MemoryUsage,
    /// Kernel memory; cgroup v1 only.
    #[serde(skip_serializing_if = "is_default")]
    pub kernel: MemoryUsage,
    /// Memory of TCP buffers; cgroup v1 only.
    #[serde(rename = "kernelTCP", skip_serializing_if = "is_default")]
    pub kernel_tcp: MemoryUsage,
    /// The contents of memory.stat, unchanged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub raw: BTreeMap<String, u64>,
    /// Pressure stall information for memory; cgroup v2 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// The usage of one kind of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MemoryUsage {
    /// The limit. On cgroup v2, 2⁶⁴−1 means no limit.
    pub limit: u64,
    /// Current usage.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: u64,
    /// Peak usage.
    #[serde(skip_serializing_if = "is_default")]
    pub max: u64,
    /// The number of times that the limit was reached; cgroup v1 only.
    pub failcnt: u64,
}

/// The number of tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PidsStats {
    /// The current number of tasks.
    #[serde(skip_serializing_if = "is_default")]
    pub current: u64,
    /// The maximum number of tasks; 0 if there is no limit.
    #[serde(skip_serializing_if = "is_default")]
    pub limit: u64,
}

/// I/O statistics of block devices.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlkioStats {
    /// Bytes transferred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_service_bytes_recursive: Vec<BlkioEntry>,
    /// I/O operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_serviced_recursive: Vec<BlkioEntry>,
    /// I/O operations in the queue.
    #[serde(rename = "ioQueueRecursive", skip_serializing_if = "Vec::is_empty")]
    pub io_queued_recursive: Vec<BlkioEntry>,
    /// The time between the dispatch of operations to the device and their completion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_service_time_recursive: Vec<BlkioEntry>,
    /// The time that operations waited in the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_wait_time_recursive: Vec<BlkioEntry>,
    /// Merged I/O operations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_merged_recursive: Vec<BlkioEntry>,
    /// The time for which the device was allocated to the cgroup, in the unit of the kernel's file: milliseconds
    /// according to cgroup-v1/blkio-controller.rst.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub io_time_recursive: Vec<BlkioEntry>,
    /// Sectors transferred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sectors_recursive: Vec<BlkioEntry>,
    /// Pressure stall information for I/O; cgroup v2 only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psi: Option<Pressure>,
}

/// One counter of one block device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BlkioEntry {
    /// The device's major number.
    #[serde(skip_serializing_if = "is_default")]
    pub major: u64,
    /// The device's minor number.
    #[serde(skip_serializing_if = "is_default")]
    pub minor: u64,
    /// The operation: `Read`, `Write` and others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub op: String,
    /// The value of the counter.
    #[serde(skip_serializing_if = "is_default")]
    pub value: u64,
}

/// The usage of huge pages of one size, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HugetlbStats {
    /// Current usage.
    #[serde(skip_serializing_if = "is_default")]
    pub usage: u64,
    /// Peak usage; cgroup v1 only.
    #[serde(skip_serializing_if = "is_default")]
    pub max: u64,
    /// The number of times that the limit was reached.
    pub failcnt: u64,
}

/// Pressure stall information (Documentation/accounting/psi.rst).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Pressure {
    /// The values for the time in which at least one task was stalled.
    pub some: PressureData,
    /// The values for the time in which all non-idle tasks were stalled at once.
    pub full: PressureData,
}

/// The share of stalled time in percent, and the total stalled time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PressureData {
    /// The share of the last ten seconds, in percent.
    pub avg10: f64,
    /// The share of the last minute, in percent.
    pub avg60: f64,
    /// The share of the last five minutes, in percent.
    pub avg300: f64,
    /// The total stalled time, in microseconds.
    pub total: u64,
}

impl Cgroup {
    /// Reads the container's resource usage. Values of missing controllers are zero.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; failing system calls; see [`Error::is_gone`].
    pub fn stats(&self) -> Result<Stats, Error> {
        match (self.legacy.first(), &self.unified) {
            (None, Some(unified)) => unified::stats(&unified.directory),
            _ => legacy::stats(&self.legacy),
        }
    }

    /// Returns the limit of CPU time, in CPUs, if there is one.
    ///
    /// # Errors
    /// As [`Cgroup::stats`].
    pub fn cpus(&self) -> Result<Option<f64>, Error> {
        let text = self.bandwidth()?.unwrap_or_default();
        // Without a limit, the quota is "max" or -1.
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u32>);
        Ok(match (numbers.next(), numbers.next()) {
            (Some(Ok(quota)), Some(Ok(period))) => Some(f64::from(quota) / f64::from(period)),
            _ => None,
        })
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Converts the error of a missing file to `None`.
pub(crate) fn optional<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(Error::System(error)) if error.errno == sys::Errno::NOENT => Ok(None),
        result => result.map(Some),
    }
}

/// Returns the sizes of huge pages that this host supports, named as in cgroup files: `64KB`, `2MB`, `1GB`.
pub fn huge_page_sizes() -> Vec<String> {
    // A kernel without huge pages does not have this directory.
    let fd = open_dir(CWD, "/sys/kernel/mm/hugepages");
    let Ok(entries) = fd.and_then(Dir::new) else { return Vec::new() };
    let names = entries.filter_map(Result::ok);
    let mut sizes: Vec<String> =
        names.filter_map(|entry| huge_page_size(entry.file_name().to_str().ok()?)).collect();
    sizes.sort_unstable();
    sizes
}

/// Returns the page size from a directory name such as `hugepages-2048kB`.
fn huge_page_size(name: &str) -> Option<String> {
    let kilobytes: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(match kilobytes {
        0..0x400 => alloc::format!("{kilobytes}KB"),
        0x400..0x10_0000 => alloc::format!("{}MB", kilobytes >> 10),
        _ => alloc::format!("{}GB", kilobytes >> 20),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_named_as_in_cgroup_files() {
        let size = |name| huge_page_size(name);
        assert_eq!(size("hugepages-64kB").unwrap(), "64KB");
        assert_eq!(size("hugepages-2048kB").unwrap(), "2MB");
        assert_eq!(size("hugepages-1048576kB").unwrap(), "1GB");
        assert_eq!(size("hugepages-x"), None);
        assert_eq!(size("."), None);
    }
}
