//! Containers on CPUs chosen by topology, and in cgroups made in advance.

use crate::cgtool::{cgroup, tool};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use serde_json::{Value, json};

const V1: &[View] = &[View::V1, View::Hybrid];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(pinned_by_option).on(V1).unlike_runc(),
    case!(pinned_by_annotation).on(V1).unlike_runc(),
    case!(pinned_wrongly).unlike_runc(),
    case!(no_accounting_leaks_between_tenants).needs(memory).unlike_runc().alone(),
    case!(pools_in_every_view).needs(tool).unlike_runc().alone(),
];

/// Checks for the tool and the memory controller.
fn memory() -> Result<(), String> {
    tool()?;
    let v2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let there = v2.contains("memory") || std::path::Path::new("/sys/fs/cgroup/memory").exists();
    there.then_some(()).ok_or_else(|| "no memory controller".to_owned())
}

const CPUS: &str = "grep Cpus_allowed_list /proc/self/status";

fn pinned_by_option(bed: &Bed) {
    let c = bed.bundle().sh(CPUS).make();
    assert_eq!(c.run_with(&["--pin", "cpus:1"]).ok().stdout, "Cpus_allowed_list:\t1\n");
    let c = bed.bundle().sh(CPUS).make();
    assert_eq!(c.run_with(&["--pin", "cores:1,no-smt"]).ok().stdout, "Cpus_allowed_list:\t0\n");
    // `--pin` chooses among the CPUs of the configuration.
    let cpu = json!({ "cpu": { "cpus": "1" } });
    let c = bed.bundle().set("/linux/resources", cpu).sh(CPUS).make();
    assert_eq!(c.run_with(&["--pin", "node:0"]).ok().stdout, "Cpus_allowed_list:\t1\n");
}

fn pinned_by_annotation(bed: &Bed) {
    let asks = json!({ "run.dayfly.pin": "cpus:1" });
    let c = bed.bundle().set("/annotations", asks).sh("sleep 60").make();
    c.create().ok();
    assert_eq!(c.cgroup_read("cpuset", "cpuset.cpus"), "1");
    assert_eq!(c.cgroup_read("cpuset", "cpuset.mems"), "0");
    c.delete_force().ok();
}

fn pinned_wrongly(bed: &Bed) {
    let c = bed.bundle().make();
    c.run_with(&["--pin", "node:99"]).fails("there is no memory node 99");
    let c = bed.bundle().set("/annotations", json!({ "run.dayfly.pin": "nod:0" })).make();
    c.create().fails("unknown word");
    assert!(!c.exists());
}

/// The name of these cases' pool: a size that no other pool has.
const POOL: &str = "77M";

struct Pool<'a>(&'a Bed);

impl<'a> Pool<'a> {
    fn of(bed: &'a Bed, count: &str) -> Self {
        cgroup(bed, &["pool", "create", POOL, "--count", count]).ok();
        Self(bed)
    }

    fn state(&self) -> (u64, u64) {
        let text = cgroup(self.0, &["pool", "ls", "--format", "json"]).ok().stdout;
        let all: Value = serde_json::from_str(&text).expect("JSON");
        let ours = all.as_array().expect("list").iter().find(|pool| pool["pool"] == POOL);
        let count = |key: &str| ours.and_then(|pool| pool[key].as_u64()).expect("count");
        (count("free"), count("taken"))
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        let _ = cgroup(self.0, &["pool", "rm", POOL]);
    }
}

/// Returns the container's cgroup, as the kernel names it.
fn place(c: &Container<'_>) -> String {
    let text = std::fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("process");
    let is_it = |line: &&str| line.contains("/dayfly-tiers/");
    let line = text.lines().find(is_it).unwrap_or_else(|| panic!("no pool: {text}"));
    line.splitn(3, ':').nth(2).expect("path").to_owned()
}

