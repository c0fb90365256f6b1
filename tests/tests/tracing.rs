//! What runc has no word for: plans, traces, and options of other callers.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;

pub const CASES: &[Case] = &[
    case!(plan_names_the_steps).unlike_runc(),
    case!(plan_changes_nothing).unlike_runc(),
    case!(plan_as_json).unlike_runc(),
    case!(plan_of_a_broken_bundle).unlike_runc(),
    case!(trace_of_run).unlike_runc(),
    case!(trace_has_every_planned_step).unlike_runc(),
    case!(trace_of_a_failed_start).unlike_runc(),
    case!(create_with_config_elsewhere).unlike_runc(),
    case!(cgroup_manager_disabled).unlike_runc(),
    case!(rootless_is_accepted),
];

fn plan_names_the_steps(bed: &Bed) {
    let c = bed.bundle().make();
    let outcome = bed.call_bare(&["plan", c.bundle.to_str().expect("path")]).run().ok();
    let lines = outcome.lines();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["ACTOR", "PHASE", "STEP"]);
    for (actor, step) in [
        ("host", "clone"),
        ("init", "mount proc on /proc"),
        ("init", "set hostname"),
        ("init", "set capabilities"),
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(actor) && line.contains(step)),
            "{actor} {step}: {outcome}"
        );
    }
}

fn plan_changes_nothing(bed: &Bed) {
    let c = bed.bundle().mount("tmpfs", "tmpfs", "/not/there/yet", &[]).make();
    let _ = bed.call(&["plan", c.bundle.to_str().expect("path")]).run().ok();
    assert!(!c.bundle.join("rootfs/not").exists());
    assert!(!bed.root().join(&c.id).exists());
}

fn plan_as_json(bed: &Bed) {
    let c = bed.bundle().make();
    let outcome =
        bed.call_bare(&["plan", "--format", "json", c.bundle.to_str().expect("path")]).run().ok();
    let plan: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    for actor in ["host", "init"] {
        let steps = plan[actor].as_array().expect("steps");
        assert!(
            !steps.is_empty()
                && steps.iter().all(|step| step["phase"].is_string() && step["step"].is_string())
        );
    }
}

fn plan_of_a_broken_bundle(bed: &Bed) {
    let c = bed.bundle().set("/process/cwd", json!("relative")).make();
    let outcome = bed.call_bare(&["plan", c.bundle.to_str().expect("path")]).run().exits(1);
    assert!(outcome.stderr.contains("Cwd must be an absolute path"), "{outcome}");
}

/// The steps of a trace or plan table: what follows actor and phase.
fn steps(text: &str, actor: &str) -> Vec<String> {
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == actor)?;
        Some(words.get(at + 2..)?.join(" "))
    });
    rows.filter(|step| !step.is_empty()).collect()
}

fn trace_of_run(bed: &Bed) {
    let c = bed.bundle().sh("exit 5").make();
    let file = bed.dir.join("trace");
    c.run_with(&["--trace", file.to_str().expect("path")]).exits(5);
    let text = fs::read_to_string(file).expect("trace");
    assert!(steps(&text, "host").len() > 3 && steps(&text, "init").len() > 20, "{text}");
    for phase in ["security", "mounts", "platform", "cgroups", "bootstrap"] {
        assert!(text.lines().any(|line| line.starts_with(phase)), "the sum of {phase}: {text}");
    }
}

fn trace_has_every_planned_step(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let plan = bed.call_bare(&["plan", c.bundle.to_str().expect("path")]).run().ok().stdout;
    let file = bed.dir.join("trace");
    c.run_with(&["--trace", file.to_str().expect("path")]).ok();
    let trace = fs::read_to_string(file).expect("trace");
    let done = steps(&trace, "init");
    for planned in steps(&plan, "init") {
        // The keyring carries the container's name, which a plan has not; the
        // plan is that of `create`, which says when it is ready and waits for a
        // start with little open; and an exec that succeeds leaves nobody to
        // record its end.
        let named = planned.replace(".plan", &format!(".{}", c.id));
        if !["await", "announce", "release", "exec"].iter().any(|word| planned.starts_with(word)) {
            assert!(done.contains(&named), "{planned:?} is not in the trace");
        }
    }
}

fn trace_of_a_failed_start(bed: &Bed) {
    let c = bed.bundle().args(&["/no/such"]).make();
    let file = bed.dir.join("trace");
    c.run_with(&["--trace", file.to_str().expect("path")]).fails("no such file or directory");
    assert!(!c.exists());
}

fn create_with_config_elsewhere(bed: &Bed) {
    let c = bed.bundle().sh("echo elsewhere").make();
    let config = bed.dir.join("other.json");
    fs::rename(c.bundle.join("config.json"), &config).expect("move config");
    let created = c.create_with(&["--config", config.to_str().expect("path")]).ok();
    c.start().ok();
    created.wait_output("elsewhere");
}

fn cgroup_manager_disabled(bed: &Bed) {
    let mut bundle = bed.bundle();
    let mounts = bundle.config["mounts"].as_array_mut().expect("mounts");
    mounts.retain(|mount| mount["type"] != "cgroup");
    let c = bundle.args(&["/bin/cat", "/proc/self/cgroup"]).make();
    let bundle = c.bundle.to_string_lossy();
    let outcome =
        bed.call(&["--cgroup-manager", "disabled", "run", "--bundle", &bundle, &c.id]).run().ok();
    assert!(!outcome.stdout.contains(&c.id), "{outcome}");
    let c = bed.bundle().args(&["/bin/true"]).make();
    let bundle = c.bundle.to_string_lossy();
    bed.call(&["--cgroup-manager=cgroupfs", "run", "--bundle", &bundle, &c.id]).run().ok();
}

fn rootless_is_accepted(bed: &Bed) {
    for value in ["auto", "false"] {
        let c = bed.bundle().args(&["/bin/true"]).make();
        let bundle = c.bundle.to_string_lossy();
        bed.call(&["--rootless", value, "run", "--bundle", &bundle, &c.id]).run().ok();
    }
}
