//! The ends of containers in the background, codes and times: `wait`, `state`, `list` and `inspect`.

use super::{background, call, delete, ends, image_of, nothing_is_left, programs, run, status_of};
use crate::faults::{KINDS, fault_points, faulty, walk_through};
use dayfly_tests::bed::Bed;
use dayfly_tests::kernel::version;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::{case, wait};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(codes_of_the_ended).unlike_runc().needs(kept),
    case!(codes_of_the_running).unlike_runc().needs(kept),
    case!(of_a_killed_by_memory).unlike_runc().needs(kept),
    case!(deleted_while_waited_for).unlike_runc().needs(kept),
    case!(started_beside_deletes).unlike_runc().needs(kept),
    case!(unknown_codes).unlike_runc().needs(programs),
    case!(as_runc_for_engines).unlike_runc(),
    case!(times).unlike_runc().needs(programs),
    case!(faults_of_the_start).unlike_runc().needs(faults),
    case!(hundred_at_once).unlike_runc().needs(kept).alone(),
];

/// The annotation of a stopped container.
const CODE: &str = "/annotations/run.dayfly.exit-code";

/// Checks that the kernel keeps the status of a reaped process.
fn kept() -> Result<(), String> {
    programs()?;
    match version() {
        found if found >= (6, 15) => Ok(()),
        (major, minor) => Err(format!("Linux {major}.{minor} keeps no exit status (6.15 does)")),
    }
}

fn faults() -> Result<(), String> {
    kept()?;
    fault_points()
}

/// Returns what `wait` prints.
#[track_caller]
fn waited(bed: &Bed, ids: &[&str]) -> String {
    call(bed, &[&["wait"], ids].concat()).run().ok().stdout
}

/// Asserts that all commands show this code of a stopped container.
#[track_caller]
fn shows(bed: &Bed, id: &str, code: i32) {
    let text = code.to_string();
    assert_eq!(status_of(bed, id).pointer(CODE), Some(&Value::from(text.clone())));
    let listed = call(bed, &["list"]).run().ok().stdout;
    let line = listed.lines().find(|line| line.starts_with(id)).expect("a line");
    assert!(line.contains(&format!(" stopped({text}) ")), "{line}");
    let listed: Value =
        serde_json::from_str(&call(bed, &["list", "-f", "json"]).run().ok().stdout).expect("JSON");
    assert_eq!(listed[0]["status"], "stopped");
    let outcome = call(bed, &["inspect", id]).run().ok();
    let inspected: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(inspected[0]["exitCode"], code);
    assert_eq!(waited(bed, &[id]), format!("{text}\n"));
}

fn codes_of_the_ended(bed: &Bed) {
    image_of(bed, vec![]);
    let kill = |signal| format!("kill -{signal} $$");
    let rows = [
        ("exit 0".to_owned(), 0, &[][..]),
        ("exit 3".to_owned(), 3, &["--userns", "auto"]),
        ("exit 255".to_owned(), 255, &["--init"]),
        (kill("TERM"), 143, &["--init"]),
        (kill("KILL"), 137, &["--pid", "host"]),
    ];
    for (script, code, options) in rows {
        let id = background(bed, options, &script);
        ends(bed, &id);
        shows(bed, &id, code);
        delete(bed, &id);
    }
}

fn codes_of_the_running(bed: &Bed) {
    image_of(bed, vec![]);
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.1; done";
    let [one, two] = [(); 2].map(|()| background(bed, &[], script));
    wait::until_true("its trap", || call(bed, &["logs", &one]).run().stdout == "ready\n");
    assert_eq!(status_of(bed, &one).pointer(CODE), None);
    let waiting = call(bed, &["wait", &one, &two]).spawn();
    waiting.until_it_waits();
    // The second ends first.
    call(bed, &["kill", &two, "KILL"]).run().ok();
    ends(bed, &two);
    assert!(!waiting.has_ended());
    call(bed, &["stop", &one]).run().ok();
    assert_eq!(waiting.wait().ok().stdout, "7\n137\n");
    call(bed, &["delete", &one]).run().ok();
    delete(bed, &two);
    call(bed, &["wait", &one]).run().fails("container does not exist");
}

