//! Tests of topologies that are read from copies of other hosts' sysfs.

extern crate dayfly_topology as topology;

mod common;

use common::Sysroot;
use topology::{States, Topology};

#[test]
fn four_nodes_of_seed_002() {
    let topology = Sysroot::of("nehalem-ex").topology();
    assert_eq!(topology.cpus.len(), 32);
    assert_eq!(topology.nodes.len(), 4);
    let node = topology.node(1).unwrap();
    assert_eq!(node.cpus.to_string(), "1,5,9,13,17,21,25,29");
    assert_eq!((node.memory, node.free), (32768 << 20, 26818 << 20));
    assert_eq!(node.distances, [21, 10, 21, 21]);
    assert_eq!(topology.packages().len(), 4);
    assert_eq!(topology.cores().len(), 32);
    assert!(!topology.has_smt());
    assert_eq!(topology.memory_of(&node.cpus).to_string(), "1");
}

#[test]
fn siblings_of_two_sockets() {
    let topology = Sysroot::of("two-socket-smt").topology();
    assert_eq!(topology.cores().len(), 48);
    assert_eq!(topology.cpu(24).unwrap().siblings.to_string(), "24,72");
    assert_eq!(topology.cpu(24).unwrap().node, 1);
    assert_eq!(topology.ccxs().len(), 2);
    assert_eq!(topology.smt_control, "on");
    assert!(topology.has_smt());
}

#[test]
fn caches_of_chiplets_and_of_a_mesh() {
    let chiplets = Sysroot::of("chiplets").topology();
    let ccxs = chiplets.ccxs();
    assert_eq!(ccxs.len(), 12);
    assert_eq!((ccxs[1].cpus.to_string().as_str(), ccxs[1].bytes), ("8-15", 32 << 20));
    assert_eq!(chiplets.packages().len(), 1);
    assert_eq!(Sysroot::of("mesh-smt").topology().ccxs().len(), 1);
}

#[test]
fn a_host_without_numa_smt_and_caches() {
    let sysroot = Sysroot::empty();
    sysroot.put("sys/devices/system/cpu/online", "0-1");
    let topology = sysroot.topology();
    assert_eq!(topology.nodes.len(), 1);
    assert_eq!(topology.memory_nodes().to_string(), "0");
    assert_eq!(topology.ccxs()[0].cpus.to_string(), "0-1");
    assert_eq!(topology.cores().len(), 2);
    assert!(Topology::read("/nowhere").is_err());
}

#[test]
fn states_of_cpus() {
    let sysroot = Sysroot::of("chiplets");
    let states = States::read(sysroot.root()).unwrap();
    assert_eq!((states.online.to_string(), states.offline.len()), ("0-95".to_owned(), 0));
    sysroot.put("sys/devices/system/cpu/online", "0-3,8-95");
    sysroot.put("sys/devices/system/cpu/isolated", "2,90-95");
    let states = States::read(sysroot.root()).unwrap();
    let texts = [&states.present, &states.offline, &states.isolated].map(ToString::to_string);
    assert_eq!(texts, ["0-95", "4-7", "2,90-95"]);
    sysroot.put("sys/devices/system/cpu/isolated", "some");
    assert!(States::read(sysroot.root()).is_err());
}

#[test]
fn as_many_cpus_as_a_list_may_have() {
    let sysroot = Sysroot::empty();
    sysroot.put("sys/devices/system/cpu/online", "0-65535");
    let topology = sysroot.topology();
    assert_eq!((topology.packages().len(), topology.ccxs().len()), (1, 1));
}

#[test]
fn this_host() {
    let topology = Topology::read("").unwrap();
    assert!(!topology.cpus.is_empty() && !topology.nodes.is_empty());
    assert!(topology.nodes.iter().all(|node| node.cpus.is_within(&topology.online())));
}
