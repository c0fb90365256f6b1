//! `dayfly host topology` on other hosts: the host whose `numactl --hardware` is shown in the article on consolidation
//! (Red Hat's "Resource Management using Control Groups"), and hosts with offline, missing or contradictory parts.

#[path = "../../../lib/topology/tests/common/mod.rs"]
mod common;

use common::Sysroot;
use dayfly_host::facts::Facts;
use dayfly_host::hardware::{Hardware, command};
use dayfly_host::options::Hardware as Options;
use report::Format;
use serde_json::Value;
use std::fs;

fn host(topology: &str) -> Sysroot {
    let sysroot = Sysroot::of(topology);
    sysroot.put("proc/sys/kernel/osrelease", "6.17.0");
    sysroot
}

fn hardware(sysroot: &Sysroot) -> Result<Hardware, String> {
    let facts = Facts::of(Some(&sysroot.path)).expect("facts");
    Hardware::of(&facts).map_err(|error| error.to_string())
}

fn text(sysroot: &Sysroot) -> String {
    hardware(sysroot).expect("hardware").to_string()
}

/// The output that the article shows, and properties of that machine that numactl does not report.
const FOUR_NODES: &str = "\
available: 4 nodes (0-3)
node 0 cpus: 0 4 8 12 16 20 24 28
node 0 size: 32649 MB
node 0 free: 21762 MB
node 1 cpus: 1 5 9 13 17 21 25 29
node 1 size: 32768 MB
node 1 free: 26818 MB
node 2 cpus: 2 6 10 14 18 22 26 30
node 2 size: 32768 MB
node 2 free: 25832 MB
node 3 cpus: 3 7 11 15 19 23 27 31
node 3 size: 32768 MB
node 3 free: 30561 MB
node distances:
node   0   1   2   3 
  0:  10  21  21  21 
  1:  21  10  21  21 
  2:  21  21  10  21 
  3:  21  21  21  10 

cpus present: 0-31
cpus online: 0-31
cpus offline: none
cpus isolated: none
SMT: notsupported (one CPU a core)
sockets: 4
level 3 caches: 4
socket 0 cpus: 0,4,8,12,16,20,24,28
  level 3 cache, 24 MiB, node 0 cpus: 0,4,8,12,16,20,24,28
    cores: 0 4 8 12 16 20 24 28
";

#[test]
fn four_nodes_of_the_article_on_consolidation() {
    let text = text(&host("nehalem-ex"));
    assert!(text.starts_with(FOUR_NODES), "{text}");
    assert_eq!(text.matches("\nsocket ").count(), 4);
}

#[test]
fn siblings_and_caches() {
    let said = text(&host("two-socket-smt"));
    for line in [
        "SMT: on (cores have more than one CPU)",
        "socket 1 cpus: 24-47,72-95",
        "  level 3 cache, 36608 KiB, node 1 cpus: 24-47,72-95",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
    assert!(said.contains("cores: 24,72 25,73 "), "{said}");
    let said = text(&host("chiplets"));
    assert_eq!(said.matches("  level 3 cache, 32 MiB, node 0 cpus: ").count(), 12, "{said}");
}

#[test]
fn offline_and_isolated_cpus() {
    let host = host("two-socket-smt");
    host.put("sys/devices/system/cpu/online", "0-23,25-95");
    host.put("sys/devices/system/cpu/isolated", "4-5");
    let said = text(&host);
    for line in ["cpus present: 0-95", "cpus offline: 24", "cpus isolated: 4-5"] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
    assert!(said.contains("node 1 cpus: 25 26 ") && said.contains(" 71\n"), "{said}");
    // The other CPU of this core is offline.
    assert!(said.contains(" 47,95 72\n"), "{said}");
    assert!(!said.contains("24,72"), "{said}");
}

#[test]
fn nodes_without_cpus_or_without_memory() {
    let host = host("two-socket-smt");
    let node = |id: u32, file: &str| format!("sys/devices/system/node/node{id}/{file}");
    host.put("sys/devices/system/node/online", "0-1,4");
    host.put(&node(0, "distance"), "10 21 28").put(&node(1, "distance"), "21 10 28");
    host.put(&node(1, "meminfo"), "Node 1 MemTotal: 0 kB\nNode 1 MemFree: 0 kB");
    host.put(&node(4, "distance"), "28 28 10").put(&node(4, "cpulist"), "");
    host.put(&node(4, "meminfo"), "Node 4 MemTotal: 2097152 kB\nNode 4 MemFree: 1048576 kB");
    let said = text(&host);
    assert!(said.starts_with("available: 3 nodes (0-1,4)\n"), "{said}");
    for line in [
        "node 1 size: 0 MB",
        "node 4 cpus:",
        "node 4 size: 2048 MB",
        "node 4 free: 1024 MB",
        "node   0   1   4 ",
        "  4:  28  28  10 ",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
}

#[test]
fn a_kernel_without_numa() {
    let host = Sysroot::empty();
    host.put("proc/sys/kernel/osrelease", "6.17.0");
    host.put("sys/devices/system/cpu/online", "0-1");
    let said = text(&host);
    for line in [
        "available: 1 nodes (0)",
        "node 0 cpus: 0 1",
        "node 0 size: not available",
        "No distance information available.",
        "This kernel knows no memory nodes (no /sys/devices/system/node): all counts as node 0.",
        "SMT: not available (one CPU a core)",
        "level 3 caches: 0",
        "  no level 3 cache, node 0 cpus: 0-1",
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
    host.put("proc/meminfo", "MemTotal:       14641356 kB\nMemFree:         6033504 kB");
    assert!(text(&host).contains("node 0 size: 14298 MB\nnode 0 free: 5892 MB\n"));
}

#[test]
fn nonsense_is_refused() {
    let node = "sys/devices/system/node/node0";
    for (file, content, said) in [
        ("sys/devices/system/cpu/online", "", "cpu/online: no CPU is online"),
        ("sys/devices/system/cpu/online", "0-", "cpu/online: got \"0-\\n\""),
        ("sys/devices/system/cpu/present", "x", "cpu/present: got \"x\\n\""),
        ("sys/devices/system/node/online", "99999999", "node/online: got"),
        (&format!("{node}/cpulist"), "3-1", "node0/cpulist: got"),
        (
            &format!("{node}/distance"),
            "10 21",
            "distance: not a distance for each of 4 nodes: 10 21",
        ),
        (&format!("{node}/distance"), "10 21 21 far", "not a distance for each of 4 nodes"),
        (
            &format!("{node}/meminfo"),
            "Node 0 MemTotal: much kB",
            "MemTotal: is not a size: much kB",
        ),
        (
            &format!("{node}/meminfo"),
            "Node 0 MemTotal: 99999999999999999999 kB",
            "MemTotal: is not a size",
        ),
    ] {
        let host = host("nehalem-ex");
        host.put(file, content);
        let refused = hardware(&host).expect_err(content);
        assert!(refused.contains(said), "{file}: {refused}");
    }
}

#[test]
fn json_in_a_file() {
    let host = host("chiplets");
    let file = |name: &str| host.path.join(name);
    let options = Options {
        format: Format::Json,
        output: Some(file("hardware.json")),
        sysroot: Some(host.path.clone()),
    };
    command(&options).expect("written");
    let json = fs::read_to_string(file("hardware.json")).expect("JSON");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["nodes"][0]["size_bytes"], 196_608_u64 << 20);
    assert_eq!(json["sockets"][0]["caches"][11]["cores"][7], "95");
    assert_eq!(json["sockets"][0]["caches"][11]["cpus"], "88-95");
}
