//! Tests of CPU selections on other hosts' topologies.

extern crate dayfly_topology as topology;

mod common;

use common::Sysroot;
use topology::pin::{Pin, place};
use topology::{List, Topology};

fn pinned(topology: &Topology, words: &str) -> (String, String) {
    let placement = Pin::parse(words).unwrap().resolve(topology, &topology.online()).unwrap();
    (placement.cpus.to_string(), placement.mems.to_string())
}

fn is(topology: &Topology, words: &str, cpus: &str, mems: &str) {
    assert_eq!(pinned(topology, words), (cpus.to_owned(), mems.to_owned()), "{words}");
}

fn refused(topology: &Topology, words: &str, says: &str) {
    let result = Pin::parse(words).and_then(|pin| pin.resolve(topology, &topology.online()));
    let error = result.unwrap_err().to_string();
    assert!(error.contains(says), "{words}: {error}");
}

/// Selections on a host with four memory nodes and without SMT.
#[test]
fn nodes_of_seed_002() {
    let host = Sysroot::of("nehalem-ex").topology();
    is(&host, "node:0", "0,4,8,12,16,20,24,28", "0");
    is(&host, "node:1", "1,5,9,13,17,21,25,29", "1");
    is(&host, "node:2", "2,6,10,14,18,22,26,30", "2");
    is(&host, "node:3", "3,7,11,15,19,23,27,31", "3");
    is(&host, "nodes:0-3", "0-31", "0-3");
    is(&host, "nodes:0,2", "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30", "0,2");
    is(&host, "cores:4", "0,4,8,12", "0");
    is(&host, "spread:4", "0-3", "0-3");
    is(&host, "spread:6", "0-5", "0-3");
    is(&host, "node:1,cores:2", "1,5", "1");
    is(&host, "package:3", "3,7,11,15,19,23,27,31", "3");
    is(&host, "cores:10", "0-1,4-5,8,12,16,20,24,28", "0-1");
}

#[test]
fn siblings() {
    let host = Sysroot::of("two-socket-smt").topology();
    is(&host, "cores:4", "0-3,48-51", "0");
    is(&host, "cores:4,no-smt", "0-3", "0");
    is(&host, "node:1,no-smt", "24-47", "1");
    is(&host, "spread:4", "0-1,24-25,48-49,72-73", "0-1");
    is(&host, "spread:2,no-smt", "0,24", "0-1");
    is(&host, "no-smt", "0-47", "0-1");
    is(&host, "cpus:0-1,48", "0-1,48", "0");
}

#[test]
fn chiplets() {
    let host = Sysroot::of("chiplets").topology();
    is(&host, "ccx:1", "8-15", "0");
    is(&host, "ccxs:0,11", "0-7,88-95", "0");
    is(&host, "spread:12", "0,8,16,24,32,40,48,56,64,72,80,88", "0");
    is(&host, "spread:3", "0,8,16", "0");
    is(&host, "cores:8", "0-7", "0");
    is(&host, "cores:9", "0-8", "0");
    is(&host, "ccx:2,cores:3", "16-18", "0");
    assert_eq!(pinned(&host, "spread:96").0, "0-95");
}

#[test]
fn what_is_not_there() {
    let host = Sysroot::of("nehalem-ex").topology();
    refused(&host, "node:4", "no memory node 4: this host has 0-3");
    refused(&host, "ccx:9", "no ccx 9");
    refused(&host, "cpus:30-33", "no CPU 32-33");
    refused(&host, "cores:33", "fewer than 33");
    refused(&host, "node:0,node:1", "no CPU");
    refused(&host, "nod:0", "unknown word");
    refused(&host, "node", "unknown word");
    refused(&host, "node:", "not a list");
    refused(&host, "cores:0", "not a number");
    refused(&host, "cores:1,spread:1", "twice");
    refused(&host, "", "no word");
}

#[test]
fn what_is_allowed_bounds_it() {
    let host = Sysroot::of("nehalem-ex").topology();
    let allowed = List::parse("0-7").unwrap();
    let placement = Pin::parse("node:0").unwrap().resolve(&host, &allowed).unwrap();
    assert_eq!(placement.cpus.to_string(), "0,4");
    assert!(Pin::parse("node:0,cores:3").unwrap().resolve(&host, &allowed).is_err());
}

#[test]
fn placed_by_size() {
    let host = Sysroot::of("nehalem-ex").topology();
    let placed = |sizes: &[(&str, u32)]| {
        let groups: Vec<_> = sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        let all = place(&groups, &host, &host.online())?;
        Ok::<_, topology::pin::PinError>(
            all.into_iter()
                .map(|p| format!("{} {} {}", p.name, p.placement.cpus, p.placement.mems))
                .collect::<Vec<_>>(),
        )
    };
    // The groups have 2, 4, 8 and 14 CPUs; only the largest one spans both nodes.
    assert_eq!(
        placed(&[("1", 2), ("2", 4), ("3", 8), ("4", 14)]).unwrap(),
        [
            "1 25,29 1",
            "2 3,7,11,15 3",
            "3 2,6,10,14,18,22,26,30 2",
            "4 0-1,4-5,8-9,12-13,16-17,20-21,24,28 0-1",
        ]
    );
    let error = placed(&[("all", 33)]).unwrap_err().to_string();
    assert!(error.contains("33 CPUs are wanted"), "{error}");
}
