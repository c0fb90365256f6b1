//! The messages between the two actors, and the steps that must precede them.

use crate::check::Rule;
use crate::check::law::Law;
use crate::check::pick::{container_hooks, enters_root};
use crate::check::pick::{executes, fills, init, parent, start_hooks};
use crate::step::{InitStep, ParentStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "words-match",
        what: "what one actor says the other one awaits, in the same order",
        why: "else both wait for ever",
        laws: &[Law::Own(|look, finding| {
            finding.applies = true;
            look.words_match(finding);
        })],
    },
    Rule {
        name: "outside-before-admit",
        what: "ids, limits, devices and the scope's cgroup come before init is let on",
        why: "init counts on them from there on",
        laws: &[
            Law::Before(
                parent!(ParentStep::Clone { .. }),
                parent!(ParentStep::ReleaseScope { .. }),
            ),
            Law::Before(
                parent!(
                    ParentStep::MapIds(_)
                        | ParentStep::MapOwnId(_)
                        | ParentStep::MapIdsThrough(_)
                        | ParentStep::LimitResources(_)
                        | ParentStep::MoveNetDevices { .. }
                        | ParentStep::ReleaseScope { .. }
                ),
                parent!(ParentStep::Admit | ParentStep::RecordBirth),
            ),
        ],
    },
    Rule {
        name: "recorded-before-it-runs",
        what: "all is done and on record before init is let into the program",
        why: "a killed command must leave nothing that no other one finds",
        laws: &[
            Law::Once(parent!(ParentStep::RecordBirth)),
            Law::Before(parent!(ParentStep::Clone { .. }), parent!(ParentStep::RecordBirth)),
            Law::Before(
                parent!(
                    ParentStep::RecordBirth
                        | ParentStep::EnterResctrl
                        | ParentStep::AdjustOomScore(_)
                ),
                |step| {
                    executes(step)
                        || start_hooks(step)
                        || parent!(
                            ParentStep::RunHooks | ParentStep::SendListener(_) | ParentStep::Commit
                        )(step)
                },
            ),
            Law::Needs(
                |step| executes(step) || start_hooks(step) || init!(InitStep::AwaitStart)(step),
                init!(InitStep::AwaitCommit),
            ),
        ],
    },
    Rule {
        name: "hooks-in-place",
        what: "createRuntime, createContainer hooks run between the mounts and the new root",
        why: "runtime-spec: they see the mounts, and their programs outside",
        laws: &[
            Law::Before(fills, |step| container_hooks(step) || init!(InitStep::AwaitHooks)(step)),
            Law::Before(init!(InitStep::AwaitHooks), container_hooks),
            Law::Before(
                |step| container_hooks(step) || init!(InitStep::AwaitHooks)(step),
                enters_root,
            ),
            Law::Before(init!(InitStep::AwaitStart), start_hooks),
        ],
    },
    Rule {
        name: "program-before-start",
        what: "the program is found before anybody hears that init is ready",
        why: "what can fail fails in create",
        laws: &[
            Law::Needs(
                |step| {
                    executes(step) || init!(InitStep::AnnounceReady | InitStep::AwaitCommit)(step)
                },
                init!(InitStep::FindProgram { .. }),
            ),
            Law::Before(init!(InitStep::FindProgram { .. }), init!(InitStep::LoadSeccomp { .. })),
        ],
    },
    Rule {
        name: "released-before-start",
        what: "init lets go of the host's descriptors before start and its hooks",
        why: "who is let in could reach them by /proc/1/fd (CVE-2024-21626)",
        laws: &[Law::Needs(
            |step| start_hooks(step) || init!(InitStep::AwaitStart)(step),
            init!(InitStep::ReleaseDescriptors { .. }),
        )],
    },
    Rule {
        name: "little-after-start",
        what: "after start come hooks, the filter, the last capabilities and the program",
        why: "what can fail fails in create",
        laws: &[Law::Then(init!(InitStep::AwaitStart), executes, |step| {
            start_hooks(step)
                || init!(InitStep::LoadSeccomp { .. } | InitStep::SetCapabilities(_))(step)
        })],
    },
    Rule {
        name: "exec-last",
        what: "init's last step is its program",
        why: "there is no init after it",
        laws: &[Law::Last(executes)],
    },
    Rule {
        name: "oom-score-back-last",
        what: "the parent takes its OOM score back at the very end",
        why: "all that share memory have one score: init's until its exec",
        laws: &[Law::Before(
            |step| step.parent.is_some() && !parent!(ParentStep::RestoreOomScore)(step),
            parent!(ParentStep::RestoreOomScore),
        )],
    },
];
