//! Memory nodes, hardware threads and caches, judged by the measurements of the article on mount lock contention.

use super::verdict::Level::{Good, Note, Warning};
use super::verdict::{Section, Verdict};
use crate::facts::Facts;
use report::Error;
use report::count::counted;
use topology::{List, Topology};

/// The number of CPUs up to which lock contention is negligible.
const FEW: usize = 8;

/// Returns the verdicts on the machine.
///
/// # Errors
/// The topology cannot be read.
pub fn section(facts: &Facts) -> Result<Section, Error> {
    let topology = Topology::read(facts.root_text()?)?;
    let verdicts = vec![nodes(&topology), threads(&topology), caches(&topology)];
    Ok(Section { title: "machine", verdicts })
}

/// Returns the best CPUs to start containers from: one CPU of each core of the first node that has CPUs.
#[must_use]
pub fn starters(topology: &Topology) -> List {
    let node = topology.nodes.iter().find(|node| !node.cpus.is_empty());
    let cpus = node.map_or_else(|| topology.online(), |node| node.cpus.clone());
    one_per_core(topology, &cpus)
}

/// Returns the first CPU of each core among `cpus`.
#[must_use]
pub fn one_per_core(topology: &Topology, cpus: &List) -> List {
    let first = |core: &List| core.intersection(cpus).first();
    topology.cores().iter().filter_map(first).collect()
}

fn nodes(topology: &Topology) -> Verdict {
    let about = ("machine.numa", "memory nodes");
    let nodes: Vec<_> = topology.nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    let farthest = nodes.iter().flat_map(|node| node.distances.iter().copied()).max();
    let verdict = match nodes.as_slice() {
        [] | [_] => Verdict::new(
            about,
            Good,
            format!("1 node, {}", cpus(topology.cpus.len())),
            "no lock moves between sockets",
        ),
        [first, ..] => Verdict::new(
            about,
            Warning,
            format!(
                "{} nodes, {} each, distance {}",
                nodes.len(),
                cpus(first.cpus.len()),
                farthest.unwrap_or(0)
            ),
            "the mount lock moves between sockets: on two sockets, starts failed from about 100 at once, on one far later",
        )
        .fix(format!("dayfly run --start-cpus {} …", starters(topology))),
    };
    verdict.figure("nodes", nodes.len()).figure("starters", starters(topology).to_string())
}

fn threads(topology: &Topology) -> Verdict {
    let about = ("machine.smt", "hardware threads");
    let (cores, all) = (topology.cores().len(), topology.cpus.len());
    let control = match topology.smt_control.as_str() {
        "" | "notsupported" => "none to switch",
        "off" => "switched off",
        "forceoff" => "switched off for good",
        "on" => "on",
        other => other,
    };
    let verdict = match (topology.has_smt(), all > FEW) {
        (false, _) => Verdict::new(
            about,
            Good,
            format!("one per core, {cores} cores, SMT {control}"),
            "threads that spin on a lock have a core of their own",
        ),
        (true, many) => Verdict::new(
            about,
            if many { Warning } else { Note },
            format!("{all} on {cores} cores, SMT {control}"),
            "two spinning threads share a core: without SMT, many starts at once took 20-30 % less time",
        )
        .fix(format!(
            "dayfly run --start-cpus {} … (one per core), or echo off > /sys/devices/system/cpu/smt/control",
            one_per_core(topology, &topology.online())
        )),
    };
    verdict.figure("cores", cores).figure("cpus", all)
}

fn caches(topology: &Topology) -> Verdict {
    let about = ("machine.caches", "level 3 caches");
    let caches = topology.ccxs();
    let sockets = topology.packages().len().max(1);
    let mib = caches.first().map_or(0, |cache| cache.bytes >> 20);
    let size = if mib > 0 { format!(" of {mib} MiB") } else { String::new() };
    let wide = caches.first().map_or(0, |cache| cache.cpus.len());
    let verdict = if topology.cpus.len() <= FEW {
        let fact =
            format!("{}{size}, {}", counted(caches.len(), "cache"), cpus(topology.cpus.len()));
        Verdict::new(about, Good, fact, "too few CPUs to queue at a cache")
    } else if caches.len() > sockets {
        Verdict::new(
            about,
            Good,
            format!("{} chiplets with {} and a cache{size} each", caches.len(), cpus(wide)),
            "waiting spreads over chiplets: the flattest curve in \"Mount Mayhem at Netflix\", 20 % below a mesh",
        )
    } else {
        Verdict::new(
            about,
            Note,
            format!("one{size} a socket, {}", cpus(wide)),
            "all waiters of a lock queue at one cache: keep fewer starts in flight than on chiplets",
        )
        .fix("dayfly host locks tells how many")
    };
    verdict.figure("caches", caches.len()).figure("sockets", sockets)
}

fn cpus(count: usize) -> String {
    counted(count, "CPU")
}
