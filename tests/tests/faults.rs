//! Every step of create, start, exec and delete fails, or is the last of its process: the error is told, and
//! nothing is left behind.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runner::{Case, runtime_path};
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::{case, leak, wait};
use serde_json::json;
use std::process::Command;

pub const CASES: &[Case] = &[
    case!(create_and_start_plain).needs(fault_points),
    case!(create_and_start_with_hooks).needs(fault_points),
    case!(create_and_start_with_user_namespace).needs(fault_points),
    case!(create_besides_the_plan).needs(fault_points),
    case!(run_plain).needs(fault_points),
    case!(exec).needs(fault_points),
    case!(start_besides_the_plan).needs(fault_points),
    case!(delete).needs(fault_points),
];

pub const KINDS: [&str; 2] = ["fail", "kill"];

/// Whether the runtime has fault points: tests/README.md tells how to build it so.
pub fn fault_points() -> Result<(), String> {
    let probe = Command::new(runtime_path()).arg("list").env("DAYFLY_FAULT", "nowhere").output();
    match probe {
        Ok(probe) if String::from_utf8_lossy(&probe.stderr).contains("no fault point") => Ok(()),
        _ => Err("the runtime was built without the feature `faults`".to_owned()),
    }
}

pub fn faulty(call: Call, place: &str, step: usize, kind: &str) -> Call {
    // Steps must not depend on what else the machine does.
    call.env("DAYFLY_FAULT", &format!("{place}:{step}:{kind}")).env("DAYFLY_WITHOUT", "crowd-check")
}

/// Nothing is there any more.
#[track_caller]
pub fn assert_gone(c: &Container<'_>, fault: &str) {
    let ids = [c.id.clone()];
    let find = || leak::find(c.bed.view, &c.bed.dir, &ids);
    let left = || !find().is_empty() || c.bed.root().join(&c.id).exists();
    wait::until_true(&format!("nothing to be left by {fault}: {:?}", find()), || !left());
}

/// A step that failed says so; one that was killed says nothing about itself.
#[track_caller]
fn assert_told(outcome: &Outcome, kind: &str, fault: &str) {
    assert!(outcome.code() != 0, "{fault}: {outcome}");
    if kind == "fail" {
        // An init that fails while it waits for `start` has nobody to tell; `start` finds it stopped.
        let words = [
            "input/output error",
            "fault",
            "cannot start a container that has stopped",
            "container init was killed before it started",
        ];
        let told = words.iter().any(|word| outcome.stderr.contains(word));
        assert!(told, "{fault}: {outcome}");
    }
}

/// How many steps host and init have.
fn count(c: &Container<'_>) -> (usize, usize) {
    let plan =
        c.bed.call(&["plan", &c.bundle.to_string_lossy()]).env("DAYFLY_WITHOUT", "crowd-check");
    let plan = plan.run().ok();
    let of = |actor: &str| {
        plan.lines().iter().filter(|line| line.trim_start().starts_with(actor)).count()
    };
    (of("host "), of("init "))
}

fn create_and_start(bed: &Bed, bundle: Bundle<'_>) {
    let c = bundle.make();
    let (host, init) = count(&c);
    assert!(host > 6 && init > 20, "host {host}, init {init}");
    let steps = (0..host).map(|step| ("host", step)).chain((0..init).map(|step| ("init", step)));
    let mut started = 0;
    for (place, step) in steps {
        for kind in KINDS {
            let fault = format!("{place}:{step}:{kind}");
            let created = faulty(c.bundle_call("create", &[]), place, step, kind).run();
            if created.code() != 0 {
                assert_told(&created, kind, &fault);
            } else {
                // A step of init after it was told to start.
                assert_eq!(place, "init", "{fault} did not strike");
                let start = c.start();
                // An init that is killed once it was started cannot be told from a program that is.
                match (kind, start.code()) {
                    ("kill", 0) => c.wait_status("stopped"),
                    _ => assert_told(&start, kind, &fault),
                }
                started += 1;
            }
            // What failed has cleared up by itself.
            if kind == "kill" || created.code() == 0 {
                c.delete_force().ok();
            }
            assert_gone(&c, &fault);
        }
    }
    assert!(started >= KINDS.len(), "exec is after start");
    // The id is as good as new.
    c.create().ok();
    c.start().ok();
    c.delete_force().ok();
    assert!(!bed.root().join(&c.id).exists());
}

