//! Cgroups in every view: paths, freezing, killing, processes, statistics. Limits are tested in `cgroups_v1` and
//! `cgroups_v2`.

use crate::rootfs::call;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::{case, cgroups, wait};
use serde_json::{Value, json};
use std::fs;

const V1: &[View] = &[View::V1, View::Hybrid];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(keys_in_another_case).unlike_runc(),
    case!(path_is_the_configs),
    case!(path_missing_takes_the_id),
    case!(gone_after_delete),
    case!(nested_cgroups_are_removed),
    case!(not_empty_is_refused).unlike_runc(),
    case!(pause_and_resume),
    case!(pause_created),
    case!(pause_stopped),
    case!(ps_of_a_stopped_container),
    case!(resume_running),
    case!(delete_paused_by_force),
    case!(kill_paused),
    case!(kill_all),
    case!(kill_all_signals_init_alone),
    case!(update_leaves_devices_alone),
    case!(huge_pages).when(has_huge_pages),
    case!(ps_lists_all_processes),
    case!(events_stats),
    case!(events_of_a_stopped_container),
    case!(events_interval).on(V1),
    case!(update_nothing),
];

/// Returns a bundle with `resources` added.
pub fn limited(bed: &Bed, resources: Value) -> Bundle<'_> {
    let mut bundle = bed.bundle();
    for (key, value) in resources.as_object().expect("resources") {
        bundle = bundle.set(&format!("/linux/resources/{key}"), value.clone());
    }
    bundle
}

pub fn pids_limit_is_felt(bed: &Bed) {
    let outcome = limited(bed, json!({ "pids": { "limit": 10 } })).sh(CROWD).make().run();
    assert!(
        outcome.stderr.contains("can't fork") && !outcome.stdout.contains("reached"),
        "{outcome}"
    );
    let _ = limited(bed, json!({ "pids": { "limit": 100 } })).sh(CROWD).make().run().ok();
}

pub fn cpuset_is_felt(bed: &Bed) {
    let c = limited(bed, json!({ "cpu": { "cpus": "1" } }))
        .sh("grep Cpus_allowed_list /proc/self/status; busybox nproc")
        .make();
    assert_eq!(c.run().ok().stdout, "Cpus_allowed_list:\t1\n1\n");
}

pub fn cpu_quota_is_felt(bed: &Bed) {
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

/// The tmpfs of `--ephemeral` counts as the container's memory: what lies above the limit can't be used.
pub fn changes_in_memory_are_charged(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let write = |size: &str| {
        let limit = 40_000_000;
        let c = limited(bed, json!({ "memory": { "limit": limit, "swap": limit } }))
            .sh("dd if=/dev/zero of=/big bs=1M count=64 2>&1; wc -c </big")
            .make();
        call(&c, "run", &layers, &["--ephemeral", "--ephemeral-size", size]).run()
    };
    let full = write("20m").ok().stdout;
    assert!(full.contains("No space left on device") && full.ends_with("\n20971520\n"), "{full}");
    let killed = write("100m").stdout;
    assert!(!killed.contains("No space left on device"), "{killed}");
    assert!(!killed.ends_with("\n67108864\n"), "{killed}");
}

/// Returns the name of a hierarchy in which the container has a cgroup in this view: `memory`, or empty for cgroup v2.
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
        // If v1 has the controllers, the container need not have a cgroup in the v2 hierarchy.
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
    // A cgroup that contains a process belongs to another container; runc only warns.
    let first = bed.bundle().make().detached();
    let second = bed.bundle().set("/linux/cgroupsPath", json!(cgroups::path_of(&first.id))).make();
    second.create().fails("cgroup is not empty");
    assert_eq!(first.status(), "running");
}

/// Starts a container whose program increments a number in a file as long as it is not frozen.
pub fn counting(bed: &Bed) -> Container<'_> {
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
    c.id_call("pause", &[], &[]).run().fails("container not running");
    c.start().fails("cannot start a container in the paused state");
    let before = count(&c);
    // This is much longer than the program takes to count by one.
    std::thread::sleep(std::time::Duration::from_millis(60));
    assert_eq!(count(&c), before, "nothing runs while paused");
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.status(), "running");
    wait::until_true("the count to go on", || count(&c) != before);
}

