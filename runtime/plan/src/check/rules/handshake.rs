//! The messages between the two actors, and the steps that must precede them.

use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::pick::{container_hooks, enters_root};
use crate::check::pick::{executes, fills, init, parent, start_hooks};
use crate::step::{InitStep, Memory, ParentStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "words-match",
        what: "each actor waits for exactly the messages that the other one sends, in their order",
        why: "otherwise both would wait for ever",
        laws: &[Law::Own(|view, finding| {
            finding.applies = true;
            view.messages_match(finding);
        })],
    },
    Rule {
        name: "outside-before-admit",
        what: "ids, limits, devices and the scope's cgroup are set up before init may continue",
        why: "init relies on them from then on",
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
                        | ParentStep::VerifyIds(_)
                        | ParentStep::LimitResources(_)
                        | ParentStep::MoveNetDevices { .. }
                        | ParentStep::ReleaseScope { .. }
                ),
                parent!(ParentStep::Admit | ParentStep::RecordBirth),
            ),
        ],
    },
    Rule {
        name: "scope-before-program",
        what: "systemd has accepted an early scope before hooks and program run",
        why: "it may refuse the scope, or disable its controllers",
        laws: &[
            Law::Before(parent!(ParentStep::RecordBirth), parent!(ParentStep::AwaitScope(_))),
            Law::Before(
                parent!(ParentStep::AwaitScope(_)),
                parent!(ParentStep::RunHooks | ParentStep::Commit),
            ),
        ],
    },
    Rule {
        name: "recorded-before-it-runs",
        what: "everything is set up and recorded before init may execute the program",
        why: "a killed command must leave nothing that other commands do not find",
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
        what: "createRuntime and createContainer hooks run after the mounts, before the new root",
        why: "runtime-spec: these hooks see the mounts, and their programs outside the new root",
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
        what: "the program is found before init reports that it is ready",
        why: "errors should occur in create rather than in start",
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
        what: "init closes the host's descriptors before start and its hooks",
        why: "processes that enter the container could reach them by /proc/1/fd (CVE-2024-21626)",
        laws: &[Law::Needs(
            |step| start_hooks(step) || init!(InitStep::AwaitStart)(step),
            init!(InitStep::ReleaseDescriptors { .. }),
        )],
    },
    Rule {
        name: "little-after-start",
        what: "after start, only hooks, the filter, the last capabilities and the program follow",
        why: "errors should occur in create rather than in start",
        laws: &[Law::Then(init!(InitStep::AwaitStart), executes, |step| {
            start_hooks(step)
                || init!(
                    InitStep::BecomeReaper
                        | InitStep::PassRequests
                        | InitStep::StandIn
                        | InitStep::LoadSeccomp { .. }
                        | InitStep::SetCapabilities(_)
                )(step)
        })],
    },
    Rule {
        name: "stands-in-for-the-exec",
        what: "init stands in or reaps only in place of the filter, the last capabilities and exec",
        why: "a template's child does these itself; everything else must be complete and recorded",
        laws: &[
            Law::Then(init!(InitStep::BecomeReaper | InitStep::StandIn), executes, |step| {
                init!(InitStep::LoadSeccomp { .. } | InitStep::SetCapabilities(_))(step)
            }),
            Law::Needs(init!(InitStep::StandIn), parent!(ParentStep::AwaitReady)),
        ],
    },
    Rule {
        name: "own-memory-to-stay",
        what: "an init that stays as reaper or stand-in has a copy of the parent's memory",
        why: "the parent frees and changes its memory once the program has begun",
        laws: &[Law::Own(own_memory_to_stay)],
    },
    Rule {
        name: "exec-last",
        what: "init's last step executes the program",
        why: "init does not exist afterwards",
        laws: &[Law::Last(executes)],
    },
    Rule {
        name: "oom-score-back-last",
        what: "the parent restores its OOM score at the very end",
        why: "processes that share memory share the score, which is init's until its exec",
        laws: &[Law::Before(
            |step| step.parent.is_some() && !parent!(ParentStep::RestoreOomScore)(step),
            parent!(ParentStep::RestoreOomScore),
        )],
    },
];

fn own_memory_to_stay(view: &View<'_>, finding: &mut Finding) {
    let stays = view.first(init!(InitStep::BecomeReaper | InitStep::StandIn));
    let Some(stays) = stays else { return };
    finding.applies = true;
    // With an intermediate, this is the memory of the intermediate; init has a copy in any case.
    let of_parent = parent!(ParentStep::Clone { memory: Memory::Shared, intermediate: None, .. });
    if let Some(clone) = view.first(of_parent) {
        finding.report(clone);
        finding.report(stays);
    }
}