fn create_and_start_plain(bed: &Bed) {
    create_and_start(bed, bed.bundle());
}

fn create_and_start_with_hooks(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    let bundle = bed
        .bundle()
        .set("/hooks/prestart", hook.clone())
        .set("/hooks/createRuntime", hook.clone())
        .set("/hooks/createContainer", hook.clone())
        .set("/hooks/startContainer", hook)
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }));
    create_and_start(bed, bundle);
}

fn create_and_start_with_user_namespace(bed: &Bed) {
    create_and_start(bed, crate::userns::mapped(bed));
}

/// Takes the steps of `place` one after the other, until the command runs whole; returns how many there
/// are.
pub fn walk(place: &str, kind: &str, mut run: impl FnMut(usize, &str) -> Outcome) -> usize {
    for step in 0..200 {
        let fault = format!("{place}:{step}:{kind}");
        let outcome = run(step, &fault);
        if outcome.code() == 0 {
            return step;
        }
        assert_told(&outcome, kind, &fault);
    }
    panic!("{place}: no end of steps");
}

fn create_besides_the_plan(bed: &Bed) {
    let c = bed.bundle().make();
    for kind in KINDS {
        let steps = walk("command", kind, |step, fault| {
            let created = faulty(c.bundle_call("create", &[]), "command", step, kind).run();
            if kind == "kill" || created.code() == 0 {
                c.delete_force().ok();
            }
            assert_gone(&c, fault);
            created
        });
        assert!(steps >= 5, "{steps}");
    }
}

fn run_plain(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    for place in ["host", "init"] {
        for kind in KINDS {
            let steps = walk(place, kind, |step, fault| {
                let outcome = faulty(c.bundle_call("run", &[]), place, step, kind).run();
                if kind == "kill" {
                    c.delete_force().ok();
                }
                assert_gone(&c, fault);
                outcome
            });
            assert!(steps > 6, "{place}: {steps}");
        }
    }
}

fn exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let processes = || leak::processes(std::slice::from_ref(&c.id)).len();
    for place in ["host", "init", "command"] {
        for kind in KINDS {
            let steps = walk(place, kind, |step, fault| {
                let outcome = faulty(c.id_call("exec", &[], &["true"]), place, step, kind).run();
                wait::until_true(&format!("no process to be left by {fault}"), || processes() == 1);
                assert_eq!(c.status(), "running", "{fault}");
                outcome
            });
            assert!(steps > if place == "command" { 0 } else { 6 }, "{place}: {steps}");
        }
    }
    c.exec(&["true"]).ok();
}

fn start_besides_the_plan(bed: &Bed) {
    for kind in KINDS {
        let steps = walk("command", kind, |step, fault| {
            let c = bed.bundle().make();
            c.create().ok();
            let outcome = faulty(c.id_call("start", &[], &[]), "command", step, kind).run();
            let status = c.status();
            assert!(status == "created" || status == "running", "{fault}: {status}");
            if status == "created" {
                c.start().ok();
            }
            c.delete_force().ok();
            assert_gone(&c, fault);
            outcome
        });
        assert!(steps >= 3, "{steps}");
    }
}

fn delete(bed: &Bed) {
    for kind in KINDS {
        for force in [false, true] {
            let flags: &[&str] = if force { &["--force"] } else { &[] };
            let steps = walk("command", kind, |step, fault| {
                let c = bed.bundle().make();
                c.create().ok();
                if force {
                    c.start().ok();
                }
                let outcome = faulty(c.id_call("delete", flags, &[]), "command", step, kind).run();
                c.delete_force().ok();
                assert_gone(&c, fault);
                outcome
            });
            assert!(steps >= 4, "{steps}");
        }
    }
}
