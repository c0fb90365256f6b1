//! Cgroups: limits seen and felt, updates, freezing, statistics.
//!
//! v1 controllers are in the hybrid and v1 views; the v2 ones are in the guest
//! of `scripts/guest`, as this machine's cgroup2 hierarchy has next to none.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;

const V1: &[View] = &[View::V1, View::Hybrid];
const V2: &[View] = &[View::V2];

pub const CASES: &[Case] = &[
    case!(path_is_the_configs),
    case!(path_missing_takes_the_id),
    case!(gone_after_delete),
    case!(nested_cgroups_are_removed),
    case!(not_empty_is_refused).unlike_runc(),
    case!(pause_and_resume),
    case!(pause_stopped),
    case!(resume_running),
    case!(delete_paused_by_force),
    case!(kill_paused),
    case!(kill_all),
    case!(ps_lists_all_processes),
    case!(events_stats),
    case!(events_of_a_stopped_container),
    case!(events_interval).on(V1),
    case!(update_nothing),
    case!(v1_limits_are_written).on(V1),
    case!(v1_memory_limit_is_felt).on(V1),
    case!(v1_pids_limit_is_felt).on(V1),
    case!(v1_cpuset_is_felt).on(V1),
    case!(v1_cpu_quota_is_felt).on(V1),
    case!(v1_blkio_throttle).on(V1),
    case!(v1_update_flags).on(V1),
    case!(v1_update_resources).on(V1),
    case!(v1_update_is_felt_and_persists).on(V1),
    case!(v1_invalid_limit).on(V1),
    case!(v1_oom_event).on(V1),
    case!(v1_swappiness_and_oom_control).on(V1),
    case!(v1_pids_unlimited).on(V1),
    case!(v1_pids_limit_zero).on(V1).unlike_runc(),
    case!(v2_devices_by_program).on(V2),
    case!(v2_freeze_file).on(V2),
    case!(v2_unified_missing_controller).on(V2),
    case!(v2_limits_are_written).on(V2).when(all_controllers),
    case!(v2_memory_limit_is_felt).on(V2).when(all_controllers),
    case!(v2_pids_limit_is_felt).on(V2).when(all_controllers),
    case!(v2_cpuset_is_felt).on(V2).when(all_controllers),
    case!(v2_cpu_quota_is_felt).on(V2).when(all_controllers),
    case!(v2_io_max).on(V2).when(all_controllers),
    case!(v2_unified_map).on(V2).when(all_controllers),
    case!(v2_update).on(V2).when(all_controllers),
    case!(v2_oom_event).on(V2).when(all_controllers),
    case!(v2_stats).on(V2).when(all_controllers),
];

/// Whether the view's cgroup2 has the controllers that containers want.
fn all_controllers() -> bool {
    let have = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    ["cpuset", "cpu", "io", "memory", "pids"]
        .iter()
        .all(|name| have.split_whitespace().any(|one| one == *name))
}

fn limited(bed: &Bed, resources: Value) -> Bundle<'_> {
    let mut bundle = bed.bundle();
    for (key, value) in resources.as_object().expect("resources") {
        bundle = bundle.set(&format!("/linux/resources/{key}"), value.clone());
    }
    bundle
}

/// The controller whose directory stands for the container in this view.
fn any_controller(bed: &Bed) -> &'static str {
    if bed.view.has_v1() { "memory" } else { "" }
}

fn path_is_the_configs(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let text = fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("cgroup");
    let wanted = cgroups::path_of(&c.id);
    for line in text.lines() {
        let (hierarchy, path) =
            line.split_once(':').and_then(|(_, rest)| rest.split_once(':')).expect("line");
        let unified = hierarchy.is_empty();
        // Where v1 holds the controllers, the hierarchies beside it are optional.
        if unified != bed.view.has_v1() {
            assert_eq!(path, wanted, "{text}");
        }
    }
}

fn path_missing_takes_the_id(bed: &Bed) {
    let c = bed.bundle().set("/linux/cgroupsPath", json!("")).make().detached();
    let text = fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("cgroup");
    assert!(text.lines().any(|line| line.ends_with(&format!("/{}", c.id))), "{text}");
    c.delete_force().ok();
}

fn gone_after_delete(bed: &Bed) {
    let c = bed.bundle().make().detached();
    assert!(c.cgroup_file(any_controller(bed), "cgroup.procs").exists());
    c.delete_force().ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(
            !hierarchy.join(format!("dayfly-test/{}", c.id)).exists(),
            "{}",
            hierarchy.display()
        );
    }
}

