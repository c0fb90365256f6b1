//! Where threads are put: on all CPUs, and on those that have less between them.

use crate::check::machine::one_per_core;
use topology::{List, Topology};

/// CPUs for threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// What they have in common.
    pub name: &'static str,
    /// Which they are.
    pub cpus: List,
}

/// The placements that differ on this host, within the CPUs that are allowed; and those that don't, each
/// with the one it is the same as.
#[must_use]
pub fn placements(
    topology: &Topology,
    allowed: &List,
) -> (Vec<Placement>, Vec<(&'static str, &'static str)>) {
    let largest = |lists: Vec<List>| {
        let lists = lists.into_iter().map(|list| list.intersection(allowed));
        // The first of the largest ones.
        lists.rev().max_by_key(List::len).unwrap_or_default()
    };
    let node = largest(topology.nodes.iter().map(|node| node.cpus.clone()).collect());
    let cache = largest(topology.ccxs().into_iter().map(|cache| cache.cpus).collect());
    let all = [
        Placement { name: "all CPUs", cpus: allowed.clone() },
        Placement { name: "one a core", cpus: one_per_core(topology, allowed) },
        Placement { name: "one node", cpus: node.clone() },
        Placement { name: "one a core of one node", cpus: one_per_core(topology, &node) },
        Placement { name: "one level 3 cache", cpus: cache },
    ];
    let (mut different, mut same): (Vec<Placement>, Vec<_>) = (Vec::new(), Vec::new());
    for placement in all.into_iter().filter(|placement| !placement.cpus.is_empty()) {
        match different.iter().find(|other| other.cpus == placement.cpus) {
            Some(other) => same.push((placement.name, other.name)),
            None => different.push(placement),
        }
    }
    (different, same)
}
