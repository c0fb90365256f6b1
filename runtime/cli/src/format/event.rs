//! `events`: one JSON object per line.

use alloc::collections::BTreeMap;
use alloc::string::String;

use cgroup::resctrl;
use cgroup::stats::{
    BlkioStats, CpuStats, CpusetStats, HugetlbStats, MemoryStats, PidsStats, Stats,
};
use serde::Serialize;

use crate::failure::Failure;

/// The resource usage of a container.
pub struct Usage {
    /// The container's id.
    pub id: String,
    /// The statistics of its cgroup.
    pub stats: Stats,
    /// The statistics of its resctrl group.
    pub rdt: resctrl::Stats,
}

/// An event of a container.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Event<'a> {
    /// The container's current statistics.
    Stats { id: &'a str, data: Figures<'a> },
    /// The kernel killed a process of the container because memory ran out.
    Oom { id: &'a str },
}

/// The statistics of a container, with the property names and their order as in runc 1.5 (`types.Stats`).
#[derive(Serialize)]
struct Figures<'a> {
    cpu: &'a CpuStats,
    cpuset: &'a CpusetStats,
    memory: &'a MemoryStats,
    pids: &'a PidsStats,
    blkio: &'a BlkioStats,
    hugetlb: &'a BTreeMap<String, HugetlbStats>,
    intel_rdt: &'a resctrl::Stats,
    /// Always null, as in runc for containers whose network was created by an engine.
    network_interfaces: Option<()>,
}

impl Usage {
    /// Returns the event with these statistics as one line of JSON.
    ///
    /// # Errors
    /// As [`super::json`].
    pub fn line(&self) -> Result<String, Failure> {
        let Self { id, stats, rdt: intel_rdt } = self;
        let Stats { cpu, cpuset, memory, pids, blkio, hugetlb } = stats;
        let network_interfaces = None;
        let data =
            Figures { cpu, cpuset, memory, pids, blkio, hugetlb, intel_rdt, network_interfaces };
        super::json(&Event::Stats { id, data })
    }
}

/// Returns the event that the kernel killed a process, as one line of JSON.
///
/// # Errors
/// As [`super::json`].
pub fn oom(id: &str) -> Result<String, Failure> {
    super::json(&Event::Oom { id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_zeros_as_by_runc() {
        assert_eq!(oom("c1").unwrap(), "{\"type\":\"oom\",\"id\":\"c1\"}\n");
        let (stats, rdt) = (Stats::default(), resctrl::Stats::default());
        let expected = concat!(
            r#"{"type":"stats","id":"c1","data":{"cpu":{},"cpuset":{"cpu_exclusive":0,"#,
            r#""mem_hardwall":0,"mem_exclusive":0,"memory_migrate":0,"memory_spread_page":0,"#,
            r#""memory_spread_slab":0,"memory_pressure":0,"sched_load_balance":0,"#,
            r#""sched_relax_domain_level":0},"memory":{},"pids":{},"blkio":{},"hugetlb":{},"#,
            r#""intel_rdt":{},"network_interfaces":null}}"#,
            "\n"
        );
        assert_eq!(Usage { id: "c1".into(), stats, rdt }.line().unwrap(), expected);
    }
}
