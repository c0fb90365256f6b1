//! `dayfly host topology`: CPUs, caches, sockets and memory nodes. The output begins in the format of `numactl
//! --hardware`.
//!
//! All values are read from sysfs and nothing is probed, so the files of another host can be used, too. Values that
//! firmware does not report are shown as not available; contradictory files are rejected.

mod text;

use crate::facts::Facts;
use crate::options::Hardware as Options;
use crate::output;
use report::{Error, Format};
use serde::Serialize;
use std::collections::BTreeMap;
use topology::{Cpu, List, States, Topology};

/// Reads the host's hardware and prints it.
///
/// # Errors
/// As [`Hardware::of`]; a file that cannot be written.
pub fn command(options: &Options) -> Result<(), Error> {
    let hardware = Hardware::of(&Facts::of(options.sysroot.as_deref())?)?;
    let text = match options.format {
        Format::Table => hardware.to_string(),
        Format::Json => {
            let json = serde_json::to_string_pretty(&hardware);
            json.map_err(|error| Error::refused(error.to_string()))? + "\n"
        }
    };
    output::write(options.output.as_deref(), &text)
}

/// The hardware of a host.
#[derive(Debug, Clone, Serialize)]
pub struct Hardware {
    /// The kernel's release.
    pub release: String,
    /// The memory of the host by /proc/meminfo. The nodes' files may have less, if memory came after boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether the kernel supports NUMA. If not, everything counts as node 0.
    pub numa: bool,
    /// The states of the CPUs.
    pub cpus: States,
    /// The state of simultaneous multithreading (SMT).
    pub smt: Smt,
    /// The memory nodes, by number.
    pub nodes: Vec<Node>,
    /// The sockets, by number, with their caches and cores.
    pub sockets: Vec<Socket>,
}

/// The state of simultaneous multithreading (SMT).
#[derive(Debug, Clone, Serialize)]
pub struct Smt {
    /// The content of `smt/control`: `on`, `off`, `forceoff`, `notsupported`, …; `None` without such a file.
    pub control: Option<String>,
    /// Whether any core has more than one online CPU.
    pub active: bool,
}

/// A memory node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// The number of the node.
    pub id: u32,
    /// The node's online CPUs; empty for a memory-only node.
    pub cpus: List,
    /// The node's memory in bytes; 0 for a node without memory, `None` if the host does not report it.
    pub size_bytes: Option<u64>,
    /// The node's free memory in bytes.
    pub free_bytes: Option<u64>,
    /// The distance from this node to each node, in order; empty if the host does not report distances.
    pub distances: Vec<u32>,
}

/// A socket.
#[derive(Debug, Clone, Serialize)]
pub struct Socket {
    /// The number of the socket, `physical_package_id`; 0 if firmware does not report it.
    pub id: u32,
    /// The socket's online CPUs.
    pub cpus: List,
    /// The socket's CPUs, grouped by level 3 cache.
    pub caches: Vec<Cache>,
}

/// The CPUs of a socket that share a level 3 cache.
#[derive(Debug, Clone, Serialize)]
pub struct Cache {
    /// Whether the CPUs share a known level 3 cache; if not, these are the socket's CPUs without a known level 3 cache.
    pub is_known: bool,
    /// The size of the cache in bytes; `None` if the host does not report it.
    pub size_bytes: Option<u64>,
    /// The online CPUs that share the cache.
    pub cpus: List,
    /// The memory nodes that these CPUs belong to.
    pub nodes: List,
    /// The CPUs of each core; more than one with SMT.
    pub cores: Vec<List>,
}

impl Hardware {
    /// Reads the hardware of a host.
    ///
    /// # Errors
    /// The host has no list of its CPUs; a list or number is malformed; the number of distances differs from the number
    /// of nodes.
    pub fn of(facts: &Facts) -> Result<Self, Error> {
        let root = facts.root_text()?;
        let topology = Topology::read(root)?;
        let cpus = States::read(root)?;
        if cpus.online.is_empty() {
            let file = facts.path("/sys/devices/system/cpu/online");
            bail!("{}: no CPU is online", file.display());
        }
        let numa = facts.has("/sys/devices/system/node/online");
        let nodes = topology.nodes.iter().map(|node| Node::of(facts, node, &topology, numa));
        let control = Some(topology.smt_control.clone()).filter(|control| !control.is_empty());
        Ok(Self {
            release: facts.release.clone(),
            memory_bytes: memory(facts, "/proc/meminfo")?.0,
            numa,
            cpus,
            smt: Smt { control, active: topology.has_smt() },
            nodes: nodes.collect::<Result<_, _>>()?,
            sockets: sockets(&topology),
        })
    }

