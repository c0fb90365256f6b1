//! Checkpoints that an annotation names: `run` and `create` restore them.

use super::{COUNTER, Saved};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::wait;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(runs_on).needs(criu::lacking).unlike_runc(),
    case!(waits_for_start).needs(criu::lacking).unlike_runc(),
    case!(killed_before_start).needs(criu::lacking).unlike_runc(),
    case!(not_for_this_container).needs(criu::lacking).unlike_runc(),
    case!(exit_status).needs(criu::lacking).unlike_runc(),
    case!(fifty_at_once).needs(criu::lacking).unlike_runc().alone(),
];

/// A warning that the program is executed.
const INSTEAD: &str = ": the program is executed instead";

/// A bundle whose annotations name the checkpoint `saved`.
fn named<'a>(bed: &'a Bed, script: &str) -> Bundle<'a> {
    let annotations = json!({ "run.dayfly.checkpoint": "saved", "team": "a" });
    bed.bundle().set("/annotations", annotations).sh(script)
}

/// Adds what a command needs to find criu and the checkpoints.
fn aware(bed: &Bed, call: Call) -> Call {
    call.env("DAYFLY_CRIU", &criu::program())
        .env("DAYFLY_CHECKPOINTS", bed.dir.to_str().expect("path"))
        .within(wait::patience() * 3)
}

fn call(saved: &Saved<'_>, verb: &str, flags: &[&str]) -> Outcome {
    aware(saved.c.bed, saved.c.bundle_call(verb, flags)).run()
}

/// Runs the script in a container, and publishes its checkpoint once `is_warm`. The container ends.
fn publish<'a>(bed: &'a Bed, script: &str, is_warm: impl Fn(&Saved<'_>)) -> Saved<'a> {
    let saved = Saved::of(named(bed, script).make(), bed.dir.join("saved"));
    let cold = call(&saved, "run", &["--detach"]).ok();
    assert!(cold.stderr.contains("checkpoint saved does not exist in "), "{cold}");
    assert!(cold.stderr.contains(INSTEAD), "{cold}");
    is_warm(&saved);
    saved.checkpoint(&["--for", "team=a", "--for", "run.dayfly.checkpoint=saved"]).ok();
    saved
}

/// Publishes a container that counts.
fn counting(bed: &Bed) -> Saved<'_> {
    publish(bed, COUNTER, |saved| {
        wait::until_true("a count", || saved.count() > 20);
    })
}

fn runs_on(bed: &Bed) {
    let saved = counting(bed);
    let then = saved.count();
    let bundle = saved.c.bundle.to_str().expect("path");
    let plan = aware(bed, bed.call(&["plan", bundle])).run().ok();
    assert!(plan.stdout.contains("pass checkpoint"), "{plan}");
    for _ in 0..2 {
        saved.forget_count();
        let warm = call(&saved, "run", &["--detach"]).ok();
        assert_eq!(warm.stderr, "");
        assert!(saved.counts() > then);
        assert!(!saved.c.bundle.join("criu-work").exists());
        saved.c.delete_force().ok();
    }
}

fn waits_for_start(bed: &Bed) {
    let saved = counting(bed);
    let then = saved.count();
    saved.forget_count();
    let file = bed.dir.join("pid");
    call(&saved, "create", &["--pid-file", file.to_str().expect("path")]).ok();
    let pid = fs::read_to_string(file).expect("pid file");
    assert_eq!((saved.c.status().as_str(), saved.c.pid().to_string()), ("created", pid));
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(saved.count(), 0, "it runs before start");
    saved.c.id_call("pause", &[], &[]).run().ok();
    saved.c.start().fails("cannot start a container in the paused state");
    saved.c.id_call("resume", &[], &[]).run().ok();
    assert_eq!((saved.c.status().as_str(), saved.count()), ("created", 0));
    saved.c.start().ok();
    assert!(saved.counts() > then);
    assert_eq!(saved.c.status(), "running");
    saved.c.start().fails("cannot start an already running container");
    // Nobody waits any more.
    let processes = saved.c.id_call("ps", &["--format", "json"], &[]).run().ok().stdout;
    let processes: Vec<i32> = serde_json::from_str(&processes).expect("pids");
    assert!(processes.len() <= 2, "{processes:?}");
    saved.c.kill("KILL").ok();
    saved.c.wait_status("stopped");
    saved.c.delete().ok();
}

