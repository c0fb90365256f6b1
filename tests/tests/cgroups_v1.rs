//! Limits of v1 controllers: the written values, their effect, and updates.

use crate::cgroups::{
    HUNGRY, changes_in_memory_are_charged, cpu_quota_is_felt, cpuset_is_felt, limited,
    pids_limit_is_felt,
};
use dayfly_tests::bed::Bed;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::view::View;
use dayfly_tests::{case, cgroups, wait};
use host::follow::{Event, call_name, memory};
use serde_json::json;
use std::fs;
use std::io::Write;

const V1: &[View] = &[View::V1, View::Hybrid];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(limits_are_written).on(V1),
    case!(memory_limit_is_felt).on(V1),
    case!(changes_in_memory_are_charged).on(V1).unlike_runc(),
    case!(pids_limit_is_felt).on(V1),
    case!(cpuset_is_felt).on(V1),
    case!(cpu_quota_is_felt).on(V1),
    case!(blkio_throttle).on(V1),
    case!(update_flags).on(V1),
    case!(update_resources).on(V1),
    case!(update_is_felt_and_persists).on(V1),
    case!(invalid_limit).on(V1),
    case!(oom_event).on(V1),
    case!(swappiness_and_oom_control).on(V1),
    case!(exec_takes_the_last_pid).on(V1),
    case!(pod_member_takes_the_only_pid).on(V1),
    case!(exec_at_the_memory_limit).on(V1).unlike_runc(),
    case!(exec_shares_no_limited_memory).on(V1).when(uses_every_fast_path).unlike_runc(),
    case!(pids_unlimited).on(V1),
    case!(pids_limit_zero).on(V1),
    case!(frozen_below).on(V1).unlike_runc(),
];

fn limits_are_written(bed: &Bed) {
    let c = limited(
        bed,
        json!({
            "memory": { "limit": 33_554_432, "reservation": 16_777_216, "swap": 67_108_864 },
            "pids": { "limit": 50 },
            "cpu": { "shares": 512, "quota": 30_000, "period": 60_000, "cpus": "0", "mems": "0" },
        }),
    )
    .make()
    .detached();
    let expected = [
        ("memory", "memory.limit_in_bytes", "33554432"),
        ("memory", "memory.soft_limit_in_bytes", "16777216"),
        ("memory", "memory.memsw.limit_in_bytes", "67108864"),
        ("pids", "pids.max", "50"),
        ("cpu", "cpu.shares", "512"),
        ("cpu", "cpu.cfs_quota_us", "30000"),
        ("cpu", "cpu.cfs_period_us", "60000"),
        ("cpuset", "cpuset.cpus", "0"),
        ("cpuset", "cpuset.mems", "0"),
    ];
    for (controller, file, value) in expected {
        assert_eq!(c.cgroup_read(controller, file), value, "{file}");
    }
}

fn memory_limit_is_felt(bed: &Bed) {
    let memory = |limit: u64| {
        limited(bed, json!({ "memory": { "limit": limit, "swap": limit } })).sh(HUNGRY).make().run()
    };
    assert_eq!(memory(200_000_000).ok().stdout, "40000000\n");
    assert_ne!(memory(20_000_000).stdout, "40000000\n");
}

/// For a moment, the cgroup contains both the process that exec adds and the intermediate process that makes it.
fn exec_takes_the_last_pid(bed: &Bed) {
    let c = limited(bed, json!({ "pids": { "limit": 2 } })).make().detached();
    let outcome = c.exec(&["cat", "/proc/self/cgroup"]).ok();
    assert!(outcome.lines().iter().any(|line| line.ends_with(":pids:/")), "{outcome}");
}

/// The container joins a PID namespace, so an intermediate process makes its init; for a moment both are in the cgroup.
/// The container's cgroup namespace must start at the container's cgroup nevertheless.
fn pod_member_takes_the_only_pid(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let pid = format!("/proc/{}/ns/pid", first.pid());
    let c = limited(bed, json!({ "pids": { "limit": 1 } }))
        .join_namespace("pid", &pid)
        .args(&["/bin/cat", "/proc/self/cgroup"])
        .make();
    let outcome = c.run().ok();
    assert!(outcome.lines().iter().any(|line| line.ends_with(":pids:/")), "{outcome}");
    c.assert_gone("run");
    let c = limited(bed, json!({ "pids": { "limit": 1 } }))
        .join_namespace("pid", &pid)
        .make()
        .detached();
    let procs = fs::read_to_string(c.cgroup_file("pids", "cgroup.procs")).expect("processes");
    assert_eq!(procs.trim(), c.pid().to_string());
}

