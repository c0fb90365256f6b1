//! `kill -9` of the commands and of criu, at any moment.

use super::{COUNTER, Saved};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Running;
use dayfly_tests::{program, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(killed_checkpoint).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_checkpoint_in_a_user_namespace).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_checkpoint_on_layers).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_restore).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_restore_in_a_user_namespace).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_restore_on_layers).needs(criu::lacking).unlike_runc().alone(),
    case!(criu_killed_in_a_checkpoint).needs(criu::lacking).unlike_runc().alone(),
    case!(criu_killed_in_a_restore).needs(criu::lacking).unlike_runc().alone(),
    case!(hook_that_kills_criu).needs(criu::lacking).unlike_runc().alone(),
    case!(interrupted_restore).needs(criu::lacking).unlike_runc().alone(),
    case!(hanging_criu_is_interrupted).needs(criu::lacking).unlike_runc().alone(),
    case!(hanging_criu_is_ended_in_time).needs(criu::lacking).unlike_runc().alone(),
    case!(criu_that_stays_is_interrupted).needs(criu::lacking).unlike_runc().alone(),
    case!(interrupted_in_a_cgroup_of_others).needs(criu::lacking).unlike_runc().alone(),
    case!(signal_after_the_restore).needs(criu::lacking).unlike_runc().alone(),
];

const ROUNDS: u32 = 12;

/// Returns whether a process is criu, by /proc/PID/comm: criu changes its command line.
fn is_criu(process: &Path) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "criu")
}

/// Returns the children of a process that run criu.
fn criu_of(pid: Pid) -> Vec<Pid> {
    let file = format!("/proc/{0}/task/{0}/children", pid.as_raw_nonzero());
    let children = fs::read_to_string(file).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
    let is_criu = |pid: &i32| is_criu(Path::new(&format!("/proc/{pid}")));
    children.filter(is_criu).filter_map(Pid::from_raw).collect()
}

/// Kills the call after the given time, and waits until no criu is running. No other case uses criu at the same time.
pub fn kill_call(running: Running, after: Duration) {
    std::thread::sleep(after);
    running.signal(Signal::KILL);
    let _ = running.wait();
    // A child that is about to execute criu does not have criu's name yet. So criu counts as ended only after 20
    // consecutive checks have found none.
    let mut looks = 0;
    wait::until_true("criu to end", || {
        let is_there =
            fs::read_dir("/proc").expect("/proc").flatten().any(|entry| is_criu(&entry.path()));
        looks = if is_there { 0 } else { looks + 1 };
        looks == 20
    });
}

pub(super) fn kill_criu(running: Running, after: Duration) -> dayfly_tests::runtime::Outcome {
    std::thread::sleep(after);
    for pid in criu_of(running.pid()) {
        let _ = kill_process(pid, Signal::KILL);
    }
    running.wait()
}

fn duration(call: impl FnOnce()) -> Duration {
    let start = Instant::now();
    call();
    start.elapsed()
}

/// Returns a container, and the duration of its checkpoint.
fn timed_checkpoint(saved: Saved<'_>) -> (Saved<'_>, Duration) {
    let whole = duration(|| drop(saved.checkpoint(&["--leave-running"]).ok()));
    (saved, whole)
}

/// Saves a container and deletes it. Returns it, and the duration of a restore.
fn timed_restore(saved: Saved<'_>) -> (Saved<'_>, Duration) {
    saved.checkpoint(&[]).ok();
    let whole = duration(|| drop(saved.restore(&[]).ok()));
    saved.delete_force().ok();
    (saved, whole)
}

/// Asserts that the container either continues to count or has stopped or been removed.
#[track_caller]
pub(super) fn assert_whole(saved: &Saved<'_>) -> bool {
    let c = &saved.c;
    if !c.exists() || c.status() == "stopped" {
        saved.delete_force().ok();
        c.assert_gone("what was killed");
        return false;
    }
    assert_eq!(c.status(), "running");
    saved.counts();
    c.exec(&["true"]).ok();
    true
}

fn killed_checkpoint(bed: &Bed) {
    kill_checkpoints(Saved::counting(bed));
}

fn killed_checkpoint_in_a_user_namespace(bed: &Bed) {
    kill_checkpoints(in_a_user_namespace(bed));
}

fn killed_checkpoint_on_layers(bed: &Bed) {
    kill_checkpoints(on_layers(bed));
}

fn killed_restore(bed: &Bed) {
    kill_restores(Saved::counting(bed));
}

fn killed_restore_in_a_user_namespace(bed: &Bed) {
    kill_restores(in_a_user_namespace(bed));
}

fn killed_restore_on_layers(bed: &Bed) {
    kill_restores(on_layers(bed));
}

fn in_a_user_namespace(bed: &Bed) -> Saved<'_> {
    let saved = Saved::running(mapped(bed).sh(COUNTER));
    saved.counts();
    saved
}

/// Returns a container with layers and a range of ids of its own.
fn on_layers(bed: &Bed) -> Saved<'_> {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &["--userns", "auto"]);
    saved.counts();
    saved
}

