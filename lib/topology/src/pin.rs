//! Selection of CPUs by their position in the topology: `node:0`, `ccx:1`, `cores:4,no-smt`.
//!
//! | word | CPUs |
//! |---|---|
//! | `node:0`, `nodes:0-1` | the CPUs of memory nodes |
//! | `package:0` | the CPUs of sockets, which are numbered in the order of their first CPUs; `socket` is the same |
//! | `ccx:1` | the CPUs under level 3 caches, which are numbered in the order of their first CPUs |
//! | `cpus:0-3` | these CPUs |
//! | `cores:4` | the CPUs of 4 cores, as near to each other as possible |
//! | `spread:4` | the CPUs of 4 cores, as far from each other as possible, from each node and each cache in turn |
//! | `no-smt` | one CPU of each core |
//!
//! Words are separated by commas. Each word narrows the selection further. The order of the words does not matter:
//! `cores`, `spread` and `no-smt` are applied last. The selected memory nodes are those nearest to the selected CPUs.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::{List, Topology};

/// A parsed selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pin {
    within: Vec<Within>,
    count: Option<Count>,
    no_smt: bool,
}

/// CPUs and memory nodes, in the format of cpuset.cpus and cpuset.mems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs.
    pub cpus: List,
    /// The memory nodes nearest to the CPUs in `cpus`.
    pub mems: List,
}

/// The error of a selection that is invalid or cannot be satisfied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinError {
    /// The given selection.
    words: String,
    /// The reason for the error.
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Within {
    Nodes(List),
    Packages(List),
    Ccxs(List),
    Cpus(List),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Near(u32),
    Spread(u32),
}

impl Pin {
    /// Parses a selection such as `node:0,cores:4,no-smt`.
    ///
    /// # Errors
    /// If the selection contains an unknown word.
    pub fn parse(words: &str) -> Result<Self, PinError> {
        let wrong = |reason: String| PinError { words: words.to_string(), reason };
        let mut pin = Self::default();
        for word in split(words) {
            if word == "no-smt" {
                pin.no_smt = true;
                continue;
            }
            let Some((kind, text)) = word.split_once(':') else {
                return Err(wrong(format!("unknown word {word:?}: {KNOWN}")));
            };
            let list = || match List::parse(text) {
                Some(list) if !list.is_empty() => Ok(list),
                _ => Err(wrong(format!("{text:?} is not a list such as 0-3,7"))),
            };
            let count = || match text.parse::<u32>() {
                Ok(count) if count > 0 => Ok(count),
                _ => Err(wrong(format!("{text:?} is not a number of cores"))),
            };
            let count = match kind {
                "node" | "nodes" => pin.also(Within::Nodes(list()?)),
                "package" | "packages" | "socket" | "sockets" => {
                    pin.also(Within::Packages(list()?))
                }
                "ccx" | "ccxs" => pin.also(Within::Ccxs(list()?)),
                "cpu" | "cpus" => pin.also(Within::Cpus(list()?)),
                "core" | "cores" => Some(Count::Near(count()?)),
                "spread" => Some(Count::Spread(count()?)),
                _ => return Err(wrong(format!("unknown word {kind:?}: {KNOWN}"))),
            };
            if count.is_some() && pin.count.is_some() {
                return Err(wrong("cores are counted twice".to_string()));
            }
            pin.count = pin.count.or(count);
        }
        if pin == Self::default() {
            return Err(wrong(format!("there is no word: {KNOWN}")));
        }
        Ok(pin)
    }

    fn also(&mut self, within: Within) -> Option<Count> {
        self.within.push(within);
        None
    }

    /// Returns the CPUs and memory nodes that the selection matches on `topology`, limited to the CPUs in `allowed`.
    ///
    /// # Errors
    /// If a selected part of the topology does not exist, or too few CPUs match.
    pub fn resolve(&self, topology: &Topology, allowed: &List) -> Result<Placement, PinError> {
        let wrong = |reason: String| PinError { words: self.to_string(), reason };
        let mut cpus = topology.online().intersection(allowed);
        for within in &self.within {
            cpus = cpus.intersection(&within.cpus(topology).map_err(wrong)?);
        }
        if cpus.is_empty() {
            return Err(wrong(format!("no CPU of {allowed} is meant by that")));
        }
        let mut cores = cores(topology, &cpus);
        if let Some(count) = self.count {
            let (Count::Near(number) | Count::Spread(number)) = count;
            let there = cores.len();
            if there < number as usize {
                return Err(wrong(format!(
                    "there are {there} cores in {cpus}, fewer than {number}"
                )));
            }
            cores = match count {
                Count::Near(number) => near(topology, &cores, number as usize),
                Count::Spread(number) => spread(topology, &cores, number as usize),
            };
        }
        let take =
            |core: &List| core.iter().take(if self.no_smt { 1 } else { usize::MAX }).collect();
        let cpus: List = cores.iter().flat_map(|core| -> Vec<u32> { take(core) }).collect();
        let mems = topology.memory_of(&cpus);
        Ok(Placement { cpus, mems })
    }
}

