//! The process: its user, privileges and remaining resources.

use crate::check::Rule;
use crate::check::law::Law;
use crate::check::pick::{
    Step, container_hooks, executes, fills, gets_root, init, sets_up, start_hooks,
};
use crate::clone::OTHER_DESCRIPTORS;
use crate::step::{InitStep, Limit, ParentStep, Slot};
use rustix::process::Resource;

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "privileged-before-user",
        what: "mounts, namespaces, devices, terminal and scheduling precede the change of user",
        why: "the change of user drops root's privileges",
        laws: &[
            Law::Once(init!(InitStep::ChangeUser { .. })),
            Law::Before(sets_up, init!(InitStep::ChangeUser { .. })),
        ],
    },
    Rule {
        name: "limits-before-user",
        what: "limits are set before the change of user, except a low limit of descriptors",
        why: "afterwards, neither the parent nor init may raise limits",
        laws: &[Law::Before(
            |step| limits(step).iter().any(|limit| limit.resource != Resource::Nofile),
            init!(InitStep::ChangeUser { .. }),
        )],
    },
    Rule {
        name: "low-nofile-last",
        what: "a low RLIMIT_NOFILE is set after all steps that open files",
        why: "init has descriptors of all mounts, and descriptors for the program (EMFILE)",
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
        what: "the umask is set only for the program",
        why: "the modes of nodes and directories are applied as configured",
        laws: &[
            Law::Before(fills, init!(InitStep::SetUmask(_))),
            Law::Needs(executes, init!(InitStep::SetUmask(_))),
        ],
    },
    Rule {
        name: "cwd-verified",
        what: "the working directory is entered before the change of user, and verified after it",
        why: "a directory outside the root is a way out of the container (CVE-2024-21626)",
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
        what: "the bounding set is limited before the change of user, other sets are set after it",
        why: "the first requires CAP_SETPCAP; the change clears effective and ambient sets",
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
        what: "the AppArmor profile and the SELinux label for the exec are set after other hooks",
        why: "the next program that is executed gets them",
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
        what: "other descriptors are set close-on-exec when no more files are opened",
        why: "a descriptor of the host is a way out of the container (CVE-2024-21626)",
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
                            | InitStep::BecomeReaper
                            | InitStep::PassRequests
                            | InitStep::StandIn
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