fn of_a_killed_by_memory(bed: &Bed) {
    image_of(bed, vec![]);
    let script = "x=$(yes | head -c 64m); exit 1";
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    if bed.view == View::V2 && !all.contains("memory") {
        println!("killed by memory: the host has no memory controller in v2");
        return;
    }
    let id = background(bed, &["-m", "8m"], script);
    assert_eq!(waited(bed, &[&id]), "137\n");
    shows(bed, &id, 137);
    delete(bed, &id);
}

fn deleted_while_waited_for(bed: &Bed) {
    image_of(bed, vec![]);
    let id = background(bed, &[], "sleep 1000");
    let waiting = call(bed, &["wait", &id]).spawn();
    waiting.until_it_waits();
    delete(bed, &id);
    assert_eq!(waiting.wait().ok().stdout, "137\n");
}

/// A container that is deleted while it starts leaves no mount of its pidfd.
fn started_beside_deletes(bed: &Bed) {
    image_of(bed, vec![]);
    for _ in 0..40 {
        let id = bed.id();
        let start = run(bed, &["-d", "--name", &id, "--image", "test", "true"]).spawn();
        wait::until_true("its directory", || start.has_ended() || bed.root().join(&id).exists());
        while !start.has_ended() {
            // Also while the start, which fails, removes the same files.
            call(bed, &["delete", "--force", &id]).run().ok();
        }
        let outcome = start.wait();
        assert!(!outcome.stderr.contains("exit code"), "{outcome}");
        delete(bed, &id);
    }
}

/// Without the mount of init's pidfd, nobody knows the code.
fn unknown_codes(bed: &Bed) {
    image_of(bed, vec![]);
    let id = background(bed, &[], "read x </dev/null; sleep 0.2; exit 3");
    let file = bed.root().join(&id).join("log/exit");
    if version() >= (6, 15) {
        unmount(&file, UnmountFlags::DETACH).expect("unmount");
    }
    ends(bed, &id);
    let state = status_of(bed, &id);
    assert_eq!(state.pointer(CODE), Some(&Value::from("unknown")), "{state}");
    let outcome = call(bed, &["wait", &id]).run().exits(1);
    assert_eq!(outcome.stdout, "unknown\n");
    assert!(outcome.stderr.contains("is unknown"), "{outcome}");
    assert!(call(bed, &["list"]).run().ok().stdout.contains(" stopped(unknown) "));
    let inspected = call(bed, &["inspect", &id]).run().ok().stdout;
    assert!(inspected.contains("\"exitCode\": \"unknown\""), "{inspected}");
    let printed = call(bed, &["inspect", "-f", "{{.State.ExitCode}}", &id]).run().ok().stdout;
    assert_eq!(printed, "unknown\n");
    delete(bed, &id);
}

/// What engines see of their containers has nothing of this.
fn as_runc_for_engines(bed: &Bed) {
    let c = bed.bundle().sh("exit 3").make();
    c.create().ok();
    c.start().ok();
    wait::until_true("its end", || c.status() == "stopped");
    let state = c.state();
    assert_eq!(state.pointer(CODE), None, "{state}");
    assert!(bed.call(&["list"]).run().ok().stdout.contains(" stopped "));
    let outcome = bed.call(&["wait", &c.id]).run().exits(1);
    assert_eq!(outcome.stdout, "unknown\n");
    c.delete().ok();
}

/// Returns the seconds since 1970 that `inspect` shows.
fn time_of(bed: &Bed, id: &str, name: &str) -> Option<f64> {
    let text =
        call(bed, &["inspect", "-f", &format!("{{{{.State.{name}}}}}"), id]).run().ok().stdout;
    (text != "<no value>\n").then(|| {
        let date = Command::new("date").args(["+%s.%N", "-d", text.trim()]).output().expect("date");
        String::from_utf8_lossy(&date.stdout).trim().parse().expect("a time")
    })
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64()
}

