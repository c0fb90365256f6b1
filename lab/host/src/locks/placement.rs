//! Placements of threads: on all CPUs, and on subsets that are closer together.

use crate::check::machine::one_per_core;
use topology::{List, Topology};

/// The names of all placements.
pub const PLACEMENTS: [&str; 5] =
    ["all CPUs", "one a core", "one node", "one a core of one node", "one level 3 cache"];

/// CPUs for threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The name, which describes what the CPUs have in common.
    pub name: &'static str,
    /// The CPUs.
    pub cpus: List,
}

/// Returns the placements that differ on this host, limited to the allowed CPUs. Also returns the other placements,
/// each with the name of the placement that it equals.
pub fn placements(
    topology: &Topology,
    allowed: &List,
) -> (Vec<Placement>, Vec<(&'static str, &'static str)>) {
    let largest = |lists: Vec<List>| {
        let lists = lists.into_iter().map(|list| list.intersection(allowed));
        // Of several lists with the largest size, the first one is used.
        lists.rev().max_by_key(List::len).unwrap_or_default()
    };
    let node = largest(topology.nodes.iter().map(|node| node.cpus.clone()).collect());
    let cache = largest(topology.ccxs().into_iter().map(|cache| cache.cpus).collect());
    let cpus = [
        allowed.clone(),
        one_per_core(topology, allowed),
        node.clone(),
        one_per_core(topology, &node),
        cache,
    ];
    let all = PLACEMENTS.into_iter().zip(cpus).map(|(name, cpus)| Placement { name, cpus });
    let (mut different, mut same): (Vec<Placement>, Vec<_>) = (Vec::new(), Vec::new());
    for placement in all.filter(|placement| !placement.cpus.is_empty()) {
        match different.iter().find(|other| other.cpus == placement.cpus) {
            Some(other) => same.push((placement.name, other.name)),
            None => different.push(placement),
        }
    }
    (different, same)
}