fn pools_in_every_view(bed: &Bed) {
    if !bed.view.has_v1()
        && !std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")
            .is_ok_and(|all| all.contains("memory"))
    {
        // Without the memory controller, the limit can't be set.
        cgroup(bed, &["pool", "create", POOL, "--count", "1"]).fails_without_log("\"memory\"");
        let left = cgroup(bed, &["pool", "ls"]).ok().stdout;
        assert!(!left.contains(POOL), "{left}");
        return;
    }
    let pool = Pool::of(bed, "2");
    assert_eq!(pool.state(), (2, 0));
    let asks = json!({ "run.dayfly.pool": POOL });
    let c = bed.bundle().set("/annotations", asks).sh("sleep 60").make().detached();
    assert!(place(&c).contains("/dayfly-tiers/77M/"));
    assert_eq!(pool.state(), (1, 1));
    let failing = bed.bundle().args(&["/no/such/program"]).make();
    assert_ne!(failing.run_with(&["--pool", POOL]).code(), 0);
    assert_eq!(pool.state(), (0, 1), "a failed start removes its cgroup");
    cgroup(bed, &["pool", "create", POOL, "--count", "1"]).ok();
    assert_eq!(pool.state(), (1, 1));
    let second = bed.bundle().sh("sleep 60").make();
    second.run_with(&["--pool", POOL, "--detach"]).ok();
    let third = bed.bundle().sh("sleep 60").make();
    // `--tier` is the older name of the option.
    third.run_with(&["--tier", POOL, "--detach"]).ok();
    assert_eq!(pool.state(), (0, 2), "the third makes its own");
    assert!(place(&third).contains("/dayfly-tiers/77M/"));
    for c in [&c, &second, &third] {
        c.delete_force().ok();
    }
    assert_eq!(pool.state(), (0, 0), "delete makes none");
    cgroup(bed, &["pool", "create", POOL, "--count", "2"]).ok();
    assert_eq!(pool.state(), (2, 0));
    cgroup(bed, &["tier", "create", POOL, "--count", "3"]).ok();
    assert_eq!(pool.state(), (3, 0));
    let asks = json!({ "run.dayfly.tier": POOL });
    let c = bed.bundle().set("/annotations", asks).sh("sleep 60").make().detached();
    assert_eq!(pool.state(), (2, 1));
    c.delete_force().ok();
    replaced(bed, &pool);
    bed.bundle().make().run_with(&["--pool", "78M"]).fails("pool create 78M");
    bed.bundle().make().run_with(&["--pool", "many"]).fails("give a size");
}

/// A running `pool create --stay` replaces each group that a container has taken, and ends with the pool.
fn replaced(bed: &Bed, pool: &Pool<'_>) {
    let stays = ["cgroup", "pool", "create", POOL, "--count", "2", "--stay"];
    let stays = bed.call_bare(&stays).spawn();
    let c = bed.bundle().sh("sleep 60").make();
    c.run_with(&["--pool", POOL, "--detach"]).ok();
    c.delete_force().ok();
    wait::until_true("the pool whole", || pool.state() == (2, 0));
    cgroup(bed, &["pool", "rm", POOL]).ok();
    stays.wait().ok();
    cgroup(bed, &["pool", "create", POOL, "--count", "1"]).ok();
}

/// Each container that gets a group from the pool finds no usage, peak or event in it, and the limit is set.
fn no_accounting_leaks_between_tenants(bed: &Bed) {
    let pool = Pool::of(bed, "1");
    let limit = (77_u64 << 20).to_string();
    let files = match bed.view.has_v1() {
        true => ["memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.failcnt"],
        false => ["memory.max", "memory.peak", "memory.events"],
    };
    let mut places = Vec::new();
    for tenant in 0..3 {
        // Uses memory and CPU time, and hits the limit.
        let hungry = "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; dd if=/dev/zero of=/dev/null bs=100M count=1";
        let c = bed.bundle().sh("sleep 60").make();
        c.create_with(&["--pool", POOL]).ok();
        let path = place(&c);
        let read = |controller: &str, file: &str| {
            let path = dayfly_tests::cgroups::dir(bed.view, controller, &path).join(file);
            std::fs::read_to_string(path).expect("read").trim_end().to_owned()
        };
        // The sum of all counters; memory.events has one per line.
        let count = |file: &str| -> u64 {
            let text = read("memory", file);
            text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum()
        };
        assert_eq!(read("memory", files[0]), limit, "tenant {tenant}");
        assert_eq!(count(files[2]), 0, "tenant {tenant}");
        // The group contains only init, which has used hardly any memory.
        assert!(count(files[1]) < 8 << 20, "tenant {tenant}");
        if bed.view.has_v1() {
            let oom = read("memory", "memory.oom_control");
            assert!(oom.contains("oom_kill 0"), "tenant {tenant}: {oom}");
            let time: u64 = read("cpuacct", "cpuacct.usage").parse().expect("time");
            assert!(time < 200_000_000, "tenant {tenant}");
        }
        c.start().ok();
        let _ = c.sh(hungry);
        wait::until_true("the limit felt", || count(files[2]) != 0);
        c.delete_force().ok();
        let gone = dayfly_tests::cgroups::dir(bed.view, "memory", &path);
        assert!(!gone.exists(), "{}", gone.display());
        assert_eq!(pool.state(), (0, 0));
        cgroup(bed, &["pool", "create", POOL, "--count", "1"]).ok();
        places.push(path);
    }
    places.dedup();
    assert_eq!(places.len(), 3, "no cgroup had two tenants");
}
