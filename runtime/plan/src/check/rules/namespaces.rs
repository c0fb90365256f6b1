//! Rules for the order in which init joins namespaces and cgroups.

use sys::clone::CloneFlags;

use crate::check::Rule;
use crate::check::law::{Law, Step};
use crate::check::pick::{
    container_hooks, executes, fills, init, init_takes, joins, parent, start_hooks,
};
use crate::step::{InitStep, ParentStep, Slot};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "admitted-before-root",
        what: "init becomes root of a user namespace once that has ids, and init its limits",
        why: "without a mapping there is no uid 0; root in there may not raise limits",
        laws: &[
            Law::Needs(init!(InitStep::BecomeRoot), init!(InitStep::AwaitAdmission)),
            Law::Before(
                init!(InitStep::AwaitAdmission),
                init!(InitStep::EnterTime { .. } | InitStep::Undumpable),
            ),
        ],
    },
    Rule {
        name: "time-while-dumpable",
        what: "init makes its time namespace before it is undumpable",
        why: "its own timens_offsets is root's afterwards",
        laws: &[Law::Before(init!(InitStep::EnterTime { .. }), init!(InitStep::Undumpable))],
    },
    Rule {
        name: "joined-before-root",
        what: "namespaces are joined before init becomes root of its user namespace",
        why: "uid 0 is then that of the namespace it has come to",
        laws: &[Law::Before(joins, init!(InitStep::BecomeRoot))],
    },
    Rule {
        name: "taken-before-root",
        what: "init takes mounts of the host before it joins namespaces or becomes root",
        why: "only the caller's own table and rights have them",
        laws: &[Law::Before(init_takes, |step| joins(step) || init!(InitStep::BecomeRoot)(step))],
    },
    Rule {
        name: "cgroup-before-its-namespace",
        what: "init is in its cgroup before it enters a cgroup namespace or works",
        why: "the namespace's root is where it is then; from inside there may be no way",
        laws: &[
            Law::Once(init!(InitStep::JoinCgroups)),
            Law::Before(init!(InitStep::JoinCgroups), |step| {
                fills(step)
                    || container_hooks(step)
                    || start_hooks(step)
                    || executes(step)
                    || in_cgroup_namespace(step)
            }),
        ],
    },
    Rule {
        name: "cpus-after-cgroup",
        what: "init takes its CPUs in its cgroup, before hooks and the program",
        why: "a cpuset sets them anew; the caller's are no business of the container's",
        laws: &[
            Law::Before(
                init!(InitStep::JoinCgroups),
                init!(InitStep::RunOn(_) | InitStep::RunOnEveryCpu),
            ),
            Law::Needs(
                |step| executes(step) || container_hooks(step) || start_hooks(step),
                init!(InitStep::RunOn(_) | InitStep::RunOnEveryCpu),
            ),
        ],
    },
    Rule {
        name: "ipc-made-by-root",
        what: "in a user namespace its root makes the IPC namespace",
        why: "the mqueue file system is its maker's, and nobody else can label it",
        laws: &[
            Law::Needs(
                init!(InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWIPC)),
                init!(InitStep::BecomeRoot),
            ),
            Law::Each(
                parent!(ParentStep::Clone { flags, .. } if flags.contains(CloneFlags::NEWUSER)),
                parent!(ParentStep::Clone { flags, .. } if !flags.contains(CloneFlags::NEWIPC)),
            ),
        ],
    },
    Rule {
        name: "template-left-at-once",
        what: "init leaves the template for a copy of it before anything else",
        why: "what it mounted there would be every container's",
        laws: &[Law::Then(
            init!(InitStep::JoinNamespace { slot: Slot::TEMPLATE, .. }),
            init!(InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWNS)),
            |_| false,
        )],
    },
    Rule {
        name: "session-before-terminal",
        what: "init leads a session before it opens its terminal",
        why: "only a leader without a terminal gets one to control (tty_ioctl(4))",
        laws: &[Law::Before(init!(InitStep::NewSession), init!(InitStep::OpenConsole { .. }))],
    },
    Rule {
        name: "key-label-taken-back",
        what: "keys get SELinux' label for the session keyring alone",
        why: "later ones would have it, too",
        laws: &[Law::Then(
            init!(InitStep::LabelKeys(label) if !label.is_empty()),
            init!(InitStep::LabelKeys(label) if label.is_empty()),
            init!(InitStep::JoinKeyring { .. }),
        )],
    },
];

fn in_cgroup_namespace(step: Step<'_>) -> bool {
    let kinds = match (step.parent, step.init) {
        (Some(ParentStep::Clone { flags, .. }), _) => *flags,
        (_, Some(InitStep::JoinNamespace { kind, .. })) => *kind,
        (_, Some(InitStep::JoinProcess { kinds, .. }) | Some(InitStep::Unshare(kinds))) => *kinds,
        _ => return false,
    };
    kinds.contains(CloneFlags::NEWCGROUP)
}
