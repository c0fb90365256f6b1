//! Rules for the order in which init joins namespaces and cgroups.

use sys::clone::CloneFlags;

use crate::check::Rule;
use crate::check::law::Law;
use crate::check::pick::{
    Step, container_hooks, executes, fills, init, init_takes, joins, parent, start_hooks,
};
use crate::step::{InitStep, ParentStep, Slot};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "admitted-before-root",
        what: "init becomes root of a user namespace after its ids are mapped and its limits set",
        why: "without a mapping there is no uid 0; root in a user namespace may not raise limits",
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
        what: "init creates its time namespace before it becomes undumpable",
        why: "afterwards, its timens_offsets file in /proc belongs to root",
        laws: &[Law::Before(init!(InitStep::EnterTime { .. }), init!(InitStep::Undumpable))],
    },
    Rule {
        name: "joined-before-root",
        what: "namespaces are joined before init becomes root of its user namespace",
        why: "init must become uid 0 of the user namespace that it has joined",
        laws: &[Law::Before(joins, init!(InitStep::BecomeRoot))],
    },
    Rule {
        name: "taken-before-root",
        what: "init opens mount sources of the host before it joins namespaces or becomes root",
        why: "this requires the caller's mount table and privileges",
        laws: &[Law::Before(init_takes, |step| joins(step) || init!(InitStep::BecomeRoot)(step))],
    },
    Rule {
        name: "cgroup-before-its-namespace",
        what: "init is in its cgroup before it enters a cgroup namespace or does other work",
        why: "its cgroup becomes the namespace's root; cgroups outside may then be unreachable",
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
        what: "init sets its CPU affinity in its cgroup, before hooks and the program",
        why: "a cpuset resets the affinity; the container must not inherit the caller's",
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
        what: "in a user namespace, its root creates the IPC namespace",
        why: "the mqueue file system belongs to its creator, and nobody else can label it",
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
        name: "blank-left-at-once",
        what: "init leaves the blank namespace for a copy of the blank namespace before any other step",
        why: "mounts that init made in the blank namespace would be visible in every container",
        laws: &[Law::Then(
            init!(InitStep::JoinNamespace { slot: Slot::BLANK, .. }),
            init!(InitStep::Unshare(kinds) if kinds.contains(CloneFlags::NEWNS)),
            |_| false,
        )],
    },
    Rule {
        name: "session-before-terminal",
        what: "init creates a session before it opens its terminal",
        why: "only a leader without a terminal gets a controlling terminal (tty_ioctl(4))",
        laws: &[Law::Before(init!(InitStep::NewSession), init!(InitStep::OpenConsole { .. }))],
    },
    Rule {
        name: "key-label-taken-back",
        what: "the SELinux label for keys applies only to the session keyring",
        why: "otherwise later keys would get it, too",
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