/// Asserts that the time lies between `from` and now. The times of files are those of ticks of up to 10 ms.
#[track_caller]
fn since(time: Option<f64>, from: f64) {
    let (time, until) = (time.expect("a time"), now());
    assert!((from - 0.011..=until).contains(&time), "{time} is not from {from} to {until}");
}

fn times(bed: &Bed) {
    image_of(bed, vec![]);
    let begin = now();
    let [waited_for, stopped, followed, alone] =
        [(); 4].map(|()| background(bed, &[], "trap 'exit 0' TERM; while :; do sleep 0.1; done"));
    let ids = [&*waited_for, &stopped, &followed, &alone];
    for id in ids {
        since(time_of(bed, id, "StartedAt"), begin);
        assert_eq!(time_of(bed, id, "FinishedAt"), None);
    }
    let running = now();
    let waiting = [["wait", ids[0]].as_slice(), &["logs", "-f", ids[2]]]
        .map(|words| call(bed, words).spawn());
    waiting.iter().for_each(|waiting| waiting.until_it_waits());
    for id in [ids[0], ids[2], ids[3]] {
        call(bed, &["kill", id, "KILL"]).run().ok();
        ends(bed, id);
    }
    for waiting in waiting {
        waiting.wait().ok();
    }
    call(bed, &["stop", ids[1]]).run().ok();
    for id in &ids[..3] {
        let finished = time_of(bed, id, "FinishedAt");
        since(finished, running);
        assert!(time_of(bed, id, "StartedAt").expect("a time") < running);
        // It stays so.
        waited(bed, &[id]);
        call(bed, &["stop", id]).run().ok();
        assert_eq!(time_of(bed, id, "FinishedAt"), finished);
    }
    waited(bed, &[ids[3]]);
    assert_eq!(time_of(bed, ids[3], "FinishedAt"), None, "nobody waited for the end");
    call(bed, &[&["rm"], &ids[..]].concat()).run().ok();
    nothing_is_left(bed);

    let c = bed.bundle().args(&["sleep", "1000"]).make();
    c.create().ok();
    assert_eq!(time_of(bed, &c.id, "StartedAt"), None);
    let begin = now();
    c.start().ok();
    since(time_of(bed, &c.id, "StartedAt"), begin);
    c.delete_force().ok();
}

/// Every step of the command fails or kills it, among them the mount of the pidfd.
fn faults_of_the_start(bed: &Bed) {
    image_of(bed, vec![]);
    for kind in KINDS {
        let mut told = String::new();
        walk_through("command", kind, |step, fault| {
            let id = bed.id();
            let start = run(bed, &["-d", "--name", &id, "--image", "test", "true"]);
            let outcome = faulty(start, "command", step, kind).run();
            told.push_str(&outcome.stderr);
            assert!(
                kind == "kill" || outcome.code() == 0 || !bed.root().join(&id).exists(),
                "{fault}"
            );
            delete(bed, &id);
            outcome
        });
        assert!(kind == "kill" || told.contains("keep exit status"), "{told}");
    }
}

fn hundred_at_once(bed: &Bed) {
    image_of(bed, vec![]);
    let starts: Vec<_> = (0..100)
        .map(|number| {
            let script = format!("exit {number}");
            let args = ["-d", "--image", "test", "sh", "-c", &script];
            run(bed, &args).spawn()
        })
        .collect();
    let ids: Vec<String> =
        starts.into_iter().map(|start| start.wait().ok().stdout.trim().to_owned()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let all: String = (0..100).map(|number| format!("{number}\n")).collect();
    assert_eq!(waited(bed, &ids), all);
    call(bed, &[&["rm"], &ids[..]].concat()).run().ok();
    nothing_is_left(bed);
}