/// The process that waits ends with init, and init with the container.
fn killed_before_start(bed: &Bed) {
    let saved = counting(bed);
    for signal in [None, Some("KILL")] {
        call(&saved, "create", &[]).ok();
        let pids = saved.c.id_call("ps", &["--format", "json"], &[]).run().ok().stdout;
        let pids: Vec<i32> = serde_json::from_str(&pids).expect("pids");
        assert!(pids.len() >= 2, "{pids:?}");
        if let Some(signal) = signal {
            saved.c.kill(signal).ok();
            saved.c.wait_status("stopped");
            saved.c.delete().ok();
        } else {
            saved.c.delete_force().ok();
        }
        let is_left = |pid: &i32| std::path::Path::new(&format!("/proc/{pid}/exe")).exists();
        wait::until_true("its processes to end", || !pids.iter().any(is_left));
    }
    // A `create` that is killed leaves at most what `delete --force` removes.
    for delay in 0..20 {
        let running = aware(bed, saved.c.bundle_call("create", &[])).spawn();
        std::thread::sleep(Duration::from_millis(delay * 8));
        let _ = kill_process(running.pid(), Signal::KILL);
        let _ = running.wait();
        let _ = saved.c.delete_force();
    }
}

fn not_for_this_container(bed: &Bed) {
    let saved = counting(bed);
    let is_cold = |reason: &str| {
        saved.forget_count();
        let cold = call(&saved, "run", &["--detach"]).ok();
        assert!(cold.stderr.contains(reason) && cold.stderr.contains(INSTEAD), "{cold}");
        wait::until_true("a count", || saved.count() > 0);
        saved.c.delete_force().ok();
    };
    let config = saved.c.bundle.join("config.json");
    let text = fs::read_to_string(&config).expect("config.json");
    let write = |text: &str| fs::write(&config, text).expect("write");
    write(
        &text.replace(r#""team":"a""#, r#""team":"c""#).replace(r#""team": "a""#, r#""team": "c""#),
    );
    is_cold("is not for this container");
    write(&text.replace("\"saved\"", "\"../saved\""));
    is_cold("has no valid name");
    write(&text);
    fs::set_permissions(&saved.images, fs::Permissions::from_mode(0o777)).expect("chmod");
    is_cold("cannot be used");
    fs::set_permissions(&saved.images, fs::Permissions::from_mode(0o700)).expect("chmod");
    // A checkpoint without --for is only for `restore`.
    saved.restore(&[]).ok();
    saved.checkpoint(&[]).ok();
    is_cold("is not for this container");
}

fn exit_status(bed: &Bed) {
    let script = "exec </dev/null >/dev/null 2>&1; touch /warm; \
                  while ! test -e /go; do usleep 10000; done; exit 7";
    let saved = publish(bed, script, |saved| {
        let warm = saved.c.bundle.join("rootfs/warm");
        wait::until_true("it to run", || warm.exists());
    });
    fs::write(saved.c.bundle.join("rootfs/go"), "").expect("write");
    assert_eq!(call(&saved, "run", &[]).code(), 7);
    saved.c.assert_gone("a run in the foreground");
}

/// One directory of images serves many starts at once.
fn fifty_at_once(bed: &Bed) {
    let saved = counting(bed);
    let config = fs::read_to_string(saved.c.bundle.join("config.json")).expect("config.json");
    let others: Vec<_> = (0..50)
        .map(|_| {
            let other = named(bed, COUNTER).make();
            let own = config.replace(&saved.c.id, &other.id);
            fs::write(other.bundle.join("config.json"), own).expect("write");
            Saved::of(other, saved.images.clone())
        })
        .collect();
    let running: Vec<_> = others
        .iter()
        .map(|other| aware(bed, other.c.bundle_call("run", &["--detach"])).spawn())
        .collect();
    for running in running {
        assert_eq!(running.wait().ok().stderr, "");
    }
    for other in &others {
        assert!(other.counts() > 20);
        other.c.delete_force().ok();
    }
}