/// Asserts that nothing of a removed container is left in its store.
#[track_caller]
fn assert_store_is_empty(saved: &Saved<'_>) {
    if let Some(layered) = &saved.layered {
        assert_eq!(layered.layers.left(), [""; 0]);
    }
}

fn kill_checkpoints(saved: Saved<'_>) {
    let (saved, whole) = timed_checkpoint(saved);
    for round in 0..ROUNDS {
        let running = saved.checkpoint_call(&[]).spawn();
        kill_call(running, whole * round / ROUNDS);
        if !assert_whole(&saved) {
            // The container no longer exists, so criu had completed the checkpoint.
            assert_store_is_empty(&saved);
            saved.restore(&[]).ok();
            saved.counts();
        }
    }
}

fn kill_restores(saved: Saved<'_>) {
    let (saved, whole) = timed_restore(saved);
    for round in 0..ROUNDS {
        let running = saved.restore_call(&["--detach"]).spawn();
        kill_call(running, whole * round / ROUNDS);
        if saved.c.bed.root().join(&saved.c.id).exists() && !saved.c.exists() {
            saved.delete_force().ok();
            saved.c.assert_gone("a killed restore");
        } else if assert_whole(&saved) {
            saved.delete_force().ok();
        }
        saved.c.assert_gone("a killed restore");
        assert_store_is_empty(&saved);
    }
    saved.restore(&[]).ok();
    saved.counts();
}

fn criu_killed_in_a_checkpoint(bed: &Bed) {
    let (saved, whole) = timed_checkpoint(Saved::counting(bed));
    for round in 0..ROUNDS {
        let running = saved.checkpoint_call(&["--leave-running"]).spawn();
        let outcome = kill_criu(running, whole * round / ROUNDS);
        if outcome.code() != 0 {
            assert!(outcome.stderr.contains("criu"), "{outcome}");
        }
        if !assert_whole(&saved) {
            // The program counts from 0 again.
            saved.forget_count();
            saved.c.run_with(&["--detach"]).ok();
            saved.counts();
        }
    }
}

fn criu_killed_in_a_restore(bed: &Bed) {
    let (saved, whole) = timed_restore(Saved::counting(bed));
    for round in 0..ROUNDS {
        let running = saved.restore_call(&["--detach"]).spawn();
        let outcome = kill_criu(running, whole * round / ROUNDS);
        if outcome.code() == 0 {
            saved.counts();
            saved.delete_force().ok();
        } else {
            assert!(outcome.stderr.contains("criu failed: it was killed by signal 9"), "{outcome}");
        }
        saved.c.assert_gone("a restore whose criu was killed");
    }
}

/// The error says that criu was killed, not that the processes which criu was restoring are gone, or that a hook failed
/// for want of them.
fn hook_that_kills_criu(bed: &Bed) {
    let armed = bed.dir.join("armed");
    // The hook is a child of the restore, as criu is.
    let script = format!(
        "[ -e {} ] || exit 0; for pid in $(pgrep -x criu); do kill -9 $pid; done; exit 1",
        armed.display()
    );
    let hook = json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }]);
    let saved = Saved::running(bed.bundle().sh(COUNTER).set("/hooks/createRuntime", hook));
    saved.checkpoint(&[]).ok();
    saved.delete_force().ok();
    fs::write(&armed, "").expect("write");
    let outcome = saved.restore(&[]);
    assert!(outcome.stderr.contains("criu failed: it was killed by signal 9"), "{outcome}");
    saved.c.assert_gone("a restore whose criu was killed");
}

/// Sends a signal to the call and to its criu, as a terminal does.
fn interrupt(running: &Running, signal: Signal) {
    for pid in criu_of(running.pid()).into_iter().chain([running.pid()]) {
        let _ = kill_process(pid, signal);
    }
}

fn interrupted_restore(bed: &Bed) {
    let (saved, whole) = timed_restore(Saved::counting(bed));
    let rounds = ROUNDS * 2;
    for round in 0..rounds {
        let signal = if round % 2 == 0 { Signal::INT } else { Signal::TERM };
        let running = saved.restore_call(&["--detach"]).spawn();
        std::thread::sleep(whole * round / rounds);
        interrupt(&running, signal);
        let outcome = running.wait();
        // A signal ends the command by its default action only before the restore has begun.
        let is_whole = saved.c.exists() && saved.c.status() == "running";
        if is_whole {
            assert_eq!(outcome.code(), 0, "the container runs: {outcome}");
            saved.counts();
            saved.delete_force().ok();
        } else {
            assert_ne!(outcome.code(), 0, "{outcome}");
        }
        saved.c.assert_gone("an interrupted restore");
    }
    saved.restore(&[]).ok();
    saved.counts();
}

