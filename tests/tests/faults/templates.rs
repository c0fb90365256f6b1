//! Steps of a template, and of a container whose program a template forks.

use super::{KINDS, assert_told, fault_points, faulty, walked};
use crate::templates::{PROGRAM, bundle, lacking, other, template};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::steps;
use dayfly_tests::wait;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

pub const CASES: &[Case] = &[
    case!(steps_of_a_template).needs(possible).alone(),
    case!(steps_of_a_saved_template).needs(possible).alone(),
    case!(steps_of_a_forked_program).needs(possible).alone(),
];

fn possible() -> Result<(), String> {
    fault_points().and_then(|()| lacking())
}

/// Calls `attempt` with each step of both actors failing or killing its process, until no step is left. `attempt`
/// returns the outcome of the command that the fault struck, or `None` if it struck none, and whether that command was
/// `start`. `name` is the step that only these containers have; `start` does not name it, but no other step of init
/// fails then.
fn walk(name: &str, attempt: impl Fn(&str, usize, &str) -> (Option<Outcome>, bool)) {
    let mut found = false;
    for actor in ["parent", "init"] {
        for number in 0.. {
            let mut struck = None;
            for kind in KINDS {
                let fault = format!("{actor}:{number}:{kind}");
                let (outcome, is_start) = attempt(actor, number, kind);
                if kind == "fail" {
                    let Some(outcome) = outcome else { break };
                    assert_told(&outcome, kind, &fault);
                    struck = Some(is_start || outcome.to_string().contains(&format!("{name}: ")));
                }
                if actor == "init" && struck == Some(true) {
                    steps::struck("init", name, kind);
                    found = true;
                }
            }
            if struck.is_none() {
                assert!(number > 6, "{actor}:{number} did not strike");
                break;
            }
        }
    }
    assert!(found, "no step {name}");
    walked();
}

fn steps_of_a_template(bed: &Bed) {
    let c = bundle(bed, PROGRAM).make();
    let dir = c.bundle.to_string_lossy().into_owned();
    walk("become reaper", |actor, number, kind| {
        let call = bed.call(&["template", "create", "--bundle", &dir, &c.id]);
        let outcome = faulty(call, actor, number, kind).run();
        let is_made = outcome.code() == 0;
        if is_made || kind == "kill" {
            let _ = c.delete_force();
        }
        c.assert_gone("a fault of a template");
        ((!is_made).then_some(outcome), false)
    });
}

/// No criu is there, so a template without a fault fails once its warm-up is over.
fn steps_of_a_saved_template(bed: &Bed) {
    const NO_CRIU: &str = "/no/criu";
    let c = bundle(bed, PROGRAM).make();
    let dir = c.bundle.to_string_lossy().into_owned();
    let images = bed.dir.join("images").to_string_lossy().into_owned();
    walk("pass requests", |actor, number, kind| {
        let call = bed.call(&["template", "create", "--bundle", &dir, "--save", &images, &c.id]);
        let outcome = faulty(call.env("DAYFLY_CRIU", NO_CRIU), actor, number, kind).run();
        if kind == "kill" {
            let _ = c.delete_force();
        }
        c.assert_gone("a fault of a template that is to be saved");
        let warmed_up = outcome.stderr.contains(NO_CRIU);
        ((!warmed_up).then_some(outcome), false)
    });
}

fn steps_of_a_forked_program(bed: &Bed) {
    let template = template(bundle(bed, PROGRAM));
    let c = other(&template, |config| {
        config["process"]["args"] =
            json!(["/usr/bin/python3", "-B", "/app.py", "time.sleep(1000)"]);
    });
    walk("wait for forked program", |actor, number, kind| {
        let call = c.bundle_call("create", &["--template", &template.id]);
        let mut outcome = faulty(call, actor, number, kind).run();
        let is_start = outcome.code() == 0;
        if is_start {
            outcome = c.start();
        }
        let runs = outcome.code() == 0;
        let _ = c.delete_force();
        c.assert_gone("a fault of a forked program");
        ((!runs).then_some(outcome), is_start)
    });
    wait::until_true("no child is left", || crate::templates::children(template.pid()).len() == 1);
    crate::templates::fork(&template, "sys.exit(3)").exits(3);
}
