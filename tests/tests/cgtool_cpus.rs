//! CPUs and memory nodes of groups: chosen by topology, and exchanged while in use.

use crate::cgtool::{Own, V1, cgroup, pid_of, tool};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use std::fs;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(pinned).on(V1).needs(tool),
    case!(pinned_all_or_none).on(V1).needs(tool),
    case!(exchanged_while_running).on(V1).needs(tool),
    case!(exchange_refused).on(V1).needs(tool),
    case!(two_memory_nodes).needs(nodes),
];

fn pinned(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("a"), &own.child("b")]).ok();
    let lines = cgroup(bed, &["pin", &own.child("a"), "cores:1"]).ok().stdout;
    assert_eq!(
        lines,
        format!("cgset -r cpuset.cpus='0' {0}/a\ncgset -r cpuset.mems='0' {0}/a\n", own.name)
    );
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    let (a, b) = (format!("{}=1", own.child("a")), format!("{}=1", own.child("b")));
    cgroup(bed, &["pin", "--auto", &a, &b]).ok();
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    assert_eq!(own.read("cpuset", "b", "cpuset.cpus"), "1");
    // The CPUs are chosen from the parent's.
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &own.child("b")]).ok();
    cgroup(bed, &["create", &own.child("b/c")]).ok();
    cgroup(bed, &["pin", &own.child("b/c"), "node:0"]).ok();
    assert_eq!(own.read("cpuset", "b/c", "cpuset.cpus"), "1");
    cgroup(bed, &["pin", &own.child("a"), "node:9"]).fails_without_log("there is no memory node 9");
    cgroup(bed, &["pin", &own.child("a"), "nod:0"]).fails_without_log("unknown word");
}

pub fn allowed(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("process");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("CPUs").trim().to_owned()
}

fn exchanged_while_running(bed: &Bed) {
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &a, &b]).ok();
    cgroup(bed, &["set", "cpuset.cpus=0", &a]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &b]).ok();
    let busy = "while :; do :; done";
    let run =
        |group: &str| bed.call_bare(&["cgroup", "exec", "-g", group, "sh", "-c", busy]).spawn();
    let (one, two) = (run(&a), run(&b));
    let (p, q) = (pid_of(&one), pid_of(&two));
    dayfly_tests::wait::until_true("both in place", || allowed(&p) == "0" && allowed(&q) == "1");
    let steps = cgroup(bed, &["swap", "--dry-run", &a, &b]).ok().stdout;
    let values: Vec<_> =
        steps.lines().filter_map(|line| line.rsplit_once(" = ")).map(|l| l.1).collect();
    assert_eq!(values, ["0-1", "0-1", "1", "0"]);
    for round in 0..20 {
        cgroup(bed, &["swap", &a, &b]).ok();
        let expected = if round % 2 == 0 { ("1", "0") } else { ("0", "1") };
        assert_eq!((allowed(&p).as_str(), allowed(&q).as_str()), expected);
    }
    let told = cgroup(bed, &["swap", "--move-memory", &a, &b]).ok().stdout;
    assert!(told.starts_with("# cgroup v1: with cpuset.memory_migrate set"), "{told}");
    assert_eq!(own.read("cpuset", "a", "cpuset.memory_migrate"), "1");
    let told = cgroup(bed, &["move-memory", &a, "0"]).ok().stdout;
    assert!(told.contains("node 0: "), "{told}");
    cgroup(bed, &["kill", &a, &b]).ok();
    let _ = (one.wait(), two.wait());
}

fn exchange_refused(bed: &Bed) {
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &own.child("a/inner"), &own.child("b/c")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &own.child("a/inner")]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=0", &a]).ok();
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &own.child("b/c")]).ok();
    cgroup(bed, &["swap", &a, &own.child("b/c")])
        .fails_without_log("a/inner has cpuset.cpus 0, which");
    cgroup(bed, &["swap", &a, &own.child("a/inner")]).fails_without_log("a/inner is inside of");
    cgroup(bed, &["swap", &a, &a]).fails_without_log("is one group: give two");
    cgroup(bed, &["set", "-r", "cpuset.cpus=1", &b]).ok();
    cgroup(bed, &["swap", &own.child("b/c"), &own.child("a/inner")])
        .fails_without_log("its parent has");
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), "0");
    assert_eq!(own.read("cpuset", "b/c", "cpuset.cpus"), "1");
}

