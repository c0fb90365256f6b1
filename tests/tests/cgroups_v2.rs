//! Limits of cgroup v2. This machine's hierarchy has hardly any controllers: most of these cases run in the guest
//! (`scripts/guest`).

use crate::cgroups::{
    HUNGRY, changes_in_memory_are_charged, counting, cpu_quota_is_felt, cpuset_is_felt, limited,
    pids_limit_is_felt, stats,
};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::{case, cgroups, wait};
use serde_json::json;
use std::fs;

const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(devices_by_program).on(V2),
    case!(freeze_file).on(V2),
    case!(unified_missing_controller).on(V2),
    case!(unified_takes_no_processes).on(V2).unlike_runc(),
    case!(hands_controllers_down).on(V2).when(hugetlb).unlike_runc(),
    case!(limits_are_written).on(V2).when(all_controllers),
    case!(memory_limit_is_felt).on(V2).when(all_controllers),
    case!(changes_in_memory_are_charged).on(V2).when(all_controllers).unlike_runc(),
    case!(pids_limit_is_felt).on(V2).when(all_controllers),
    case!(cpuset_is_felt).on(V2).when(all_controllers),
    case!(cpu_quota_is_felt).on(V2).when(all_controllers),
    case!(io_max).on(V2).when(all_controllers),
    case!(unified_map).on(V2).when(all_controllers),
    case!(update).on(V2).when(all_controllers),
    case!(update_of_memory_keeps_the_sum_with_swap).on(V2).when(all_controllers),
    case!(update_from_json).on(V2).when(all_controllers),
    case!(rdma_names_the_device).on(V2).when(all_controllers),
    case!(oom_event).on(V2).when(all_controllers),
    case!(statistics).on(V2).when(all_controllers),
];

/// Returns whether the view's cgroup v2 has the controllers that containers need.
fn all_controllers() -> bool {
    let have = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    ["cpuset", "cpu", "io", "memory", "pids"]
        .iter()
        .all(|name| have.split_whitespace().any(|one| one == *name))
}

fn devices_by_program(bed: &Bed) {
    let caps = ["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"];
    let c = limited(bed, json!({ "devices": [{ "allow": false, "access": "rwm" }] }))
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .make()
        .detached();
    // /dev/null is allowed and the kernel log is denied, for init and for exec.
    c.sh("echo x >/dev/null && head -c 1 /dev/zero >/dev/null").ok();
    let refused = c.sh("mknod /tmp/kmsg c 1 11 && head -c 1 /tmp/kmsg").exits(1);
    assert!(refused.stderr.contains("Operation not permitted"), "{refused}");
}

fn freeze_file(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.cgroup_read("", "cgroup.freeze"), "1");
    assert!(c.cgroup_read("", "cgroup.events").contains("frozen 1"));
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.cgroup_read("", "cgroup.freeze"), "0");
}

fn hugetlb() -> bool {
    let have = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    have.split_whitespace().any(|one| one == "hugetlb")
}

/// A cgroup that delegates controllers can't have processes: the error names the cgroup.
fn hands_controllers_down(bed: &Bed) {
    let c = bed.bundle().unset("/linux/resources").make();
    let directory = cgroups::dir(bed.view, "", &cgroups::path_of(&c.id));
    let give = || {
        fs::create_dir_all(&directory).expect("make");
        let above = directory.parent().expect("parent").join("cgroup.subtree_control");
        fs::write(above, "+hugetlb").expect("hand down");
        fs::write(directory.join("cgroup.subtree_control"), "+hugetlb").expect("hand down");
    };
    for way in ["", "clone-into-cgroup"] {
        give();
        let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", way);
        let outcome = call.run().fails("device or resource busy");
        let path = directory.to_str().expect("path");
        let told = outcome.stderr.contains(path) && outcome.stderr.contains("subtree_control");
        assert!(told || !way.is_empty(), "{outcome}");
        let _ = fs::remove_dir(&directory);
    }
}

fn unified_missing_controller(bed: &Bed) {
    let c = limited(bed, json!({ "unified": { "nosuch.max": "1" } })).make();
    assert_eq!(c.create().code(), 1);
    assert!(!c.exists());
}