/// The frozen init of a created container accepts no connections, so commands must not wait for it.
fn pause_created(bed: &Bed) {
    let c = bed.bundle().sh("touch /ran").make();
    c.create().ok();
    c.id_call("pause", &[], &[]).run().ok();
    for _ in 0..12 {
        assert_eq!(c.status(), "paused");
    }
    c.start().fails("cannot start a container in the paused state");
    c.exec(&["true"]).fails_as(255, "cannot exec in a paused container");
    c.delete().fails("that is not stopped: paused");
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.status(), "created");
    assert!(!c.bundle.join("rootfs/ran").exists(), "a start that was refused starts nothing later");
    c.start().ok();
    c.wait_status("stopped");
    assert!(c.bundle.join("rootfs/ran").exists());
}

fn pause_stopped(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.id_call("pause", &[], &[]).run().fails("container not running");
    c.id_call("resume", &[], &[]).run().fails("container not paused");
    assert_eq!(c.id_call("ps", &["--format", "json"], &[]).run().ok().stdout, "null\n");
}

fn ps_of_a_stopped_container(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    let table = c.id_call("ps", &[], &[]).run().ok();
    let lines = table.lines();
    assert!(lines.len() == 1 && lines[0].starts_with("UID") && lines[0].contains("PID"), "{table}");
    let wrong = c.id_call("ps", &[], &["--no-such-option"]).run().exits(1);
    assert_eq!(wrong.stdout, "");
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
    // On v1 the signal is delivered after the thaw, which the runtime performs.
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

/// As with runc since 1.2: processes are signalled one by one only if the container shares the host's PID namespace.
fn kill_all_signals_init_alone(bed: &Bed) {
    let script = "trap 'echo init >>/signals' USR1; \
        sh -c 'trap \"echo child >>/signals\" USR1; trap \"echo later >>/signals\" USR2; \
            echo $$ >/pid; mv /pid /ready; while :; do sleep 0.1; done' & \
        while :; do wait; done";
    let c = bed.bundle().sh(script).make().detached();
    let file = |name: &str| c.bundle.join("rootfs").join(name);
    wait::until_true("the traps", || file("ready").exists());
    c.id_call("kill", &["-a"], &["USR1"]).run().ok();
    wait::until_true("the signal", || file("signals").exists());
    // If the child had got SIGUSR1, its trap would run before that of the later signal, which has a higher number.
    let child = fs::read_to_string(file("ready")).expect("pid");
    c.exec(&["kill", "-USR2", child.trim()]).ok();
    let signals = || fs::read_to_string(file("signals")).expect("signals");
    wait::until_true("the later signal", || signals().contains("later"));
    assert_eq!(signals(), "init\nlater\n");
}

/// containerd sends the whole of `linux.resources`, but without the device rules that every container gets in addition.
fn update_leaves_devices_alone(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let file = bed.dir.join("resources");
    let rules = json!({ "devices": [{ "allow": false, "access": "rwm" }], "pids": null });
    fs::write(&file, rules.to_string()).expect("write");
    c.id_call("update", &["-r", file.to_str().expect("path")], &[]).run().ok();
    c.sh("echo x >/dev/null && head -c 1 /dev/zero >/dev/null").ok();
}

fn has_huge_pages() -> bool {
    let size = std::path::Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists();
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let controller = unified.contains("hugetlb")
        || std::path::Path::new("/sys/fs/cgroup/hugetlb/cgroup.procs").exists();
    size && controller
}

fn huge_pages(bed: &Bed) {
    let limit = |pages: u64| json!([{ "pageSize": "2MB", "limit": pages << 21 }]);
    let c = limited(bed, json!({ "hugepageLimits": limit(3) })).make().detached();
    let files = match bed.view.has_v1() {
        true => ["hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.rsvd.limit_in_bytes"],
        false => ["hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"],
    };
    let read = || files.map(|file| c.cgroup_read("hugetlb", file));
    assert_eq!(read(), ["6291456", "6291456"]);
    assert_eq!(stats(&c)["data"]["hugetlb"]["2MB"], json!({ "failcnt": 0 }));
    let file = bed.dir.join("resources");
    fs::write(&file, json!({ "hugepageLimits": limit(1) }).to_string()).expect("write");
    c.id_call("update", &["--resources", file.to_str().expect("path")], &[]).run().ok();
    assert_eq!(read(), ["2097152", "2097152"]);
    let wrong = json!([{ "pageSize": "3MB", "limit": 0 }]);
    limited(bed, json!({ "hugepageLimits": wrong })).make().create().fails("hugetlb.3MB");
}

fn ps_lists_all_processes(bed: &Bed) {
    let c = bed.bundle().sh("sleep 1001 & sleep 1002 & wait").make().detached();
    let pids = || -> Vec<i64> {
        let outcome = c.id_call("ps", &["--format", "json"], &[]).run().ok();
        serde_json::from_str(&outcome.stdout).expect("array of pids")
    };
    let table = || c.id_call("ps", &[], &[]).run().ok();
    // Before a child executes its program, it has the shell's command line.
    let shells = || table().lines().iter().filter(|line| line.contains("sleep 1001 & ")).count();
    wait::until_true("three processes", || pids().len() == 3 && shells() == 1);
    assert!(pids().contains(&i64::from(c.pid())));
    let table = table();
    let lines = table.lines();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("UID") && lines[0].contains("PID"), "{table}");
    assert!(lines[1..].iter().any(|line| line.ends_with("sleep 1002")), "{table}");
    let chosen = c.id_call("ps", &[], &["-o", "pid,comm"]).run().ok();
    assert_eq!(chosen.lines()[0].split_whitespace().collect::<Vec<_>>(), ["PID", "COMMAND"]);
}