fn hanging_criu_is_interrupted(bed: &Bed) {
    let (saved, _) = timed_restore(Saved::counting(bed));
    for flags in [&["--detach"][..], &[]] {
        let running = saved.restore_call(flags).spawn();
        let criu = wait::until("criu to start", || criu_of(running.pid()).first().copied());
        kill_process(criu, Signal::STOP).expect("stop criu");
        running.signal(Signal::INT);
        let outcome = running.wait();
        assert!(outcome.stderr.contains("signal 2 interrupted this command"), "{outcome}");
        saved.c.assert_gone("a restore whose criu hangs");
    }
}

/// Damaged images can make criu wait for ever.
fn hanging_criu_is_ended_in_time(bed: &Bed) {
    let (saved, _) = timed_restore(Saved::counting(bed));
    for flags in [&["--detach", "--timeout", "1500ms"][..], &["--timeout", "1500ms"]] {
        let running = saved.restore_call(flags).spawn();
        let criu = wait::until("criu to start", || criu_of(running.pid()).first().copied());
        kill_process(criu, Signal::STOP).expect("stop criu");
        let outcome = running.wait();
        let text = "criu was killed, because it has not finished within 1.5s (--timeout)";
        assert!(outcome.stderr.contains(text), "{outcome}");
        saved.c.assert_gone("a restore whose criu hangs");
    }
    saved.restore(&["--timeout", "100"]).ok();
    saved.counts();
    saved.delete_force().ok();
    saved.restore(&["--timeout", "soon"]).fails("--timeout soon: must be a time such as 10s");
}

/// Writes a program that executes criu, and that does not exit after criu has ended. Returns the program's path, and
/// the path of the file that the program makes when criu has ended.
fn staying_criu(bed: &Bed) -> (PathBuf, PathBuf) {
    let (program, mark) = (bed.dir.join("staying-criu"), bed.dir.join("criu-has-ended"));
    let script =
        format!("#!/bin/sh\n{} \"$@\"\n: >{}\nexec sleep 1000\n", criu::program(), mark.display());
    program::write(&program, &script);
    (program, mark)
}

/// Interrupts a detached restore after criu has ended, while the program of [`staying_criu`] still runs.
#[track_caller]
fn interrupt_staying(saved: &Saved<'_>) {
    let (program, mark) = staying_criu(saved.c.bed);
    let call = saved.restore_call(&["--detach"]);
    let running = call.env("DAYFLY_CRIU", program.to_str().expect("path")).spawn();
    wait::until_true("criu to end", || mark.exists());
    running.signal(Signal::TERM);
    let outcome = running.wait();
    assert!(outcome.stderr.contains("signal 15 interrupted this command"), "{outcome}");
}

fn criu_that_stays_is_interrupted(bed: &Bed) {
    let (saved, _) = timed_restore(Saved::counting(bed));
    interrupt_staying(&saved);
    saved.c.assert_gone("a restore whose criu stays");
    saved.restore(&[]).ok();
    saved.counts();
}

fn interrupted_in_a_cgroup_of_others(bed: &Bed) {
    // Without a PID namespace, the second process does not end with the first.
    let script = "exec </dev/null >/dev/null 2>&1; sleep 1000 & exec sleep 1000";
    let saved = Saved::running(bed.bundle().without_namespace("pid").sh(script));
    let path = cgroups::path_of(&saved.c.id);
    let places = cgroups::hierarchies(bed.view)
        .into_iter()
        .map(|hierarchy| hierarchy.join(path.trim_start_matches('/')));
    let places: Vec<PathBuf> = places.collect();
    let procs = |place: &PathBuf| fs::read_to_string(place.join("cgroup.procs")).expect("procs");
    let first = places.first().expect("a hierarchy");
    let pids = wait::until("two processes", || {
        Some(procs(first)).filter(|pids| pids.lines().count() == 2)
    });
    saved.checkpoint(&[]).ok();
    // criu needs the same pids again.
    let is_there = |pid: &str| Path::new("/proc").join(pid).exists();
    wait::until_true("the pids to be free", || !pids.lines().any(is_there));
    for place in &places {
        fs::create_dir(place).expect("mkdir");
    }
    interrupt_staying(&saved);
    for place in &places {
        assert_eq!(procs(place), "", "{}", place.display());
        fs::remove_dir(place).expect("rmdir");
    }
    saved.c.assert_gone("a restore into a cgroup of others");
}

fn signal_after_the_restore(bed: &Bed) {
    let mark = bed.dir.join("send");
    for signal in ["HUP", "INT", "QUIT", "TERM"] {
        let script = format!("[ ! -e {0} ] || {{ kill -{signal} $PPID; rm {0}; }}", mark.display());
        let hook = json!({ "path": "/bin/sh", "args": ["sh", "-c", script] });
        let saved = Saved::running(bed.bundle().sh(COUNTER).push("/hooks/poststart", hook));
        saved.checkpoint(&[]).ok();
        fs::write(&mark, "").expect("write");
        saved.restore(&[]).ok();
        assert!(!mark.exists(), "the hook has sent no signal");
        saved.counts();
        saved.delete_force().ok();
    }
}
