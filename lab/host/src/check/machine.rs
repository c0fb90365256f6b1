//! Memory nodes, hardware threads and caches, judged by the measurements of the article on mount lock contention.

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

/// Returns the first CPU of each core among `cpus`.
pub fn one_per_core(topology: &Topology, cpus: &List) -> List {
    let first = |core: &List| core.intersection(cpus).first();
    topology.cores().iter().filter_map(first).collect()
}

fn nodes(topology: &Topology) -> Verdict {
    let nodes: Vec<_> = topology.nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    let farthest = nodes.iter().flat_map(|node| node.distances.iter()).max();
    let (case, each) = match nodes.as_slice() {
        [] | [_] => ("one", topology.cpus.len()),
        [first, ..] => ("several", first.cpus.len()),
    };
    // One advice for placement: with several nodes, that about hardware threads is part of it.
    let node = nodes.first().map_or(0, |node| node.id);
    let starters = format!("node:{node}{}", if topology.has_smt() { ",no-smt" } else { "" });
    Verdict::of("machine.numa", case)
        .with("each", cpus(each))
        .with("distance", farthest.unwrap_or(&0))
        .figure("nodes", nodes.len())
        .figure("starters", starters)
}

fn threads(topology: &Topology) -> Verdict {
    let (cores, all) = (topology.cores().len(), topology.cpus.len());
    let control = match topology.smt_control.as_str() {
        "" | "notsupported" => "none to switch",
        "off" => "switched off",
        "forceoff" => "switched off for good",
        other => other,
    };
    let case = match topology.has_smt() {
        false => "one_per_core",
        true if all > FEW => "many_share",
        true => "few_share",
    };
    let verdict = Verdict::of("machine.smt", case)
        .with("control", control)
        .figure("cores", cores)
        .figure("cpus", all);
    match topology.nodes.iter().filter(|node| !node.cpus.is_empty()).count() {
        0 | 1 => verdict,
        _ => Verdict { fix: Vec::new(), ..verdict },
    }
}

fn caches(topology: &Topology) -> Verdict {
    let caches = topology.ccxs();
    let sockets = topology.packages().len().max(1);
    let (mib, wide) = caches.first().map_or((0, 0), |it| (it.bytes >> 20, it.cpus.len()));
    let size = if mib > 0 { format!(" of {mib} MiB") } else { String::new() };
    let case = match topology.cpus.len() {
        ..=FEW => "few_cpus",
        _ if caches.len() > sockets => "chiplets",
        _ => "one_a_socket",
    };
    Verdict::of("machine.caches", case)
        .with("count", counted(caches.len(), "cache"))
        .with("cpus", cpus(topology.cpus.len()))
        .with("wide", cpus(wide))
        .with("size", size)
        .figure("caches", caches.len())
        .figure("sockets", sockets)
}

fn cpus(count: usize) -> String {
    counted(count, "CPU")
}
