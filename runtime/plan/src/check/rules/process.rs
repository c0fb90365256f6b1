//! The process: its user, privileges and remaining resources.

use crate::check::Rule;
use crate::check::law::{Law, Step};
use crate::check::pick::{container_hooks, executes, fills, gets_root, init, sets_up, start_hooks};
use crate::clone::OTHER_DESCRIPTORS;
use crate::step::{InitStep, Limit, ParentStep, Slot};
use rustix::process::Resource;

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "privileged-before-user",
        what: "mounts, namespaces, devices, terminal and scheduling come before the user changes",
        why: "root's rights go with the user",
        laws: &[
            Law::Once(init!(InitStep::ChangeUser { .. })),
            Law::Before(sets_up, init!(InitStep::ChangeUser { .. })),
        ],
    },
    Rule {
        name: "limits-before-user",
        what: "limits are set before the user changes, but for a low one of descriptors",
        why: "afterwards neither side may raise them",
        laws: &[Law::Before(
            |step| limits(step).iter().any(|limit| limit.resource != Resource::Nofile),
            init!(InitStep::ChangeUser { .. }),
        )],
    },
    Rule {
        name: "low-nofile-last",
        what: "a low RLIMIT_NOFILE comes after all that opens files",
        why: "init holds the descriptors of all mounts, and those to be preserved (EMFILE)",
        laws: &[Law::Before(
            |step| sets_up(step) || init!(InitStep::FindProgram { .. })(step),
            |step| {
                limits(step).iter().any(|limit| {
                    let room = OTHER_DESCRIPTORS + u64::from(Slot::FIRST_FREE.0);
                    limit.resource == Resource::Nofile && limit.soft.is_some_and(|soft| soft < room)
                })
            },
        )],
    },
    Rule {
        name: "umask-after-nodes",
        what: "the umask is the program's alone",
        why: "modes of nodes and directories are meant as they are",
        laws: &[
            Law::Before(fills, init!(InitStep::SetUmask(_))),
            Law::Needs(executes, init!(InitStep::SetUmask(_))),
        ],
    },
    Rule {
        name: "cwd-verified",
        what: "the working directory is entered before the user changes, and proven inside after",
        why: "one outside the root is a way out (CVE-2024-21626)",
        laws: &[
            Law::Before(
                init!(InitStep::ChangeDirectory { .. }),
                init!(InitStep::ChangeUser { .. }),
            ),
            Law::Before(
                |step| {
                    gets_root(step)
                        || init!(InitStep::ChangeDirectory { .. } | InitStep::ChangeUser { .. })(
                            step,
                        )
                },
                init!(InitStep::VerifyDirectory),
            ),
            Law::Needs(executes, init!(InitStep::VerifyDirectory)),
        ],
    },
    Rule {
        name: "capabilities-around-user",
        what: "the bounding set is limited before the user changes, others are set after",
        why: "the first takes CAP_SETPCAP; the change clears effective and ambient ones",
        laws: &[
            Law::Before(
                init!(InitStep::LimitCapabilities { .. }),
                init!(InitStep::ChangeUser { .. }),
            ),
            Law::Before(init!(InitStep::ChangeUser { .. }), init!(InitStep::SetCapabilities(_))),
        ],
    },
    Rule {
        name: "labels-last",
        what: "profile and label of the exec come after other hooks",
        why: "whatever executes next takes them on",
        laws: &[Law::Before(
            |step| {
                container_hooks(step)
                    || init!(
                        InitStep::AwaitHooks
                            | InitStep::JoinKeyring { .. }
                            | InitStep::ChangeUser { .. }
                    )(step)
            },
            init!(InitStep::ApplyProfile(_) | InitStep::LabelProcess(_)),
        )],
    },
    Rule {
        name: "close-fds-last",
        what: "other descriptors are set to close on exec when nothing is opened any more",
        why: "one of the host's in the program is a way out (CVE-2024-21626)",
        laws: &[
            Law::Once(init!(InitStep::CloseFds { .. })),
            Law::Then(init!(InitStep::CloseFds { .. }), executes, |step| {
                start_hooks(step)
                    || init!(
                        InitStep::LimitResources(_)
                            | InitStep::ReleaseDescriptors { .. }
                            | InitStep::LoadSeccomp { .. }
                            | InitStep::HandOverListener
                            | InitStep::SetCapabilities(_)
                            | InitStep::AnnounceReady
                            | InitStep::AwaitCommit
                            | InitStep::AwaitStart
                    )(step)
            }),
        ],
    },
];

fn limits<'a>(step: Step<'a>) -> &'a [Limit] {
    match (step.parent, step.init) {
        (Some(ParentStep::LimitResources(limits)), _) => limits,
        (_, Some(InitStep::LimitResources(limits))) => limits,
        _ => &[],
    }
}