/// Returns the only event of `events --stats`.
pub fn stats(c: &Container<'_>) -> Value {
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
    wait::until_true("three reports", || running.stdout().matches('\n').count() >= 3);
    for line in running.stdout().lines().take(3) {
        assert_eq!(serde_json::from_str::<Value>(line).expect("JSON")["type"], "stats");
    }
    c.delete_force().ok();
    // The stream may end with the container; if it does not, this signal ends it.
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

/// Uses about 40 MB and then prints a message.
pub const HUNGRY: &str = "head -c 40000000 /dev/zero | tail -c 40000000 | wc -c";

/// Starts 20 sleepers, and prints a message at the end.
const CROWD: &str = "for i in $(seq 20); do sleep 100 & done; echo reached the end";

/// A limit whose key is misspelt is reported, on standard error and in the log, together with the right key.
fn keys_in_another_case(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/resources/Pids", json!({ "limit": 5 }))
        .set("/Hostname", json!("other"))
        .args(&["/bin/true"])
        .make();
    let outcome = c.run().exits(0);
    for (key, known) in [("linux.resources.Pids", "pids"), ("Hostname", "hostname")] {
        let text = format!("{key} is ignored: the key is \"{known}\"");
        assert_eq!(outcome.stderr.matches(&text).count(), 1, "{outcome}");
        // Quotes in the JSON log are escaped by a backslash.
        let text = text.replace('"', "\\\"");
        assert_eq!(outcome.log().matches(&text).count(), 1, "{}", outcome.log());
    }
    let silent = bed.bundle().args(&["/bin/true"]).make().run().exits(0);
    assert_eq!(silent.stderr, "");
    let c = bed.bundle().make().detached();
    let process = bed.dir.join("process.json");
    let text = json!({ "args": ["/bin/true"], "cwd": "/", "Env": ["A=b"] }).to_string();
    fs::write(&process, text).expect("write");
    let flags = ["--process", process.to_str().expect("path")];
    let outcome = c.exec_with(&flags, &[]).exits(0);
    assert!(outcome.stderr.contains("Env is ignored: the key is \"env\""), "{outcome}");
    let resources = bed.dir.join("resources.json");
    fs::write(&resources, r#"{"cpu": {"Shares": 300}}"#).expect("write");
    let flags = ["--resources", resources.to_str().expect("path")];
    let outcome = c.id_call("update", &flags, &[]).run().exits(0);
    assert!(outcome.stderr.contains("cpu.Shares is ignored: the key is \"shares\""), "{outcome}");
}
