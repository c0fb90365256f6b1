//! `dayfly host topology`: CPUs, caches, sockets and memory nodes, first in the words of `numactl --hardware`.
//!
//! All of it comes from sysfs: nothing is tried out, so another host's files do as well. What firmware does not tell is
//! shown as not available; files that contradict each other are refused.

mod picture;
mod text;

use crate::facts::Facts;
use crate::options::{Format, Hardware as Options};
use crate::output;
use report::Error;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fs;
use topology::{Cpu, List, States, Topology};

/// Looks at the host and writes what there is.
///
/// # Errors
/// As [`Hardware::of`]; a file that can't be written.
pub fn command(options: &Options) -> Result<(), Error> {
    let hardware = Hardware::of(&Facts::of(options.sysroot.as_deref())?)?;
    if let Some(file) = &options.svg {
        let picture = picture::of(&hardware).svg();
        let picture = picture.map_err(|error| Error::refused(error.to_string()))?;
        fs::write(file, picture).map_err(Error::of("write", file))?;
    }
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
    /// Whether the kernel knows memory nodes. Without, all there is counts as node 0.
    pub numa: bool,
    /// Which CPUs run.
    pub cpus: Cpus,
    /// Hardware threads.
    pub smt: Smt,
    /// The memory nodes, by number.
    pub nodes: Vec<Node>,
    /// The sockets, by number, with their caches and cores.
    pub sockets: Vec<Socket>,
}

/// Which CPUs run, as lists such as `0-3,7`.
#[derive(Debug, Clone, Serialize)]
pub struct Cpus {
    /// Those that are plugged in.
    #[serde(serialize_with = "as_text")]
    pub present: List,
    /// Those that run.
    #[serde(serialize_with = "as_text")]
    pub online: List,
    /// Those that are plugged in and do not run; no node, socket or cache is known of them.
    #[serde(serialize_with = "as_text")]
    pub offline: List,
    /// Those that the scheduler places nothing on by itself.
    #[serde(serialize_with = "as_text")]
    pub isolated: List,
}

/// Hardware threads.
#[derive(Debug, Clone, Serialize)]
pub struct Smt {
    /// What `smt/control` says: `on`, `off`, `forceoff`, `notsupported`, …; nothing where there is no such file.
    pub control: Option<String>,
    /// Whether some core has more than one CPU online.
    pub active: bool,
}

/// A memory node.
#[derive(Debug, Clone, Serialize)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// Its CPUs that are online; empty for memory alone.
    #[serde(serialize_with = "as_text")]
    pub cpus: List,
    /// Its memory, in bytes; 0 for CPUs alone, nothing where the host does not tell.
    pub size_bytes: Option<u64>,
    /// How much of it is free, in bytes.
    pub free_bytes: Option<u64>,
    /// How far it is to each node, in their order; empty where the host does not tell.
    pub distances: Vec<u32>,
}

/// A socket.
#[derive(Debug, Clone, Serialize)]
pub struct Socket {
    /// Its number, `physical_package_id`; 0 where firmware does not tell.
    pub id: u32,
    /// Its CPUs that are online.
    #[serde(serialize_with = "as_text")]
    pub cpus: List,
    /// Its CPUs by the level 3 cache that they share.
    pub caches: Vec<Cache>,
}

/// CPUs under one level 3 cache.
#[derive(Debug, Clone, Serialize)]
pub struct Cache {
    /// Whether there is a cache; otherwise these are the socket's CPUs without one.
    pub is_known: bool,
    /// Its size, in bytes; nothing where the host does not tell.
    pub size_bytes: Option<u64>,
    /// Its CPUs that are online.
    #[serde(serialize_with = "as_text")]
    pub cpus: List,
    /// The memory nodes that these are on.
    #[serde(serialize_with = "as_text")]
    pub nodes: List,
    /// The CPUs of each core: SMT siblings together.
    #[serde(serialize_with = "as_texts")]
    pub cores: Vec<List>,
}

fn as_text<S: Serializer>(list: &List, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(list)
}

fn as_texts<S: Serializer>(lists: &[List], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(lists.iter().map(List::to_string))
}

impl Hardware {
    /// Reads it.
    ///
    /// # Errors
    /// A host without a list of its CPUs; lists and numbers that are none; distances that are not one for each node.
    pub fn of(facts: &Facts) -> Result<Self, Error> {
        let root = facts.root_text()?;
        let topology = Topology::read(root)?;
        let States { present, online, offline, isolated } = States::read(root)?;
        if online.is_empty() {
            let file = facts.path("/sys/devices/system/cpu/online");
            return Err(Error::refused(format!("{}: no CPU is online", file.display())));
        }
        let numa = facts.has("/sys/devices/system/node/online");
        let nodes = match numa {
            true => topology.nodes.iter().map(|node| Node::of(facts, node, &topology)).collect(),
            false => Node::without_numa(facts, &online).map(|node| vec![node]),
        };
        let control = Some(topology.smt_control.clone()).filter(|control| !control.is_empty());
        Ok(Self {
            release: facts.release.clone(),
            numa,
            cpus: Cpus { present, online, offline, isolated },
            smt: Smt { control, active: topology.has_smt() },
            nodes: nodes?,
            sockets: sockets(&topology),
        })
    }