fn nested_cgroups_are_removed(bed: &Bed) {
    let c = bed.bundle().make().detached();
    fs::create_dir_all(c.cgroup_file(any_controller(bed), "one/two")).expect("make nested");
    fs::create_dir(c.cgroup_file(any_controller(bed), "three")).expect("make nested");
    c.delete_force().ok();
    assert!(!c.cgroup_file(any_controller(bed), "cgroup.procs").exists());
}

fn not_empty_is_refused(bed: &Bed) {
    // A cgroup that has a process in it is somebody else's; runc only warns.
    let first = bed.bundle().make().detached();
    let second = bed.bundle().set("/linux/cgroupsPath", json!(cgroups::path_of(&first.id))).make();
    second.create().fails("cgroup is not empty");
    assert_eq!(first.status(), "running");
}

/// A container that counts into a file as long as it is let.
fn counting(bed: &Bed) -> Container<'_> {
    let bundle = bed.bundle().sh("i=0; while :; do i=$((i+1)); echo $i >/count; usleep 1000; done");
    let c = bundle.make().detached();
    wait::until_true("the container to count", || c.bundle.join("rootfs/count").exists());
    c
}

fn count(c: &Container<'_>) -> String {
    fs::read_to_string(c.bundle.join("rootfs/count")).unwrap_or_default()
}

fn pause_and_resume(bed: &Bed) {
    let c = counting(bed);
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.status(), "paused");
    let before = count(&c);
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(count(&c), before, "nothing runs while paused");
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.status(), "running");
    wait::until_true("the count to go on", || count(&c) != before);
}

fn pause_stopped(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.id_call("pause", &[], &[]).run().fails("container not running");
    c.id_call("resume", &[], &[]).run().fails("container not paused");
}

fn resume_running(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("resume", &[], &[]).run().fails("container not paused");
}

fn delete_paused_by_force(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    c.delete().fails("that is not stopped: paused");
    c.delete_force().ok();
    assert!(!c.exists());
}

fn kill_paused(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    c.kill("KILL").ok();
    // In v1 the signal waits for the thaw, which the runtime sees to.
    if !bed.view.has_v1() {
        c.wait_status("stopped");
    }
}

fn kill_all(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1001 & sleep 1002 & wait").make().detached();
    c.exec_with(&["-d"], &["sleep", "1003"]).ok();
    c.id_call("kill", &["-a"], &["KILL"]).run().ok();
    c.wait_status("stopped");
    wait::until_true("every process to be gone", || {
        fs::read_to_string(c.cgroup_file(any_controller(bed), "cgroup.procs"))
            .unwrap_or_default()
            .is_empty()
    });
}

fn ps_lists_all_processes(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1001 & sleep 1002 & wait").make().detached();
    let pids = || -> Vec<i64> {
        let outcome = c.id_call("ps", &["--format", "json"], &[]).run().ok();
        serde_json::from_str(&outcome.stdout).expect("array of pids")
    };
    wait::until_true("three processes", || pids().len() == 3);
    assert!(pids().contains(&i64::from(c.pid())));
    let table = c.id_call("ps", &[], &[]).run().ok();
    let lines = table.lines();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("UID") && lines[0].contains("PID"), "{table}");
    assert!(lines[1..].iter().any(|line| line.ends_with("sleep 1002")), "{table}");
    let chosen = c.id_call("ps", &[], &["-o", "pid,comm"]).run().ok();
    assert_eq!(chosen.lines()[0].split_whitespace().collect::<Vec<_>>(), ["PID", "COMMAND"]);
}

fn stats(c: &Container<'_>) -> Value {
    let outcome = c.id_call("events", &["--stats"], &[]).run().ok();
    serde_json::from_str(&outcome.stdout).expect("one JSON object")
}

fn events_stats(bed: &Bed) {
    let c = counting(bed);
    let event = stats(&c);
    assert_eq!(event["type"], "stats");
    assert_eq!(event["id"], c.id.as_str());
    assert!(
        event["data"]["cpu"]["usage"]["total"].as_u64().is_some_and(|total| total > 0),
        "{event}"
    );
    for key in ["cpu", "memory", "pids", "blkio", "hugetlb"] {
        assert!(event["data"][key].is_object(), "{key}: {event}");
    }
    if bed.view.has_v1() {
        assert!(
            event["data"]["memory"]["usage"]["usage"].as_u64().is_some_and(|usage| usage > 0),
            "{event}"
        );
        assert!(
            event["data"]["pids"]["current"].as_u64().is_some_and(|count| count >= 1),
            "{event}"
        );
        assert!(event["data"]["memory"]["raw"]["total_rss"].is_u64(), "{event}");
    }
}

fn events_of_a_stopped_container(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.id_call("events", &["--stats"], &[])
        .run()
        .fails(&format!("container with id {} is not running", c.id));
}

