//! Makes every step of create, start, exec and delete fail or kill its process: the error is reported, and nothing is
//! left behind.

#[path = "faults/calls.rs"]
pub mod calls;
#[path = "faults/commands.rs"]
pub mod commands;
#[path = "faults/create.rs"]
pub mod create;
#[path = "faults/ground.rs"]
mod ground;
#[path = "faults/labels.rs"]
pub mod labels;
#[path = "faults/layers.rs"]
pub mod layers;
#[path = "faults/scopes.rs"]
pub mod scopes;
#[path = "faults/templates.rs"]
pub mod templates;
#[path = "faults/users.rs"]
pub mod users;
#[path = "faults/walk.rs"]
mod walk;

use dayfly_tests::bed::Bed;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::{Case, runtime_path};
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::{case, steps, wait};
use serde_json::json;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use walk::Walk;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(host_stays_as_it_is).needs(fault_points).alone(),
    case!(every_kind_of_step).needs(fault_points).alone(),
];

/// The cases whose steps count for [`every_kind_of_step`], which runs last.
const WALKS: [&[Case]; 5] =
    [create::CASES, commands::CASES, users::CASES, layers::CASES, templates::CASES];

/// The number of cases of [`WALKS`] that have finished.
static WALKED: AtomicUsize = AtomicUsize::new(0);

/// Counts one case of [`WALKS`] as finished.
pub fn walked() {
    WALKED.fetch_add(1, Ordering::Relaxed);
}

pub const KINDS: [&str; 2] = ["fail", "kill"];

/// Checks that the runtime has fault points: tests/README.md explains how to build such a runtime.
pub fn fault_points() -> Result<(), String> {
    let probe = Command::new(runtime_path()).arg("list").env("DAYFLY_FAULT", "nowhere").output();
    match probe {
        Ok(probe) if String::from_utf8_lossy(&probe.stderr).contains("not a fault point") => Ok(()),
        _ => {
            Err("the runtime was built without `--cfg dayfly_faults` (make test-build)".to_owned())
        }
    }
}

pub fn faulty(call: Call, place: &str, step: usize, kind: &str) -> Call {
    call.env("DAYFLY_FAULT", &format!("{place}:{step}:{kind}"))
}

/// Asserts that the command fails and, if the kind is `fail`, reports the error; a killed process can't report
/// anything.
#[track_caller]
fn assert_told(outcome: &Outcome, kind: &str, fault: &str) {
    assert!(outcome.code() != 0, "{fault}: {outcome}");
    if kind == "fail" {
        // An init that fails while it waits for `start` can't report the error; `start` then finds the container
        // stopped.
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

/// The kinds of steps that do not occur on this host, with the reason.
const NOT_HERE: &[(&str, &str, &str)] = &[
    ("parent", "enter resctrl group", "no resctrl file system, without which it is refused before"),
    ("parent", "await scope", "wants systemd: struck by scripts/systemd-host SUITE faults::scopes"),
    ("init", "label keyring", "wants SELinux: struck by scripts/bed guest-labels"),
    ("init", "label process", "wants SELinux, as above"),
    ("init", "apply apparmor profile", "wants AppArmor: struck by scripts/bed guest-labels"),
];

/// Checks, after all walks, that no kind of step was left out.
fn every_kind_of_step(_: &Bed) {
    let (walked, all) =
        (WALKED.load(Ordering::Relaxed), WALKS.iter().map(|cases| cases.len()).sum());
    if walked < all {
        println!("every_kind_of_step: {walked} of {all} walks were taken, nothing to tell");
        return;
    }
    for (actor, name, reason) in NOT_HERE {
        println!("never struck on this host: {actor} {name}: {reason}");
    }
    let here = |kind: &(&str, String)| {
        !NOT_HERE.iter().any(|(actor, name, _)| *actor == kind.0 && *name == kind.1)
    };
    for kind in KINDS {
        let missing: Vec<_> = steps::missing(kind).into_iter().filter(here).collect();
        assert!(missing.is_empty(), "{kind}: no walk has these kinds of steps: {missing:?}");
    }
}

/// The mount table, /run and the pinned programs are the same after every fault as before.
fn host_stays_as_it_is(bed: &Bed) {
    let rules = json!([
        { "allow": false, "access": "rwm" },
        { "allow": true, "type": "c", "major": 1, "minor": 5, "access": "r" },
    ]);
    let bundle = bed
        .bundle()
        .set("/linux/resources/devices", rules)
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_LOG" }))
        .mount("bind", "/etc", "/mnt", &["rbind"]);
    let walk = Walk::new(bundle);
    // The first start fills the host's cache.
    let c = &walk.c;
    c.create().ok();
    c.delete().ok();
    let host = Host::look();
    let unchanged = |fault: &str| wait::until_none(&format!("left by {fault}"), || host.changes());
    for step in walk.steps() {
        walk.strike(&step);
        unchanged(&step.name);
    }
    for kind in KINDS {
        walk_through("command", kind, |step, fault| {
            let created = faulty(c.bundle_call("create", &[]), "command", step, kind).run();
            c.delete_force().ok();
            c.assert_gone(fault);
            unchanged(fault);
            created
        });
    }
}

/// Runs the command repeatedly. Each run has a fault of this kind at one step of the process `place`: the first run at
/// step 0, the next at step 1, and so on. A run without such a step succeeds and ends the loop. Returns the number of
/// steps.
pub fn walk_through(place: &str, kind: &str, mut run: impl FnMut(usize, &str) -> Outcome) -> usize {
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