    /// Every cache, with its socket.
    pub fn caches(&self) -> impl Iterator<Item = (&Socket, &Cache)> {
        self.sockets.iter().flat_map(|socket| socket.caches.iter().map(move |it| (socket, it)))
    }
}

impl Node {
    fn of(facts: &Facts, node: &topology::Node, topology: &Topology) -> Result<Self, Error> {
        let directory = format!("/sys/devices/system/node/node{}", node.id);
        let (size_bytes, free_bytes) = memory(facts, &format!("{directory}/meminfo"))?;
        let file = format!("{directory}/distance");
        let words = facts.text(&file).unwrap_or_default();
        let words: Vec<&str> = words.split_whitespace().collect();
        let distances: Option<Vec<u32>> = words.iter().map(|word| word.parse().ok()).collect();
        let fits = |distances: &Vec<u32>| [0, topology.nodes.len()].contains(&distances.len());
        let Some(distances) = distances.filter(fits) else {
            return Err(Error::refused(format!(
                "{}: not a distance for each of {} nodes: {:.60}",
                facts.path(&file).display(),
                topology.nodes.len(),
                words.join(" "),
            )));
        };
        let cpus = node.cpus.clone();
        Ok(Self { id: node.id, cpus, size_bytes, free_bytes, distances })
    }

    /// The whole host as one node.
    fn without_numa(facts: &Facts, online: &List) -> Result<Self, Error> {
        let (size_bytes, free_bytes) = memory(facts, "/proc/meminfo")?;
        Ok(Self { id: 0, cpus: online.clone(), size_bytes, free_bytes, distances: Vec::new() })
    }
}

/// All memory and what is free of it, in bytes, by a file such as /proc/meminfo; nothing where there is none.
fn memory(facts: &Facts, file: &str) -> Result<(Option<u64>, Option<u64>), Error> {
    let Some(text) = facts.text(file) else { return Ok((None, None)) };
    let bytes = |key: &str| {
        // `Node 0 MemTotal:       12282068 kB`, or without the node.
        let Some((_, rest)) = text.lines().find_map(|line| line.split_once(key)) else {
            return Ok(None);
        };
        let number = rest.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
        let bytes = number.and_then(|kib| kib.checked_mul(1024));
        bytes.map(Some).ok_or_else(|| {
            let file = facts.path(file);
            Error::refused(format!("{}: {key} is no size: {:.60}", file.display(), rest.trim()))
        })
    };
    Ok((bytes("MemTotal:")?, bytes("MemFree:")?))
}

fn sockets(topology: &Topology) -> Vec<Socket> {
    let mut members: BTreeMap<u32, Vec<&Cpu>> = BTreeMap::new();
    for cpu in &topology.cpus {
        members.entry(cpu.package).or_default().push(cpu);
    }
    let socket = |(id, cpus): (u32, Vec<&Cpu>)| Socket {
        id,
        cpus: cpus.iter().map(|cpu| cpu.id).collect(),
        caches: caches(&cpus, topology),
    };
    members.into_iter().map(socket).collect()
}

/// The CPUs of a socket by cache, in the order of their first.
fn caches(cpus: &[&Cpu], topology: &Topology) -> Vec<Cache> {
    let mut members: BTreeMap<&List, Vec<&Cpu>> = BTreeMap::new();
    for cpu in cpus {
        members.entry(&cpu.l3).or_default().push(cpu);
    }
    let cache = |(l3, cpus): (&List, Vec<&Cpu>)| {
        let mut cores: BTreeMap<&List, Vec<u32>> = BTreeMap::new();
        for cpu in &cpus {
            cores.entry(&cpu.siblings).or_default().push(cpu.id);
        }
        let mut cores: Vec<List> =
            cores.into_values().map(|core| core.into_iter().collect()).collect();
        cores.sort_by_key(List::first);
        let own: List = cpus.iter().map(|cpu| cpu.id).collect();
        let nodes = topology.nodes.iter().filter(|node| !node.cpus.intersection(&own).is_empty());
        Cache {
            is_known: !l3.is_empty(),
            size_bytes: cpus.first().map(|cpu| cpu.l3_bytes).filter(|bytes| *bytes > 0),
            nodes: nodes.map(|node| node.id).collect(),
            cpus: own,
            cores,
        }
    };
    let mut caches: Vec<Cache> = members.into_iter().map(cache).collect();
    caches.sort_by_key(|cache| cache.cpus.first());
    caches
}