fn events_interval(bed: &Bed) {
    let c = counting(bed);
    let running = c.id_call("events", &["--interval", "50ms"], &[]).spawn();
    wait::until_true("three reports", || running.stdout().lines().count() >= 3);
    for line in running.stdout().lines().take(3) {
        assert_eq!(serde_json::from_str::<Value>(line).expect("JSON")["type"], "stats");
    }
    c.delete_force().ok();
    // The stream ends with the container.
    running.signal(rustix::process::Signal::TERM);
    let _ = running.wait();
    c.id_call("events", &["--interval", "0s", "--stats"], &[]).run().exits(1);
}

fn update_nothing(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("update", &["--resources", "/no/such/file"], &[])
        .run()
        .fails("no such file or directory");
    c.id_call("update", &["--memory", "lots"], &[]).run().fails("invalid value for memory");
}

fn v1_limits_are_written(bed: &Bed) {
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

/// Uses some 40 MB and says so at the end.
const HUNGRY: &str = "head -c 40000000 /dev/zero | tail -c 40000000 | wc -c";

fn v1_memory_limit_is_felt(bed: &Bed) {
    let memory = |limit: u64| {
        limited(bed, json!({ "memory": { "limit": limit, "swap": limit } })).sh(HUNGRY).make().run()
    };
    assert_eq!(memory(200_000_000).ok().stdout, "40000000\n");
    assert_ne!(memory(20_000_000).stdout, "40000000\n");
}

/// Starts 20 sleepers and counts those that could be.
const CROWD: &str = "for i in $(seq 20); do sleep 100 & done; echo reached the end";

fn v1_pids_limit_is_felt(bed: &Bed) {
    let outcome = limited(bed, json!({ "pids": { "limit": 10 } })).sh(CROWD).make().run();
    assert!(
        outcome.stderr.contains("can't fork") && !outcome.stdout.contains("reached"),
        "{outcome}"
    );
    let _ = limited(bed, json!({ "pids": { "limit": 100 } })).sh(CROWD).make().run().ok();
}

fn v1_pids_unlimited(bed: &Bed) {
    let c = limited(bed, json!({ "pids": { "limit": -1 } })).make().detached();
    assert_eq!(c.cgroup_read("pids", "pids.max"), "max");
}

fn v1_pids_limit_zero(bed: &Bed) {
    // Podman's --pids-limit=0 means no limit; runc 1.5 makes it 1.
    let c = limited(bed, json!({ "pids": { "limit": 0 } })).make().detached();
    assert_eq!(c.cgroup_read("pids", "pids.max"), "max");
}

fn v1_cpuset_is_felt(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "cpus": "1" } }))
        .sh("grep Cpus_allowed_list /proc/self/status; busybox nproc")
        .make();
    assert_eq!(c.run().ok().stdout, "Cpus_allowed_list:\t1\n1\n");
}

fn v1_cpu_quota_is_felt(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "quota": 10_000, "period": 100_000 } }))
        .sh("while :; do :; done")
        .make()
        .detached();
    wait::until_true("throttling", || {
        let stat = c.cgroup_read("cpu", "cpu.stat");
        stat.lines()
            .any(|line| line.strip_prefix("nr_throttled ").is_some_and(|count| count != "0"))
    });
}

fn v1_blkio_throttle(bed: &Bed) {
    let rule = json!([{ "major": 254, "minor": 0, "rate": 10_485_760 }]);
    let c = limited(bed, json!({ "blockIO": { "throttleReadBpsDevice": rule, "throttleWriteIOPSDevice": [{ "major": 254, "minor": 0, "rate": 500 }] } }))
        .make()
        .detached();
    assert_eq!(c.cgroup_read("blkio", "blkio.throttle.read_bps_device"), "254:0 10485760");
    assert_eq!(c.cgroup_read("blkio", "blkio.throttle.write_iops_device"), "254:0 500");
}

fn v1_update_flags(bed: &Bed) {
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
    // What is not named stays as it is.
    c.id_call("update", &["--pids-limit", "30"], &[]).run().ok();
    assert_eq!(c.cgroup_read("cpu", "cpu.shares"), "300");
    assert_eq!(c.cgroup_read("pids", "pids.max"), "30");
}

fn v1_update_resources(bed: &Bed) {
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

fn v1_update_is_felt_and_persists(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("update", &["--memory", "20000000", "--memory-swap", "20000000"], &[]).run().ok();
    assert_ne!(c.sh(HUNGRY).stdout, "40000000\n");
    c.id_call("update", &["--memory-swap", "-1"], &[]).run().ok();
    c.id_call("update", &["--memory", "200000000"], &[]).run().ok();
    assert_eq!(c.sh(HUNGRY).ok().stdout, "40000000\n");
}

fn v1_invalid_limit(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "cpus": "99" } })).make();
    c.create().fails("cpuset.cpus");
    assert!(!c.exists());
}