/// The OOM killer also kills every process that shares memory with its victim. The command must not be among them. The
/// limit is reached by file pages that can't be reclaimed and that the death of a process does not free.
fn exec_at_the_memory_limit(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let limit = c.cgroup_file("memory", "memory.limit_in_bytes");
    let usage =
        || -> u64 { c.cgroup_read("memory", "memory.usage_in_bytes").parse().expect("bytes") };
    // Sets the limit as low as the kernel accepts.
    let mut low = usage();
    while low > 4096 && fs::write(&limit, low.to_string()).is_ok() {
        low -= 65_536;
    }
    for number in 0..20 {
        let outcome = c.exec(&["/bin/true"]);
        assert!(!outcome.died_of_signal(), "{number}: {outcome}");
        // Status 137: the OOM killer chose the program itself.
        let is_told = [0, 137].contains(&outcome.code()) || !outcome.stderr.is_empty();
        assert!(is_told, "{number}: {outcome}");
        if c.status() != "running" {
            return;
        }
    }
}

/// An intermediate process shares the command's memory only if neither the container's cgroup nor one above it has a
/// memory limit.
fn exec_shares_no_limited_memory(bed: &Bed) {
    let id = bed.id();
    let pod = cgroups::path_of(&format!("{id}-pod"));
    let path = json!(format!("{pod}/{id}"));
    let c = bed.bundle().set("/linux/cgroupsPath", path).make_as(&id).detached();
    let pod = pod.trim_start_matches('/');
    let above = cgroups::dir(bed.view, "memory", pod).join("memory.limit_in_bytes");
    let own = above.with_file_name(&id).join("memory.limit_in_bytes");
    let mut seen = vec![shares_memory(&c)];
    for limit in [own, above] {
        fs::write(&limit, "512M").expect("limit");
        seen.push(shares_memory(&c));
        fs::write(&limit, "-1").expect("limit");
    }
    c.delete_force().ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        let _ = fs::remove_dir(hierarchy.join(pod));
    }
    assert_eq!(seen, [true, false, false]);
}

/// Returns whether an exec clones with CLONE_VM.
fn shares_memory(c: &Container<'_>) -> bool {
    let mut is_shared = false;
    let outcome = c.id_call("exec", &[], &["true"]).follow(&mut |pid, event| {
        if let Event::Entered { number, args, .. } = event
            && call_name(number) == "clone3"
        {
            let mut flags = [0; 8];
            let _ = memory::read(pid, args[0], &mut flags);
            is_shared |= u64::from_ne_bytes(flags) & 0x100 != 0;
        }
    });
    let _ = outcome.ok();
    is_shared
}

fn pids_unlimited(bed: &Bed) {
    let c = limited(bed, json!({ "pids": { "limit": -1 } })).make().detached();
    assert_eq!(c.cgroup_read("pids", "pids.max"), "max");
}

fn pids_limit_zero(bed: &Bed) {
    // 0 is a valid limit since runtime-spec 1.3; runc 1.5 writes 1 for it.
    let c = limited(bed, json!({ "pids": { "limit": 0 } })).make().detached();
    assert_eq!(c.cgroup_read("pids", "pids.max"), "1");
    c.id_call("update", &["--pids-limit", "30"], &[]).run().ok();
    c.id_call("update", &["--pids-limit", "0"], &[]).run().ok();
    assert_eq!(c.cgroup_read("pids", "pids.max"), "1");
}

fn blkio_throttle(bed: &Bed) {
    let rule = json!([{ "major": 254, "minor": 0, "rate": 10_485_760 }]);
    let c = limited(bed, json!({ "blockIO": { "throttleReadBpsDevice": rule, "throttleWriteIOPSDevice": [{ "major": 254, "minor": 0, "rate": 500 }] } }))
        .make()
        .detached();
    assert_eq!(c.cgroup_read("blkio", "blkio.throttle.read_bps_device"), "254:0 10485760");
    assert_eq!(c.cgroup_read("blkio", "blkio.throttle.write_iops_device"), "254:0 500");
}