fn pinned_all_or_none(bed: &Bed) {
    let own = Own::new(bed);
    let a = own.child("a");
    cgroup(bed, &["create", &a]).ok();
    let before = own.read("cpuset", "a", "cpuset.cpus");
    let (one, gone) = (format!("{a}=1"), format!("{}=1", own.child("none")));
    let outcome = cgroup(bed, &["pin", "--auto", &one, &gone]);
    assert_eq!(outcome.fails_without_log("there is no group").stdout, "", "told before any line");
    cgroup(bed, &["pin", "--auto", &one, &one]).fails_without_log("is named twice");
    cgroup(bed, &["pin", "/", "node:0"]).fails_without_log("has all CPUs");
    cgroup(bed, &["move-memory", &a, ""]).fails_without_log("no memory nodes are given");
    cgroup(bed, &["move-memory", &a, "77"]).fails_without_log("memory node 77 does not exist");
    assert_eq!(own.read("cpuset", "a", "cpuset.cpus"), before);
    // A dry run does not need an existing group.
    cgroup(bed, &["pin", "--dry-run", &format!("{}=node:0", own.child("none"))]).ok();
}

/// Checks for two memory nodes with a cpuset controller, as in scripts/guest.
fn nodes() -> Result<(), String> {
    tool()?;
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    match online.trim() {
        "0-1" => Ok(()),
        _ => Err("this host has one memory node".to_owned()),
    }
}

fn two_memory_nodes(bed: &Bed) {
    let cpus_of = |node: u32| {
        let file = format!("/sys/devices/system/node/node{node}/cpulist");
        fs::read_to_string(file).expect("CPUs").trim().to_owned()
    };
    let both = "grep -E '^(Cpus|Mems)_allowed_list' /proc/self/status | cut -f2";
    let c = bed.bundle().sh(both).make();
    assert_eq!(c.run_with(&["--pin", "node:1"]).ok().stdout, format!("{}\n1\n", cpus_of(1)));

    // The larger group is placed first; each gets a node with enough CPUs.
    let own = Own::new(bed);
    let (a, b) = (own.child("a"), own.child("b"));
    cgroup(bed, &["create", &a, &b]).ok();
    cgroup(bed, &["pin", "--auto", &format!("{a}=2"), &format!("{b}=2")]).ok();
    let lists =
        |group: &str| ["cpuset.cpus", "cpuset.mems"].map(|file| own.read("cpuset", group, file));
    assert_eq!(lists("a"), [cpus_of(0), "0".to_owned()]);
    assert_eq!(lists("b"), [cpus_of(1), "1".to_owned()]);

    // Memory in use is moved.
    let hungry = "x=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep 600";
    let running = bed.call_bare(&["cgroup", "exec", "-g", &a, "sh", "-c", hungry]).spawn();
    let on = |node: u32| {
        let kind = if bed.view.has_v1() { "total=" } else { "anon " };
        let unit = if bed.view.has_v1() { 4096 } else { 1 };
        let text = own.read("memory", "a", "memory.numa_stat");
        let line = text.lines().find(|line| line.starts_with(kind)).expect("a line");
        let word = line.split(' ').find_map(|word| word.strip_prefix(&format!("N{node}=")));
        word.and_then(|word| word.parse::<u64>().ok()).expect("a number") * unit
    };
    dayfly_tests::wait::until_true("memory on node 0", || on(0) > 20_000_000);
    assert!(on(1) < 5_000_000, "{} on node 1", on(1));
    let told = cgroup(bed, &["move-memory", &a, "1"]).ok().stdout;
    assert!(told.starts_with("# cgroup v") && told.contains("\nnode 1: "), "{told}");
    assert!(on(1) > 20_000_000 && on(0) < 5_000_000, "{told}");
    assert_eq!(lists("a"), [cpus_of(0), "1".to_owned()]);
    cgroup(bed, &["move-memory", &a, "0"]).ok();
    cgroup(bed, &["swap", "--move-memory", &a, &b]).ok();
    assert_eq!(lists("a"), [cpus_of(1), "1".to_owned()]);
    assert_eq!(lists("b"), [cpus_of(0), "0".to_owned()]);
    assert!(on(1) > 20_000_000 && on(0) < 5_000_000, "what was in use has moved with them");
    cgroup(bed, &["kill", &a]).ok();
    let _ = running.wait();
}
