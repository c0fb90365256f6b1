//! Features that runc lacks: plans, and options of engines other than runc's.

pub mod starts;

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(plan_names_the_steps).unlike_runc(),
    case!(plan_changes_nothing).unlike_runc(),
    case!(plan_as_json).unlike_runc(),
    case!(plan_tells_its_rules).unlike_runc(),
    case!(plan_tells_a_broken_rule).undefended("after-pivot"),
    case!(plan_of_a_broken_bundle).unlike_runc(),
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
        ("parent", "clone"),
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
    for actor in ["parent", "init"] {
        let steps = plan[actor].as_array().expect("steps");
        assert!(
            !steps.is_empty()
                && steps.iter().all(|step| step["phase"].is_string() && step["step"].is_string())
        );
    }
}

fn plan_tells_its_rules(bed: &Bed) {
    let c = bed.bundle().make();
    let bundle = c.bundle.to_str().expect("path");
    let told = bed.call_bare(&["plan", "--check", bundle]).run().ok();
    let lines = told.lines();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["RULE", "VERDICT", "REASON"]);
    let holds = |line: &&str| line.starts_with("proc-first ") && line.contains(" holds ");
    assert!(lines.iter().any(holds), "{told}");
    let json = bed.call_bare(&["plan", "--check", "--format", "json", bundle]).run().ok();
    let rules: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let rules = rules.as_array().expect("rules");
    assert_eq!(rules.len() + 1, lines.len(), "{told}");
    for rule in rules {
        assert!(rule["rule"].is_string() && rule["what"].is_string() && rule["why"].is_string());
        assert!(["holds", "does not apply"].iter().any(|verdict| rule["verdict"] == *verdict));
    }
}

/// Some defences consist in the order of steps. If such a defence is disabled, `plan --check` reports that the plan
/// breaks the rule about this order.
fn plan_tells_a_broken_rule(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    let c = bed.bundle().set("/hooks", json!({ "createRuntime": hook })).make();
    let bundle = c.bundle.to_str().expect("path");
    let told = bed.call(&["plan", "--check", bundle]).run().exits(1);
    let lines = told.lines();
    let rule = lines.iter().position(|line| line.starts_with("protected-inside "));
    let rule = rule.unwrap_or_else(|| panic!("{told}"));
    assert!(lines[rule].contains(" broken ") && lines[rule + 1].contains("init "), "{told}");
    let json = bed.call(&["plan", "--check", "--format", "json", bundle]).run().exits(1);
    let rules: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let broken = rules.as_array().expect("rules").iter().find(|rule| rule["verdict"] == "broken");
    let steps = broken.expect("a broken rule")["steps"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["actor"] == "init" && step["index"].is_u64()), "{json}");
}

fn plan_of_a_broken_bundle(bed: &Bed) {
    let c = bed.bundle().set("/process/cwd", json!("relative")).make();
    let outcome = bed.call_bare(&["plan", c.bundle.to_str().expect("path")]).run().exits(1);
    assert!(outcome.stderr.contains("Cwd must be an absolute path"), "{outcome}");
}

fn create_with_config_elsewhere(bed: &Bed) {
    let c = bed.bundle().sh("echo elsewhere").make();
    let config = bed.dir.join("other.json");
    fs::rename(c.bundle.join("config.json"), &config).expect("move config");
    let created = c.create_with(&["--config", config.to_str().expect("path")]).ok();
    c.start().ok();
    created.wait_output("elsewhere");
    // The next container uses the same cgroup, by the same configuration.
    c.wait_status("stopped");
    c.delete().ok();
    let c = bed.bundle().make();
    let ran = c.run_with(&["--config", config.to_str().expect("path")]).ok();
    assert_eq!(ran.stdout, "elsewhere\n");
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
