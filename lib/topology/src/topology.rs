//! The CPUs and memory of a host: which CPUs share a core, a cache, a socket or a memory node.
//!
//! It is plain data, read once from sysfs. CPUs that are offline are left out.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::List;

/// The CPUs and memory nodes of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs that are online, by number.
    pub cpus: Vec<Cpu>,
    /// The online memory nodes, by number; a single one on a kernel without NUMA.
    pub nodes: Vec<Node>,
    /// `/sys/devices/system/cpu/smt/control`: `on`, `off`, `forceoff`, `notsupported`, …; empty without such a file.
    pub smt_control: String,
}

/// A logical CPU: a hardware thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The CPUs of its core, including itself.
    pub siblings: List,
    /// The CPUs that share its level 3 cache, including itself; empty if it has none.
    pub l3: List,
    /// The size of that cache, in bytes.
    pub l3_bytes: u64,
    /// Its socket.
    pub package: u32,
    /// Its memory node.
    pub node: u32,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs; none on a memory-only node.
    pub cpus: List,
    /// Its memory in bytes, or 0 if it has none or the size is unknown.
    pub memory: u64,
    /// Its free memory in bytes.
    pub free: u64,
    /// Its distance to each node of [`Topology::nodes`], in that order; 10 is local (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// The CPUs under one level 3 cache: all of a socket, or one chiplet's part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ccx {
    /// Its CPUs.
    pub cpus: List,
    /// The size of the cache, in bytes.
    pub bytes: u64,
}

impl Topology {
    /// Returns all CPUs.
    pub fn online(&self) -> List {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Returns all nodes that have memory.
    pub fn memory_nodes(&self) -> List {
        let known = self.nodes.iter().any(|node| node.memory > 0);
        let has = |node: &&Node| node.memory > 0 || !known;
        self.nodes.iter().filter(has).map(|node| node.id).collect()
    }

    /// Returns the CPU with this number.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.id == id)
    }

    /// Returns the node with this number.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the CPUs of each core, ordered by the first one.
    pub fn cores(&self) -> Vec<List> {
        groups(self.cpus.iter().map(|cpu| cpu.siblings.clone()))
    }

    /// Returns the CPUs under each level 3 cache, ordered by the first one. A socket without a level 3 cache counts as
    /// having a single one.
    pub fn ccxs(&self) -> Vec<Ccx> {
        let mut sizes = BTreeMap::new();
        let mut without = BTreeMap::new();
        for cpu in &self.cpus {
            match cpu.l3.is_empty() {
                true => without.insert(cpu.package, cpu.l3_bytes),
                false => sizes.insert(cpu.l3.clone(), cpu.l3_bytes),
            };
        }
        let packages = self.by_package().into_iter();
        sizes.extend(packages.filter_map(|(id, cpus)| Some((cpus, *without.get(&id)?))));
        let mut all: Vec<Ccx> =
            sizes.into_iter().map(|(cpus, bytes)| Ccx { cpus, bytes }).collect();
        all.sort_by_key(|ccx| ccx.cpus.first());
        all
    }

    /// Returns the CPUs of each socket, ordered by the first one.
    pub fn packages(&self) -> Vec<List> {
        groups(self.by_package().into_values())
    }

    /// Returns whether any core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.siblings.len() > 1)
    }

    /// Returns the nodes with memory that are nearest to `cpus`: the CPUs' own nodes, or, if those have no memory, the
    /// next ones by distance.
    pub fn memory_of(&self, cpus: &List) -> List {
        let with_memory = self.memory_nodes();
        let own = self.nodes.iter().filter(|node| !node.cpus.intersection(cpus).is_empty());
        own.filter_map(|node| self.nearest(node, &with_memory)).collect()
    }

    fn nearest(&self, node: &Node, among: &List) -> Option<u32> {
        if among.contains(node.id) {
            return Some(node.id);
        }
        let others = self.nodes.iter().zip(&node.distances);
        let candidates = others.filter(|(other, _)| among.contains(other.id));
        candidates.min_by_key(|(_, distance)| **distance).map(|(other, _)| other.id)
    }

    /// Returns the CPUs of each socket, by its number.
    fn by_package(&self) -> BTreeMap<u32, List> {
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for cpu in &self.cpus {
            members.entry(cpu.package).or_default().push(cpu.id);
        }
        members.into_iter().map(|(id, cpus)| (id, cpus.into_iter().collect())).collect()
    }
}

/// Returns the distinct `lists`, ordered by their first members.
fn groups(lists: impl Iterator<Item = List>) -> Vec<List> {
    let mut all: Vec<List> = lists.collect();
    all.sort_by(|one, other| one.iter().cmp(other.iter()));
    all.dedup();
    all
}