fn update_flags(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let flags = [
        "--memory",
        "64000000",
        "--memory-swap",
        "128000000",
        "--memory-reservation",
        "32000000",
        "--pids-limit",
        "20",
        "--cpu-share",
        "300",
        "--cpu-quota",
        "20000",
        "--cpu-period",
        "50000",
        "--cpuset-cpus",
        "0",
    ];
    c.id_call("update", &flags, &[]).run().ok();
    let page = |bytes: u64| (bytes / 4096 * 4096).to_string();
    assert_eq!(c.cgroup_read("memory", "memory.limit_in_bytes"), page(64_000_000));
    assert_eq!(c.cgroup_read("memory", "memory.memsw.limit_in_bytes"), page(128_000_000));
    assert_eq!(c.cgroup_read("memory", "memory.soft_limit_in_bytes"), page(32_000_000));
    assert_eq!(c.cgroup_read("pids", "pids.max"), "20");
    assert_eq!(c.cgroup_read("cpu", "cpu.shares"), "300");
    assert_eq!(c.cgroup_read("cpu", "cpu.cfs_quota_us"), "20000");
    assert_eq!(c.cgroup_read("cpu", "cpu.cfs_period_us"), "50000");
    assert_eq!(c.cgroup_read("cpuset", "cpuset.cpus"), "0");
    // Limits that are not named stay unchanged.
    c.id_call("update", &["--pids-limit", "30"], &[]).run().ok();
    assert_eq!(c.cgroup_read("cpu", "cpu.shares"), "300");
    assert_eq!(c.cgroup_read("pids", "pids.max"), "30");
}

fn update_resources(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let resources = json!({ "memory": { "limit": 67_108_864 }, "cpu": { "shares": 200 }, "pids": { "limit": 40 } });
    let path = bed.dir.join("resources.json");
    fs::write(&path, resources.to_string()).expect("write");
    c.id_call("update", &["--resources", path.to_str().expect("path")], &[]).run().ok();
    assert_eq!(c.cgroup_read("memory", "memory.limit_in_bytes"), "67108864");
    assert_eq!(c.cgroup_read("cpu", "cpu.shares"), "200");

    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("pipe");
    let running = c.id_call("update", &["-r", "-"], &[]).stdin(fs::File::from(read)).spawn();
    fs::File::from(write).write_all(br#"{"cpu":{"shares":250}}"#).expect("write");
    running.wait().ok();
    assert_eq!(c.cgroup_read("cpu", "cpu.shares"), "250");
}

fn update_is_felt_and_persists(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("update", &["--memory", "20000000", "--memory-swap", "20000000"], &[]).run().ok();
    assert_ne!(c.sh(HUNGRY).stdout, "40000000\n");
    c.id_call("update", &["--memory-swap", "-1"], &[]).run().ok();
    c.id_call("update", &["--memory", "200000000"], &[]).run().ok();
    assert_eq!(c.sh(HUNGRY).ok().stdout, "40000000\n");
}

fn invalid_limit(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "cpus": "99" } })).make();
    c.create().fails("cpuset.cpus");
    assert!(!c.exists());
}

fn oom_event(bed: &Bed) {
    let c = limited(bed, json!({ "memory": { "limit": 20_000_000, "swap": 20_000_000 } }))
        .make()
        .detached();
    let running = c.id_call("events", &["--interval", "30s"], &[]).spawn();
    running.until_it_waits();
    c.sh(HUNGRY);
    wait::until_true("an oom event", || running.stdout().contains("\"type\":\"oom\""));
    c.delete_force().ok();
    running.signal(rustix::process::Signal::TERM);
    let _ = running.wait();
}

fn swappiness_and_oom_control(bed: &Bed) {
    let c = limited(
        bed,
        json!({ "memory": { "limit": 50_000_000, "swappiness": 10, "disableOOMKiller": true } }),
    )
    .make()
    .detached();
    assert_eq!(c.cgroup_read("memory", "memory.swappiness"), "10");
    assert!(c.cgroup_read("memory", "memory.oom_control").starts_with("oom_kill_disable 1"));
}

/// A container with write access to its freezer has frozen itself in a child cgroup: on v1, frozen processes don't die
/// of SIGKILL.
fn frozen_below(bed: &Bed) {
    for init_too in [true, false] {
        let c = bed.bundle().make().detached();
        c.exec_with(&["--detach"], &["sleep", "1000"]).ok();
        let own = cgroups::dir(bed.view, "freezer", &cgroups::path_of(&c.id));
        let below = own.join("below/it");
        fs::create_dir_all(&below).expect("make");
        let init = c.pid().to_string();
        let processes = fs::read_to_string(own.join("cgroup.procs")).expect("processes");
        assert_eq!(processes.lines().count(), 2);
        for pid in processes.lines().filter(|pid| init_too || *pid != init) {
            fs::write(below.join("cgroup.procs"), pid).expect("move");
        }
        fs::write(below.join("freezer.state"), "FROZEN").expect("freeze");
        c.delete_force().ok();
        c.assert_gone("frozen below");
    }
}
