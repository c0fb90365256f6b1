//! The CPUs and memory of a host: the CPUs that share a core, a cache, a socket or a memory node.
//!
//! The topology is plain data, read once from sysfs. Offline CPUs are left out.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::List;

/// The CPUs and memory nodes of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The CPUs that are online, by number.
    pub cpus: Vec<Cpu>,
    /// The online memory nodes, by number. A kernel without NUMA has a single node.
    pub nodes: Vec<Node>,
    /// The content of `/sys/devices/system/cpu/smt/control`: `on`, `off`, `forceoff`, `notsupported`, …; empty if the
    /// file does not exist.
    pub smt_control: String,
}

/// A logical CPU: a hardware thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// The number of the CPU.
    pub id: u32,
    /// The CPUs of the same core, including this one.
    pub siblings: List,
    /// The CPUs that share the level 3 cache of this CPU, including this one; empty if there is no such cache.
    pub l3: List,
    /// The size of the level 3 cache, in bytes.
    pub l3_bytes: u64,
    /// The number of the CPU's socket.
    pub package: u32,
    /// The number of the CPU's memory node.
    pub node: u32,
}

/// A memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The number of the node.
    pub id: u32,
    /// The CPUs of the node; empty for a node with memory only.
    pub cpus: List,
    /// The size of the node's memory in bytes; 0 if the node has no memory, or if the size is unknown.
    pub memory: u64,
    /// The node's free memory in bytes.
    pub free: u64,
    /// The distances to the nodes of [`Topology::nodes`], in the same order; 10 is the distance of a node to itself
    /// (ACPI SLIT).
    pub distances: Vec<u32>,
}

/// The CPUs that share a level 3 cache: all CPUs of a socket, or the part of them that is on one chiplet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ccx {
    /// The CPUs that share the cache.
    pub cpus: List,
    /// The size of the cache, in bytes.
    pub bytes: u64,
}

impl Topology {
    /// Returns all CPUs.
    pub fn online(&self) -> List {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// Returns all nodes that have memory; if no size is known, returns all nodes.
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

    /// Returns the CPUs of each core, with the cores ordered by their first CPU.
    pub fn cores(&self) -> Vec<List> {
        groups(self.cpus.iter().map(|cpu| cpu.siblings.clone()))
    }

    /// Returns the CPUs under each level 3 cache, with the caches ordered by their first CPU. A socket without level 3
    /// caches counts as having one that all its CPUs share.
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

    /// Returns the CPUs of each socket, with the sockets ordered by their first CPU.
    pub fn packages(&self) -> Vec<List> {
        groups(self.by_package().into_values())
    }

    /// Returns whether any core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.siblings.len() > 1)
    }

    /// Returns the memory nodes nearest to `cpus`: the nodes that contain these CPUs. A node without memory is replaced
    /// by the nearest node that has memory.
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

    /// Returns the CPUs of each socket, by the socket's number.
    fn by_package(&self) -> BTreeMap<u32, List> {
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for cpu in &self.cpus {
            members.entry(cpu.package).or_default().push(cpu.id);
        }
        members.into_iter().map(|(id, cpus)| (id, cpus.into_iter().collect())).collect()
    }
}

/// Returns the distinct lists of `lists`, ordered by the first CPU of each.
fn groups(lists: impl Iterator<Item = List>) -> Vec<List> {
    let mut all: Vec<List> = lists.collect();
    all.sort_by(|one, other| one.iter().cmp(other.iter()));
    all.dedup();
    all
}