fn v1_oom_event(bed: &Bed) {
    let c = limited(bed, json!({ "memory": { "limit": 20_000_000, "swap": 20_000_000 } }))
        .make()
        .detached();
    let running = c.id_call("events", &["--interval", "30s"], &[]).spawn();
    std::thread::sleep(std::time::Duration::from_millis(100));
    c.sh(HUNGRY);
    wait::until_true("an oom event", || running.stdout().contains("\"type\":\"oom\""));
    c.delete_force().ok();
    running.signal(rustix::process::Signal::TERM);
    let _ = running.wait();
}

fn v1_swappiness_and_oom_control(bed: &Bed) {
    let c = limited(
        bed,
        json!({ "memory": { "limit": 50_000_000, "swappiness": 10, "disableOOMKiller": true } }),
    )
    .make()
    .detached();
    assert_eq!(c.cgroup_read("memory", "memory.swappiness"), "10");
    assert!(c.cgroup_read("memory", "memory.oom_control").starts_with("oom_kill_disable 1"));
}

fn v2_devices_by_program(bed: &Bed) {
    let caps = ["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"];
    let c = limited(bed, json!({ "devices": [{ "allow": false, "access": "rwm" }] }))
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .make()
        .detached();
    // /dev/null is allowed, the kernel log is not, in init and in exec.
    c.sh("echo x >/dev/null && head -c 1 /dev/zero >/dev/null").ok();
    let refused = c.sh("mknod /tmp/kmsg c 1 11 && head -c 1 /tmp/kmsg").exits(1);
    assert!(refused.stderr.contains("Operation not permitted"), "{refused}");
}

fn v2_freeze_file(bed: &Bed) {
    let c = bed.bundle().make().detached();
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.cgroup_read("", "cgroup.freeze"), "1");
    assert!(c.cgroup_read("", "cgroup.events").contains("frozen 1"));
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.cgroup_read("", "cgroup.freeze"), "0");
}

fn v2_unified_missing_controller(bed: &Bed) {
    let c = limited(bed, json!({ "unified": { "nosuch.max": "1" } })).make();
    assert_eq!(c.create().code(), 1);
    assert!(!c.exists());
}

fn v2_limits_are_written(bed: &Bed) {
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

fn v2_memory_limit_is_felt(bed: &Bed) {
    let memory = |limit: u64| {
        limited(bed, json!({ "memory": { "limit": limit, "swap": limit } })).sh(HUNGRY).make().run()
    };
    assert_eq!(memory(200_000_000).ok().stdout, "40000000\n");
    assert_ne!(memory(20_000_000).stdout, "40000000\n");
}

fn v2_pids_limit_is_felt(bed: &Bed) {
    let outcome = limited(bed, json!({ "pids": { "limit": 10 } })).sh(CROWD).make().run();
    assert!(
        outcome.stderr.contains("can't fork") && !outcome.stdout.contains("reached"),
        "{outcome}"
    );
}

fn v2_cpuset_is_felt(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "cpus": "1" } }))
        .sh("grep Cpus_allowed_list /proc/self/status")
        .make();
    assert_eq!(c.run().ok().stdout, "Cpus_allowed_list:\t1\n");
}

fn v2_cpu_quota_is_felt(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "quota": 10_000, "period": 100_000 } }))
        .sh("while :; do :; done")
        .make()
        .detached();
    wait::until_true("throttling", || {
        let stat = c.cgroup_read("", "cpu.stat");
        stat.lines()
            .any(|line| line.strip_prefix("nr_throttled ").is_some_and(|count| count != "0"))
    });
}

fn v2_io_max(bed: &Bed) {
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

fn v2_unified_map(bed: &Bed) {
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

fn v2_update(bed: &Bed) {
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

fn v2_oom_event(bed: &Bed) {
    let c = limited(bed, json!({ "memory": { "limit": 20_000_000, "swap": 20_000_000 } }))
        .make()
        .detached();
    let running = c.id_call("events", &["--interval", "30s"], &[]).spawn();
    std::thread::sleep(std::time::Duration::from_millis(500));
    c.sh(HUNGRY);
    wait::until_true("an oom event", || running.stdout().contains("\"type\":\"oom\""));
    c.delete_force().ok();
    running.signal(rustix::process::Signal::TERM);
    let _ = running.wait();
}

fn v2_stats(bed: &Bed) {
    let event = stats(&counting(bed));
    assert!(
        event["data"]["memory"]["usage"]["usage"].as_u64().is_some_and(|usage| usage > 0),
        "{event}"
    );
    assert!(event["data"]["pids"]["current"].as_u64().is_some_and(|count| count >= 1), "{event}");
    assert!(event["data"]["memory"]["raw"]["anon"].is_u64(), "{event}");
}
