//! SIGKILL of the runtime between any two of its steps: the next command reports the true state, and `delete --force`
//! leaves nothing.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::leak;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::wait;
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of kills per command, spread evenly over its duration.
const ROUNDS: u32 = 40;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(killed_create).unlike_runc().alone(),
    case!(killed_start).unlike_runc().alone(),
    case!(killed_run).unlike_runc().alone(),
    case!(killed_exec).unlike_runc().alone(),
    case!(killed_delete).unlike_runc().alone(),
    case!(killed_kill_and_list).alone(),
    case!(init_killed_from_outside),
    case!(state_after_a_reused_pid),
    case!(list_with_half_made_records).unlike_runc().alone(),
];

/// Sends SIGKILL at time `after` since the start of the call.
fn kill_after(running: Running, after: Duration) {
    let start = Instant::now();
    // Sleeping is too coarse for steps of a few microseconds.
    while start.elapsed() < after {
        std::hint::spin_loop();
    }
    running.signal(Signal::KILL);
    let _ = running.wait();
}

/// Returns the duration of an undisturbed `call`: the longest of a few.
fn duration(mut call: impl FnMut()) -> Duration {
    (0..3)
        .map(|_| {
            let start = Instant::now();
            call();
            start.elapsed()
        })
        .max()
        .unwrap_or_default()
}

/// Asserts that `state` reports an existing process if it reports a container that is not stopped. Returns the status.
#[track_caller]
fn assert_truth(c: &Container<'_>) -> String {
    let outcome = c.id_call("state", &[], &[]).run();
    if outcome.code() != 0 {
        assert!(outcome.stderr.contains("container does not exist"), "{outcome}");
        return "nonexistent".to_owned();
    }
    let state: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let status = state["status"].as_str().unwrap_or_default().to_owned();
    let pid = state["pid"].as_i64().unwrap_or_default();
    let alive = pid > 0 && Path::new(&format!("/proc/{pid}")).exists();
    match status.as_str() {
        "created" | "running" | "paused" => {
            assert!(alive, "{status} but process {pid} is not there: {outcome}");
        }
        "stopped" => {}
        other => panic!("unknown status {other}: {outcome}"),
    }
    let listed = c.bed.call(&["list", "--quiet"]).run();
    assert_eq!(listed.code(), 0, "{listed}");
    status
}

/// Asserts that `delete --force` succeeds and leaves neither record, process nor cgroup.
#[track_caller]
fn assert_deletes(c: &Container<'_>) {
    c.delete_force().ok();
    assert!(!c.bed.root().join(&c.id).exists(), "record left behind");
    let ids = [c.id.clone()];
    let find = || leak::find(c.bed.view, &c.bed.dir, &ids);
    wait::until_true("nothing to be left behind", || find().is_empty());
}

fn killed_create(bed: &Bed) {
    let c = bed.bundle().make();
    let whole = duration(|| {
        c.create().ok();
        c.delete_force().ok();
    });
    for round in 0..ROUNDS {
        kill_after(c.bundle_call("create", &[]).spawn(), whole * round / ROUNDS);
        // The container was not started, but for a moment a dying init that has closed its descriptors looks as if its
        // program were running.
        if assert_truth(&c) == "running" {
            c.wait_status("stopped");
        }
        assert_deletes(&c);
    }
}

fn killed_start(bed: &Bed) {
    let c = bed.bundle().make();
    let whole = duration(|| {
        c.create().ok();
        c.start().ok();
        c.delete_force().ok();
    }) / 2;
    for round in 0..ROUNDS {
        c.create().ok();
        kill_after(c.id_call("start", &[], &[]).spawn(), whole * round / ROUNDS);
        let status = assert_truth(&c);
        assert!(status == "created" || status == "running", "{status}");
        if status == "created" {
            // A container that was not started can still be started.
            c.start().ok();
            assert_eq!(c.status(), "running");
        }
        assert_deletes(&c);
    }
}

fn killed_run(bed: &Bed) {
    let c = bed.bundle().sh("usleep 3000").make();
    let whole = duration(|| {
        c.run().ok();
    });
    for round in 0..ROUNDS {
        kill_after(c.bundle_call("run", &[]).spawn(), whole * round / ROUNDS);
        assert_truth(&c);
        assert_deletes(&c);
    }
}

fn killed_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let whole = duration(|| {
        c.exec(&["true"]).ok();
    });
    for round in 0..ROUNDS {
        kill_after(c.id_call("exec", &[], &["sleep", "0.01"]).spawn(), whole * round / ROUNDS);
        assert_eq!(assert_truth(&c), "running");
    }
    c.exec(&["true"]).ok();
    assert_deletes(&c);
}

fn killed_delete(bed: &Bed) {
    let c = bed.bundle().make();
    let whole = duration(|| {
        c.create().ok();
        c.delete_force().ok();
    });
    for round in 0..ROUNDS {
        c.create().ok();
        kill_after(c.id_call("delete", &["--force"], &[]).spawn(), whole * round / ROUNDS);
        assert_truth(&c);
        assert_deletes(&c);
        c.create().ok();
        assert_deletes(&c);
    }
}

fn killed_kill_and_list(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for round in 0..ROUNDS {
        kill_after(
            c.id_call("kill", &[], &["0"]).spawn(),
            Duration::from_micros(u64::from(round) * 50),
        );
        kill_after(bed.call(&["list"]).spawn(), Duration::from_micros(u64::from(round) * 50));
        assert_eq!(assert_truth(&c), "running");
    }
    assert_deletes(&c);
}

fn init_killed_from_outside(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let pid = rustix::process::Pid::from_raw(c.pid()).expect("pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("kill");
    c.wait_status("stopped");
    c.kill("KILL").fails("container not running");
    c.delete().ok();
}

fn state_after_a_reused_pid(bed: &Bed) {
    // Besides the pid, the start time in the record must match. Reusing a pid is expensive to force, so the test uses a
    // zombie: a process that exists in /proc but no longer counts as running.
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    assert_eq!(c.state()["pid"], 0);
}

fn list_with_half_made_records(bed: &Bed) {
    let whole = bed.bundle().make().detached();
    let c = bed.bundle().make();
    for round in 0..20_u32 {
        kill_after(
            c.bundle_call("create", &[]).spawn(),
            Duration::from_micros(u64::from(round) * 200),
        );
        let listed = bed.call(&["list", "-q"]).run();
        assert!(listed.code() == 0 && listed.lines().contains(&whole.id.as_str()), "{listed}");
        assert_deletes(&c);
    }
}
