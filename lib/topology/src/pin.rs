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

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::{List, Topology};

/// A parsed selection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pin {
    /// Parts by their index in [`PARTS`], with the selected ones.
    within: Vec<(usize, List)>,
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

/// Returns the parts of a host: the CPUs of each, by its number.
type Parts = fn(&Topology) -> Vec<(u32, List)>;

/// The kinds of parts that a word names by numbers: each with its words, of which the first is shown, and its name in
/// errors.
const PARTS: [(&[&str], &str, Parts); 4] = [
    (&["nodes", "node"], "memory node", |host| {
        host.nodes.iter().map(|node| (node.id, node.cpus.clone())).collect()
    }),
    (&["packages", "package", "sockets", "socket"], "package", |host| {
        (0..).zip(host.packages()).collect()
    }),
    (&["ccxs", "ccx"], "ccx", |host| {
        (0..).zip(host.ccxs().into_iter().map(|ccx| ccx.cpus)).collect()
    }),
    (&["cpus", "cpu"], "CPU", |host| {
        host.cpus.iter().map(|cpu| (cpu.id, List::from_iter([cpu.id]))).collect()
    }),
];

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
            let part = PARTS.iter().position(|(words, ..)| words.contains(&kind));
            let count = match (part, kind) {
                (Some(part), _) => {
                    pin.within.push((part, list()?));
                    continue;
                }
                (None, "core" | "cores") => Count::Near(count()?),
                (None, "spread") => Count::Spread(count()?),
                _ => return Err(wrong(format!("unknown word {kind:?}: {KNOWN}"))),
            };
            if pin.count.replace(count).is_some() {
                return Err(wrong("cores are counted twice".to_string()));
            }
        }
        if pin == Self::default() {
            return Err(wrong(format!("there is no word: {KNOWN}")));
        }
        Ok(pin)
    }

    /// Returns the CPUs and memory nodes that the selection matches on `topology`, limited to the CPUs in `allowed`.
    ///
    /// # Errors
    /// If a selected part of the topology does not exist, or too few CPUs match.
    pub fn resolve(&self, topology: &Topology, allowed: &List) -> Result<Placement, PinError> {
        let wrong = |reason: String| PinError { words: self.to_string(), reason };
        let mut cpus = topology.online().intersection(allowed);
        for (part, selected) in &self.within {
            cpus = cpus.intersection(&within(*part, selected, topology).map_err(wrong)?);
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
        let each = if self.no_smt { 1 } else { usize::MAX };
        let cpus: List = cores.iter().flat_map(|core| core.iter().take(each)).collect();
        let mems = topology.memory_of(&cpus);
        Ok(Placement { cpus, mems })
    }
}

/// Returns the CPUs of the selected parts of a host.
fn within(part: usize, selected: &List, topology: &Topology) -> Result<List, String> {
    let Some((_, name, parts)) = PARTS.get(part) else { return Ok(List::default()) };
    let all = parts(topology);
    let there: List = all.iter().map(|(id, _)| *id).collect();
    let absent = selected.without(&there);
    if !absent.is_empty() {
        return Err(format!("there is no {name} {absent}: this host has {there}"));
    }
    let chosen = all.iter().filter(|(id, _)| selected.contains(*id));
    let cpus: List = chosen.flat_map(|(_, cpus)| cpus.iter()).collect();
    match cpus.is_empty() {
        true => Err("that is memory without CPUs".to_string()),
        false => Ok(cpus),
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

/// Groups `cores` by cache, and the caches by node.
fn by_cache(topology: &Topology, cores: &[List]) -> Vec<Vec<Vec<List>>> {
    let mut nodes: BTreeMap<u32, Vec<Vec<List>>> = BTreeMap::new();
    for ccx in topology.ccxs() {
        let inside: Vec<List> =
            cores.iter().filter(|core| core.is_within(&ccx.cpus)).cloned().collect();
        let first = inside.first().and_then(List::first);
        if let Some(cpu) = first.and_then(|cpu| topology.cpu(cpu)) {
            nodes.entry(cpu.node).or_default().push(inside);
        }
    }
    nodes.into_values().collect()
}

/// Picks cores that share a cache, namely the smallest cache with enough cores. If no cache has enough cores, picks
/// cores of the smallest node with enough cores; if no node has enough cores, picks the first cores.
fn near(topology: &Topology, cores: &[List], count: usize) -> Vec<List> {
    let caches = by_cache(topology, cores);
    let nodes: Vec<Vec<List>> = caches.iter().map(|caches| caches.concat()).collect();
    let smallest = |groups: &[Vec<List>]| {
        let fitting = groups.iter().filter(|cores| cores.len() >= count);
        fitting.min_by_key(|cores| cores.len()).cloned()
    };
    let chosen = smallest(&caches.concat()).or_else(|| smallest(&nodes));
    chosen.unwrap_or_else(|| nodes.concat()).into_iter().take(count).collect()
}

/// Picks one core from each node in turn, and of each node one from each cache in turn.
fn spread(topology: &Topology, cores: &[List], count: usize) -> Vec<List> {
    let nodes: Vec<Vec<List>> =
        by_cache(topology, cores).iter().map(|caches| in_turn(caches)).collect();
    in_turn(&nodes).into_iter().take(count).collect()
}

/// Takes the first element of each list, then the second of each, and so on.
fn in_turn(lists: &[Vec<List>]) -> Vec<List> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let all = (0..longest).flat_map(|at| lists.iter().filter_map(move |list| list.get(at)));
    all.cloned().collect()
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
    let mut order: Vec<(usize, &(String, u32))> = groups.iter().enumerate().collect();
    order.sort_by_key(|(_, (_, size))| core::cmp::Reverse(*size));
    let mut placed: Vec<(usize, Placed)> = Vec::new();
    for (at, (name, size)) in order {
        let size = *size as usize;
        let nodes = || free.iter().map(Vec::len).enumerate();
        let fitting = nodes().filter(|(_, cpus)| *cpus >= size).min_by_key(|(_, cpus)| *cpus);
        let home = fitting.or_else(|| nodes().rev().max_by_key(|(_, cpus)| *cpus));
        let home = home.map_or(0, |(node, _)| node);
        let mut chosen = Vec::new();
        for node in from_nearest(topology, home) {
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
        let part = |(part, list): &(usize, List)| {
            let word = PARTS.get(*part).and_then(|(words, ..)| words.first()).unwrap_or(&"");
            format!("{word}:{list}")
        };
        let count = self.count.map(|count| match count {
            Count::Near(count) => format!("cores:{count}"),
            Count::Spread(count) => format!("spread:{count}"),
        });
        let no_smt = self.no_smt.then(|| "no-smt".to_string());
        let words: Vec<String> = self.within.iter().map(part).chain(count).chain(no_smt).collect();
        f.write_str(&words.join(","))
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
