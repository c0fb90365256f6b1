//! The seccomp filter, and the privileges needed to load it.

use alloc::vec::Vec;

use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::pick::{Step, executes, init};
use crate::process::CAP_SYS_ADMIN;
use crate::step::{Capabilities, InitStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "filter-may-be-loaded",
        what: "the filter is loaded after the change of user, with no_new_privs or CAP_SYS_ADMIN",
        why: "seccomp(2) requires one of both, and a filter need not allow setresuid(2)",
        laws: &[
            Law::Before(
                init!(InitStep::ChangeUser { .. } | InitStep::NoNewPrivileges),
                init!(InitStep::LoadSeccomp { .. }),
            ),
            Law::Own(may_be_loaded),
        ],
    },
    Rule {
        name: "sys-admin-given-back",
        what: "CAP_SYS_ADMIN kept for loading the filter is dropped afterwards, without prctl(2)",
        why: "the configuration does not grant it to the program; the filter may deny prctl(2)",
        laws: &[Law::Own(given_back)],
    },
    Rule {
        name: "filter-before-exec",
        what: "under a filter without a listener, init calls only capset(2) and execve(2)",
        why: "the filter need not allow any other call of init",
        laws: &[Law::Own(|view, finding| {
            if view.first(init!(InitStep::HandOverListener)).is_none() {
                Law::Then(
                    init!(InitStep::LoadSeccomp { .. }),
                    executes,
                    init!(InitStep::SetCapabilities(_)),
                )
                .eval(view, finding);
            }
        })],
    },
    Rule {
        name: "listener-handed-over",
        what: "the listener is sent to the parent right after the load, and before start",
        why: "calls of init wait for the agent's answer; after start, the parent has exited",
        laws: &[
            Law::Own(|view, finding| {
                if view.plan.filter.as_ref().is_some_and(seccomp::Program::has_listener) {
                    Law::Then(
                        init!(InitStep::LoadSeccomp { .. }),
                        init!(InitStep::HandOverListener),
                        |_| false,
                    )
                    .eval(view, finding);
                }
            }),
            Law::Before(init!(InitStep::HandOverListener), init!(InitStep::AwaitCommit)),
        ],
    },
    Rule {
        name: "hooks-under-filter",
        what: "startContainer hooks run under the filter, and load it themselves if init has not",
        why: "they are programs of the container; the filter need not allow init's calls for them",
        laws: &[Law::Own(hooks_under_filter)],
    },
];

/// The privileges of a process when it loads the filter, and afterwards.
struct Load {
    number: usize,
    /// Whether no_new_privs is set when the filter is loaded.
    confined: bool,
    /// The capabilities while the filter is loaded.
    before: Option<Capabilities>,
    /// The final capabilities.
    after: Option<Capabilities>,
}

/// Returns every step that loads the filter: init's own, and those that run hooks whose processes load it.
fn loads(view: &View<'_>) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    let (mut confined, mut before) = (false, None);
    for number in view.init() {
        let mut after = None;
        match view.step(number).init {
            Some(InitStep::NoNewPrivileges) => confined = true,
            Some(InitStep::SetCapabilities(sets)) => {
                before = Some(*sets);
                if let Some(last) = loads.last_mut() {
                    last.after = before;
                }
            }
            Some(InitStep::RunHooks { confined: Some(own), .. }) => after = own.capabilities,
            Some(InitStep::LoadSeccomp { .. }) => {}
            _ => continue,
        }
        if loading(view.step(number)) {
            loads.push(Load { number, confined, before, after });
        }
    }
    loads
}

fn loading(step: Step<'_>) -> bool {
    matches!(
        step.init,
        Some(InitStep::RunHooks { confined: Some(_), .. } | InitStep::LoadSeccomp { .. })
    )
}

fn may_be_loaded(view: &View<'_>, finding: &mut Finding) {
    for load in loads(view) {
        finding.applies = true;
        let is_admin = load.before.is_none_or(|sets| sets.effective & CAP_SYS_ADMIN != 0);
        if !load.confined && !is_admin {
            finding.report(load.number);
        }
    }
}

fn given_back(view: &View<'_>, finding: &mut Finding) {
    for load in loads(view) {
        finding.applies = true;
        let is_given_back = load.after.is_some_and(|sets| sets.ambient == 0);
        if !load.confined && load.before.is_some() && !is_given_back {
            finding.report(load.number);
        }
    }
}

fn hooks_under_filter(view: &View<'_>, finding: &mut Finding) {
    let Some(load) = view.first(init!(InitStep::LoadSeccomp { .. })) else { return };
    for number in view.init() {
        if let Some(InitStep::RunHooks { confined, hooks, .. }) = view.step(number).init {
            let is_of_start = hooks.kind == "startContainer";
            finding.applies |= is_of_start;
            if confined.is_some() != (is_of_start && number < load) {
                finding.report(number);
            }
        }
    }
}