fn limits_are_written(bed: &Bed) {
    let c = limited(
        bed,
        json!({
            "memory": { "limit": 33_554_432, "reservation": 16_777_216, "swap": 67_108_864 },
            "pids": { "limit": 50 },
            "cpu": { "shares": 1024, "quota": 30_000, "period": 60_000, "cpus": "0", "mems": "0" },
        }),
    )
    .make()
    .detached();
    assert_eq!(c.cgroup_read("", "memory.max"), "33554432");
    assert_eq!(c.cgroup_read("", "memory.low"), "16777216");
    assert_eq!(c.cgroup_read("", "memory.swap.max"), "33554432");
    assert_eq!(c.cgroup_read("", "pids.max"), "50");
    assert_eq!(c.cgroup_read("", "cpu.max"), "30000 60000");
    assert_eq!(c.cgroup_read("", "cpuset.cpus"), "0");
    assert_eq!(c.cgroup_read("", "cpuset.mems"), "0");
    assert_eq!(c.cgroup_read("", "cpu.weight"), "100");
}

fn memory_limit_is_felt(bed: &Bed) {
    let memory = |limit: u64| {
        limited(bed, json!({ "memory": { "limit": limit, "swap": limit } })).sh(HUNGRY).make().run()
    };
    assert_eq!(memory(200_000_000).ok().stdout, "40000000\n");
    assert_ne!(memory(20_000_000).stdout, "40000000\n");
}

fn io_max(bed: &Bed) {
    let Some(device) =
        fs::read_dir("/sys/block").ok().and_then(|mut dirs| dirs.next()).and_then(Result::ok)
    else {
        // A guest without disks has nothing to throttle.
        return;
    };
    let numbers = fs::read_to_string(device.path().join("dev")).expect("numbers");
    let (major, minor) = numbers.trim().split_once(':').expect("major:minor");
    let number = |text: &str| text.parse::<i64>().expect("number");
    let rule = json!([{ "major": number(major), "minor": number(minor), "rate": 10_485_760 }]);
    let c = limited(bed, json!({ "blockIO": { "throttleReadBpsDevice": rule } })).make().detached();
    assert!(c.cgroup_read("", "io.max").contains("rbps=10485760"));
}

fn unified_map(bed: &Bed) {
    let c = limited(
        bed,
        json!({ "unified": { "memory.high": "30000000", "pids.max": "33", "cpu.weight": "77" } }),
    )
    .make()
    .detached();
    assert_eq!(c.cgroup_read("", "memory.high"), (30_000_000 / 4096 * 4096).to_string());
    assert_eq!(c.cgroup_read("", "pids.max"), "33");
    assert_eq!(c.cgroup_read("", "cpu.weight"), "77");
}

fn update(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let flags = [
        "--memory",
        "67108864",
        "--pids-limit",
        "20",
        "--cpu-quota",
        "20000",
        "--cpu-period",
        "50000",
        "--cpuset-cpus",
        "0",
    ];
    c.id_call("update", &flags, &[]).run().ok();
    assert_eq!(c.cgroup_read("", "memory.max"), "67108864");
    assert_eq!(c.cgroup_read("", "pids.max"), "20");
    assert_eq!(c.cgroup_read("", "cpu.max"), "20000 50000");
    assert_eq!(c.cgroup_read("", "cpuset.cpus"), "0");
}

