//! Makes the steps that need AppArmor or SELinux fail, in guests whose kernels have these modules
//! (`scripts/bed guest-labels`). All other steps are tested on the machine itself.

use super::walk::Walk;
use super::{KINDS, fault_points, faulty};
use crate::labels::{apparmor, selinux};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::steps;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(with_a_profile).needs(faults_and_profiles),
    case!(with_labels).needs(faults_and_policy),
];

fn faults_and_profiles() -> Result<(), String> {
    fault_points()?;
    apparmor::profiles()
}

fn faults_and_policy() -> Result<(), String> {
    fault_points()?;
    selinux::policy()
}

fn with_a_profile(bed: &Bed) {
    let profile = json!(apparmor::CONFINED);
    let walk = Walk::new(bed.bundle().set("/process/apparmorProfile", profile.clone()));
    strike(&walk, &["require module", "apply apparmor profile"]);
    let c = bed.bundle().set("/process/apparmorProfile", profile).make().detached();
    strike_exec(&c, &["apply apparmor profile"]);
}

fn with_labels(bed: &Bed) {
    let bundle = || {
        let bundle = bed.bundle().set("/process/selinuxLabel", json!(selinux::CONTAINER));
        bundle.set("/linux/mountLabel", json!(selinux::OWN))
    };
    strike(&Walk::new(bundle()), &["require module", "label keyring", "label process"]);
    strike_exec(&bundle().make().detached(), &["label keyring", "label process"]);
}

/// Makes the steps of these kinds fail, during `create`.
fn strike(walk: &Walk<'_>, kinds: &[&str]) {
    let steps = walk.steps();
    for kind in kinds {
        let mut all = steps.iter().filter(|step| step.name == *kind).peekable();
        assert!(all.peek().is_some(), "no step {kind}: {steps:?}");
        all.for_each(|step| {
            walk.strike(step);
        });
    }
}

/// Makes init's steps of these kinds fail in `exec`. The plan of `exec` can't be printed, so this function learns the
/// steps' names from the error messages.
fn strike_exec(c: &Container<'_>, kinds: &[&str]) {
    let call =
        |step, kind| faulty(c.id_call("exec", &[], &["/bin/true"]), "init", step, kind).run();
    let processes = || c.sh("ls -d /proc/[0-9]*").ok().lines().len();
    let before = processes();
    let mut struck = Vec::new();
    for number in 0.. {
        let failed = call(number, KINDS[0]);
        if failed.code() == 0 {
            break;
        }
        let step = steps::named_by("init", number, &failed.stderr);
        let Some(step) = step.filter(|step| kinds.contains(&&*step.name)) else { continue };
        assert_ne!(call(number, KINDS[1]).code(), 0, "{step:?} was not struck");
        assert_eq!((c.status().as_str(), processes()), ("running", before), "{step:?}");
        struck.push(step.name);
    }
    assert!(kinds.iter().all(|kind| struck.iter().any(|name| name == kind)), "{struck:?}");
}