impl Within {
    fn cpus(&self, topology: &Topology) -> Result<List, String> {
        let pick = |what: &str, wanted: &List, all: Vec<(u32, List)>| {
            let there: List = all.iter().map(|(id, _)| *id).collect();
            let absent = wanted.without(&there);
            if !absent.is_empty() {
                return Err(format!("there is no {what} {absent}: this host has {there}"));
            }
            let wanted = all.into_iter().filter(|(id, _)| wanted.contains(*id));
            Ok(wanted.fold(List::default(), |sum, (_, cpus)| sum.union(&cpus)))
        };
        match self {
            Self::Nodes(wanted) => {
                let nodes = topology.nodes.iter().map(|node| (node.id, node.cpus.clone()));
                let cpus = pick("memory node", wanted, nodes.collect())?;
                if cpus.is_empty() {
                    Err("that is memory without CPUs".to_string())
                } else {
                    Ok(cpus)
                }
            }
            Self::Packages(wanted) => {
                pick("package", wanted, (0..).zip(topology.packages()).collect())
            }
            Self::Ccxs(wanted) => {
                let ccxs = topology.ccxs().into_iter().map(|ccx| ccx.cpus);
                pick("ccx", wanted, (0..).zip(ccxs).collect())
            }
            Self::Cpus(wanted) => {
                let online = topology.online();
                let all = online.iter().map(|id| (id, List::from_iter([id]))).collect();
                pick("CPU", wanted, all)
            }
        }
    }
}

const KNOWN: &str =
    "there are node:, package:, ccx:, cpus: with a list, cores:, spread: with a number, and no-smt";

/// Splits a text at commas, except at commas within lists: `nodes:0,2,no-smt` is two words.
fn split(words: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in words.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match all.last_mut() {
            Some(last) if part.starts_with(|c: char| c.is_ascii_digit()) => {
                last.push(',');
                last.push_str(part);
            }
            _ => all.push(part.to_string()),
        }
    }
    all
}

/// Returns, for each core, those of its CPUs that are selected.
fn cores(topology: &Topology, cpus: &List) -> Vec<List> {
    let cores = topology.cores().into_iter().map(|core| core.intersection(cpus));
    cores.filter(|core| !core.is_empty()).collect()
}

/// Groups `cores` by cache, with the caches grouped by node.
fn by_cache(topology: &Topology, cores: &[List]) -> Vec<(u32, Vec<List>)> {
    let mut all: Vec<(u32, Vec<List>)> = Vec::new();
    for ccx in topology.ccxs() {
        let inside =
            cores.iter().filter(|core| core.is_within(&ccx.cpus)).cloned().collect::<Vec<_>>();
        let first = inside.first().and_then(List::first);
        let node = first.and_then(|cpu| topology.cpu(cpu)).map(|cpu| cpu.node);
        if let Some(node) = node {
            all.push((node, inside));
        }
    }
    all.sort_by_key(|(node, _)| *node);
    all
}

/// Picks cores that share a cache, namely the smallest cache with enough cores. If no cache has enough cores, picks
/// cores of the smallest node with enough cores; if no node has enough cores, picks the first cores.
fn near(topology: &Topology, cores: &[List], count: usize) -> Vec<List> {
    let caches = by_cache(topology, cores);
    let fitting = caches.iter().map(|(_, cores)| cores).filter(|cores| cores.len() >= count);
    if let Some(cores) = fitting.min_by_key(|cores| cores.len()) {
        return cores.iter().take(count).cloned().collect();
    }
    let mut nodes: Vec<(u32, Vec<List>)> = Vec::new();
    for (node, cores) in &caches {
        match nodes.last_mut() {
            Some((last, all)) if last == node => all.extend(cores.iter().cloned()),
            _ => nodes.push((*node, cores.clone())),
        }
    }
    let fitting = nodes.iter().map(|(_, cores)| cores).filter(|cores| cores.len() >= count);
    if let Some(cores) = fitting.min_by_key(|cores| cores.len()) {
        return cores.iter().take(count).cloned().collect();
    }
    nodes.into_iter().flat_map(|(_, cores)| cores).take(count).collect()
}