    /// Iterates over all caches with their sockets.
    pub fn caches(&self) -> impl Iterator<Item = (&Socket, &Cache)> {
        self.sockets.iter().flat_map(|socket| socket.caches.iter().map(move |it| (socket, it)))
    }
}

impl Node {
    /// Reads a node. On a kernel without NUMA, the whole host is one node.
    fn of(
        facts: &Facts,
        node: &topology::Node,
        topology: &Topology,
        numa: bool,
    ) -> Result<Self, Error> {
        let directory = format!("/sys/devices/system/node/node{}", node.id);
        let meminfo = format!("{}/meminfo", if numa { &directory } else { "/proc" });
        let (size_bytes, free_bytes) = memory(facts, &meminfo)?;
        let file = format!("{directory}/distance");
        let words = facts.text(&file).unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        let distances: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        let fits = |distances: &Vec<u32>| [0, topology.nodes.len()].contains(&distances.len());
        let Some(distances) = distances.filter(fits) else {
            bail!(
                "{}: not a distance for each of {} nodes: {:.60}",
                facts.path(&file).display(),
                topology.nodes.len(),
                words.join(" ")
            );
        };
        let cpus = node.cpus.clone();
        Ok(Self { id: node.id, cpus, size_bytes, free_bytes, distances })
    }
}

/// Returns the total and the free memory in bytes, from a file such as /proc/meminfo; `None` if there is no such file.
fn memory(facts: &Facts, file: &str) -> Result<(Option<u64>, Option<u64>), Error> {
    let Some(text) = facts.text(file) else { return Ok((None, None)) };
    let bytes = |key: &str| {
        // The line is `Node 0 MemTotal:       12282068 kB` for a node, and begins with `MemTotal:` for the whole host.
        let Some((_, rest)) = text.lines().find_map(|line| line.split_once(key)) else {
            return Ok(None);
        };
        let number = rest.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let bytes = number.and_then(|kib| kib.checked_mul(1024));
        bytes.map(Some).ok_or_else(|| {
            let file = facts.path(file);
            refused!("{}: {key} is not a size: {:.60}", file.display(), rest.trim())
        })
    };
    Ok((bytes("MemTotal:")?, bytes("MemFree:")?))
}

/// Groups CPUs by a property.
fn grouped<'c, K: Ord>(
    cpus: &[&'c Cpu],
    of: impl Fn(&'c Cpu) -> K,
) -> impl Iterator<Item = (K, Vec<&'c Cpu>)> {
    let mut groups: BTreeMap<K, Vec<&Cpu>> = BTreeMap::new();
    for cpu in cpus {
        groups.entry(of(cpu)).or_default().push(cpu);
    }
    groups.into_iter()
}

fn list(cpus: &[&Cpu]) -> List {
    cpus.iter().map(|cpu| cpu.id).collect()
}

fn sockets(topology: &Topology) -> Vec<Socket> {
    let all: Vec<&Cpu> = topology.cpus.iter().collect();
    let sockets = grouped(&all, |cpu| cpu.package);
    sockets
        .map(|(id, cpus)| Socket { id, cpus: list(&cpus), caches: caches(&cpus, topology) })
        .collect()
}

/// Groups the CPUs of a socket by level 3 cache, in the order of each cache's first CPU.
fn caches(cpus: &[&Cpu], topology: &Topology) -> Vec<Cache> {
    let cache = |(l3, cpus): (&List, Vec<&Cpu>)| {
        let mut cores: Vec<List> =
            grouped(&cpus, |cpu| &cpu.siblings).map(|(_, core)| list(&core)).collect();
        cores.sort_by_key(List::first);
        let own = list(&cpus);
        let nodes = topology.nodes.iter().filter(|node| !node.cpus.intersection(&own).is_empty());
        Cache {
            is_known: !l3.is_empty(),
            size_bytes: cpus.first().map(|cpu| cpu.l3_bytes).filter(|bytes| *bytes > 0),
            nodes: nodes.map(|node| node.id).collect(),
            cpus: own,
            cores,
        }
    };
    let mut caches: Vec<Cache> = grouped(cpus, |cpu| &cpu.l3).map(cache).collect();
    caches.sort_by_key(|cache| cache.cpus.first());
    caches
}
