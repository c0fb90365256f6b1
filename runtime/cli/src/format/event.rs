//! `events`: one JSON object per line.

use alloc::collections::BTreeMap;
use alloc::string::String;

use cgroup::resctrl;
use cgroup::stats::{
    BlkioStats, CpuStats, CpusetStats, HugetlbStats, MemoryStats, PidsStats, Stats,
};
use serde::Serialize;

use crate::failure::Failure;

/// An event of a container.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Event<'a, S> {
    /// The container's current statistics.
    Stats {
        /// The container.
        id: &'a str,
        /// The statistics.
        data: &'a S,
    },
    /// The kernel killed a process of the container because memory ran out.
    Oom {
        /// The container.
        id: &'a str,
    },
}

/// The statistics of a container, with the property names and their order as in runc 1.5 (`types.Stats`).
#[derive(Debug, Serialize)]
pub struct Figures<'a> {
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

impl<'a> Figures<'a> {
    /// Returns the statistics of a container's cgroup and resctrl group.
    pub fn new(stats: &'a Stats, rdt: &'a resctrl::Stats) -> Self {
        let Stats { cpu, cpuset, memory, pids, blkio, hugetlb } = stats;
        Self { cpu, cpuset, memory, pids, blkio, hugetlb, intel_rdt: rdt, network_interfaces: None }
    }
}

impl<S: Serialize> Event<'_, S> {
    /// Returns the event as one line of JSON.
    ///
    /// # Errors
    /// As [`super::json`].
    pub fn line(&self) -> Result<String, Failure> {
        let mut text = super::json(self)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let oom: Event<'_, Figures<'_>> = Event::Oom { id: "c1" };
        assert_eq!(oom.line().unwrap(), "{\"type\":\"oom\",\"id\":\"c1\"}\n");
        let (stats, rdt) = (Stats::default(), resctrl::Stats::default());
        let stats = Event::Stats { id: "c1", data: &Figures::new(&stats, &rdt) }.line().unwrap();
        assert!(
            stats.starts_with("{\"type\":\"stats\",\"id\":\"c1\",\"data\":{\"cpu\":{"),
            "{stats}"
        );
        assert!(stats.ends_with("}}\n"));
    }

    #[test]
    fn zeros_are_left_out_as_by_runc() {
        let (stats, rdt) = (Stats::default(), resctrl::Stats::default());
        let json = serde_json::to_string(&Figures::new(&stats, &rdt)).unwrap();
        let expected = concat!(
            r#"{"cpu":{},"cpuset":{"cpu_exclusive":0,"mem_hardwall":0,"mem_exclusive":0,"#,
            r#""memory_migrate":0,"memory_spread_page":0,"memory_spread_slab":0,"#,
            r#""memory_pressure":0,"sched_load_balance":0,"sched_relax_domain_level":0},"#,
            r#""memory":{},"pids":{},"blkio":{},"hugetlb":{},"intel_rdt":{},"#,
            r#""network_interfaces":null}"#,
        );
        assert_eq!(json, expected);
    }
}