/// Picks one core from each cache in turn, alternating between nodes.
fn spread(topology: &Topology, cores: &[List], count: usize) -> Vec<List> {
    let mut queues: Vec<Vec<Vec<List>>> = Vec::new();
    let mut node_of_last = None;
    for (node, cores) in by_cache(topology, cores) {
        let reversed = cores.into_iter().rev().collect();
        match queues.last_mut() {
            Some(caches) if node_of_last == Some(node) => caches.push(reversed),
            _ => queues.push([reversed].into()),
        }
        node_of_last = Some(node);
    }
    let mut chosen = Vec::new();
    for round in 0.. {
        let before = chosen.len();
        let mut left = false;
        for caches in &mut queues {
            let caches_there = caches.len();
            let Some(at) = round_robin(round, caches_there) else { continue };
            // Take a core from each cache of the node in turn, skipping caches without cores.
            for step in 0..caches_there {
                let cache = caches.get_mut((at + step) % caches_there);
                if let Some(core) = cache.and_then(Vec::pop) {
                    chosen.push(core);
                    break;
                }
            }
            left |= caches.iter().any(|cache| !cache.is_empty());
            if chosen.len() == count {
                return chosen;
            }
        }
        if chosen.len() == before && !left {
            break;
        }
    }
    chosen
}

fn round_robin(round: usize, among: usize) -> Option<usize> {
    round.checked_rem(among)
}

/// A group of CPUs with its placement on memory nodes; see [`place`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The group's name.
    pub name: String,
    /// The group's CPUs and memory nodes.
    pub placement: Placement,
}

/// Places groups of the given CPU counts on memory nodes. The largest group comes first; each group is placed on the
/// node on which it leaves the fewest CPUs free. A group that fits on no single node gets the free CPUs of the node
/// with the most free CPUs, and then those of the nodes nearest to that node. No CPU is assigned twice.
///
/// # Errors
/// If the groups together need more CPUs than exist.
pub fn place(
    groups: &[(String, u32)],
    topology: &Topology,
    allowed: &List,
) -> Result<Vec<Placed>, PinError> {
    let wanted: u64 = groups.iter().map(|(_, size)| u64::from(*size)).sum();
    let cpus = topology.online().intersection(allowed);
    if wanted > cpus.len() as u64 {
        let reason = format!("{wanted} CPUs are wanted, and there are {}: {cpus}", cpus.len());
        return Err(PinError { words: "auto".to_string(), reason });
    }
    // CPUs of the same core are adjacent in this list.
    let mut free: Vec<Vec<u32>> = topology
        .nodes
        .iter()
        .map(|node| {
            let cores = cores(topology, &node.cpus.intersection(&cpus));
            cores.iter().flat_map(List::iter).collect()
        })
        .collect();
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|at| core::cmp::Reverse(groups.get(*at).map_or(0, |(_, size)| *size)));
    let mut placed: Vec<(usize, Placed)> = Vec::new();
    for at in order {
        let Some((name, size)) = groups.get(at) else { continue };
        let size = *size as usize;
        let fitting = free.iter().enumerate().filter(|(_, cpus)| cpus.len() >= size);
        let home = fitting.min_by_key(|(_, cpus)| cpus.len()).map(|(node, _)| node);
        let home = home.or_else(|| {
            let fullest = free.iter().enumerate().rev().max_by_key(|(_, cpus)| cpus.len());
            fullest.map(|(node, _)| node)
        });
        let mut chosen = Vec::new();
        for node in from_nearest(topology, home.unwrap_or(0)) {
            let Some(cpus) = free.get_mut(node) else { continue };
            let take = cpus.len().min(size - chosen.len());
            chosen.extend(cpus.drain(..take));
        }
        let cpus: List = chosen.into_iter().collect();
        let mems = topology.memory_of(&cpus);
        let placement = Placement { cpus, mems };
        placed.push((at, Placed { name: name.clone(), placement }));
    }
    placed.sort_by_key(|(at, _)| *at);
    Ok(placed.into_iter().map(|(_, placed)| placed).collect())
}

/// Returns the indices in [`Topology::nodes`], ordered by their distance from the node with the index `home`.
fn from_nearest(topology: &Topology, home: usize) -> Vec<usize> {
    let distances =
        topology.nodes.get(home).map(|node| node.distances.as_slice()).unwrap_or_default();
    let mut all: Vec<usize> = (0..topology.nodes.len()).collect();
    all.sort_by_key(|at| (*at != home, distances.get(*at).copied().unwrap_or(u32::MAX)));
    all
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for within in &self.within {
            let (kind, list) = match within {
                Within::Nodes(list) => ("nodes", list),
                Within::Packages(list) => ("packages", list),
                Within::Ccxs(list) => ("ccxs", list),
                Within::Cpus(list) => ("cpus", list),
            };
            write!(f, "{comma}{kind}:{list}")?;
            comma = ",";
        }
        match self.count {
            Some(Count::Near(count)) => write!(f, "{comma}cores:{count}")?,
            Some(Count::Spread(count)) => write!(f, "{comma}spread:{count}")?,
            None => {}
        }
        if self.count.is_some() {
            comma = ",";
        }
        if self.no_smt { write!(f, "{comma}no-smt") } else { Ok(()) }
    }
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told_of("pin"))
    }
}

impl PinError {
    /// Formats the error, with the command-line option that contained the selection.
    #[must_use]
    pub fn told_of(&self, option: &str) -> String {
        format!("{option} {}: {}", self.words, self.reason)
    }
}

impl core::error::Error for PinError {}
