//! Walks through `create` and `run` of a container in a systemd scope (`scripts/systemd-host`): neither its unit nor its
//! cgroup is left by a failed step, or by a process that is killed.

use super::calls::making;
use super::fault_points;
use super::walk::Walk;
use crate::systemd::{left_in_slice, systemd};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(every_step).needs(faults_and_systemd).on(&[View::V2]),
    case!(every_step_of_a_job_awaited).needs(faults_and_systemd).on(&[View::V2]),
    case!(every_call_of_create).needs(faults_and_systemd).on(&[View::V2]),
    case!(every_call_of_run).needs(faults_and_systemd).on(&[View::V2]),
];

fn faults_and_systemd() -> Result<(), String> {
    fault_points()?;
    systemd()
}

fn named<'a>(bundle: Bundle<'a>, prefix: &str) -> Bundle<'a> {
    bundle.set("/linux/cgroupsPath", json!(format!("system.slice:{prefix}:walk")))
}

fn walk(bundle: Bundle<'_>, prefix: &'static str, awaited: &str) {
    let mut walk = Walk::new(named(bundle, prefix));
    walk.in_scope = true;
    walk.left = Box::new(move || left_in_slice(&format!("{prefix}-")));
    let steps = walk.steps();
    assert!(steps.iter().any(|step| step.name == "await scope" && step.object == awaited));
    walk.take();
}

fn every_step(bed: &Bed) {
    walk(bed.bundle(), "steps", "accepted");
}

/// A hook may change the cgroup, so init waits for systemd's job.
fn every_step_of_a_job_awaited(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    walk(bed.bundle().set("/hooks/createRuntime", hook), "hooked", "started");
}

fn every_call_of_create(bed: &Bed) {
    let c = named(bed.bundle(), "created").make();
    making(&c, &|| left_in_slice("created-"), &|| c.scope_call("create", &[]));
}

fn every_call_of_run(bed: &Bed) {
    let c = named(bed.bundle().args(&["/bin/true"]), "called").make();
    making(&c, &|| left_in_slice("called-"), &|| c.scope_call("run", &[]));
}