/// cgroup v2 limits swap separately, while a configuration limits the sum of memory and swap. An update of the memory
/// limit must not change that sum.
fn update_of_memory_keeps_the_sum_with_swap(bed: &Bed) {
    let memory = json!({ "memory": { "limit": 33_554_432, "swap": 67_108_864 } });
    let c = limited(bed, memory).make().detached();
    let update = |flags: &[&str]| c.id_call("update", flags, &[]).run();
    let read = || ["memory.max", "memory.swap.max"].map(|file| c.cgroup_read("", file));
    update(&["--memory", "50331648"]).ok();
    assert_eq!(read(), ["50331648", "16777216"]);
    update(&["--memory", "100m"]).fails("memory+swap limit should be >= memory limit");
    update(&["--memory", "100m", "--memory-swap", "120m"]).ok();
    update(&["--memory", "110m"]).ok();
    assert_eq!(read(), ["115343360", "10485760"]);
    update(&["--memory", "-1"]).ok();
    assert_eq!(read(), ["max", "max"]);
    // If the container's `memory.swap.max` is 0, swap stays disabled.
    let c = limited(bed, json!({ "unified": { "memory.swap.max": "0" } })).make().detached();
    c.id_call("update", &["--memory", "64m"], &[]).run().ok();
    assert_eq!(c.cgroup_read("", "memory.swap.max"), "0");
}

fn update_from_json(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let update = |resources: serde_json::Value| {
        let file = bed.dir.join("resources");
        fs::write(&file, resources.to_string()).expect("write");
        let stdin = fs::File::open(&file).expect("open");
        c.id_call("update", &["-r", "-"], &[]).stdin(stdin).run()
    };
    update(json!({
        "memory": { "limit": 67_108_864, "reservation": 33_554_432, "kernel": 1, "kernelTCP": 1 },
        "cpu": { "shares": 512, "quota": 20_000, "period": 50_000, "burst": 10_000,
                 "cpus": "0", "mems": "0", "realtimePeriod": 1, "realtimeRuntime": 1 },
        "pids": { "limit": 30 },
        "unified": { "memory.high": "50331648" },
        "blockIO": { "weight": 0 },
    }))
    .ok();
    let read = |file: &str| c.cgroup_read("", file);
    for (file, value) in [
        ("memory.max", "67108864"),
        ("memory.low", "33554432"),
        ("memory.high", "50331648"),
        ("cpu.max", "20000 50000"),
        ("cpu.max.burst", "10000"),
        ("cpu.weight", "59"),
        ("cpuset.cpus", "0"),
        ("cpuset.mems", "0"),
        ("pids.max", "30"),
    ] {
        assert_eq!(read(file), value, "{file}");
    }
    // A quota without a period leaves the period unchanged.
    update(json!({ "cpu": { "quota": 25_000 } })).ok();
    assert_eq!(read("cpu.max"), "25000 50000");
    update(json!({ "cpu": { "period": 60_000 } })).ok();
    assert_eq!(read("cpu.max"), "25000 60000");
    update(json!({ "cpu": { "idle": 1 } })).ok();
    assert_eq!(read("cpu.idle"), "1");
    let below = json!({ "memory": { "limit": 4096, "checkBeforeUpdate": true } });
    update(below).fails("rejecting memory limit 4096 <= usage");
    assert_eq!(update(json!("no object")).code(), 1);
}

fn rdma_names_the_device(bed: &Bed) {
    let rdma = json!({ "rdma": { "nosuch0": { "hcaHandles": 3, "hcaObjects": 10_000 } } });
    let c = limited(bed, rdma).make();
    c.create().fails("rdma.max");
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

fn statistics(bed: &Bed) {
    let event = stats(&counting(bed));
    assert!(
        event["data"]["memory"]["usage"]["usage"].as_u64().is_some_and(|usage| usage > 0),
        "{event}"
    );
    assert!(event["data"]["pids"]["current"].as_u64().is_some_and(|count| count >= 1), "{event}");
    assert!(event["data"]["memory"]["raw"]["anon"].is_u64(), "{event}");
}

/// A write to `cgroup.procs` through `unified` would move a process of the host into the container, where it would be
/// killed together with the container.
fn unified_takes_no_processes(bed: &Bed) {
    let mut victim = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = victim.id().to_string();
    for (name, value) in [("cgroup.procs", &*pid), ("cgroup.threads", &*pid), ("cgroup.kill", "1")]
    {
        let c = limited(bed, json!({ "unified": { name: value } })).make();
        c.run().fails("is not a limit: it acts on processes");
        c.delete_force();
    }
    assert!(victim.try_wait().expect("wait").is_none(), "it lives on");
    victim.kill().expect("kill");
    victim.wait().expect("wait");
}
