//! The parent's steps before init exists.

use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::pick::{
    Step, executes, goes_elsewhere, init, joins, mounts, parent, parent_takes, takes,
};
use crate::clone::BEFORE_USER;
use crate::step::{InitStep, ParentStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "proc-first",
        what: "the host's procfs is opened before all steps except that for the dumpable flag",
        why: "later, /proc may belong to a container (CVE-2019-16884, CVE-2025-52881)",
        laws: &[
            Law::Once(parent!(ParentStep::OpenProc)),
            Law::Before(parent!(ParentStep::OpenProc), |step| {
                step.parent.is_some() && !parent!(ParentStep::Undumpable)(step)
            }),
        ],
    },
    Rule {
        name: "undumpable-before-sharing",
        what: "a process is undumpable before it joins namespaces or lets init continue",
        why: "others in the namespaces could trace it and take its descriptors (CVE-2016-9962)",
        laws: &[
            Law::Needs(
                parent!(ParentStep::Admit | ParentStep::RecordBirth),
                parent!(ParentStep::Undumpable),
            ),
            Law::Own(undumpable_before_sharing),
        ],
    },
    Rule {
        name: "maps-before-undumpable",
        what: "an unprivileged caller maps the ids while the parent and init are dumpable",
        why: "newuidmap checks the owner of /proc/PID, which is root if PID is undumpable",
        laws: &[Law::Before(
            parent!(ParentStep::MapOwnId(_) | ParentStep::MapIdsThrough(_)),
            |step| parent!(ParentStep::Undumpable)(step) || init!(InitStep::Undumpable)(step),
        )],
    },
    Rule {
        name: "inherited-oom-score",
        what: "an unprivileged caller sets init's OOM score while dumpable, before the clone",
        why: "later, its /proc/self/oom_score_adj belongs to root; init inherits the score",
        laws: &[Law::Before(
            parent!(ParentStep::InheritOomScore(_)),
            parent!(ParentStep::Undumpable | ParentStep::Clone { .. }),
        )],
    },
    Rule {
        name: "modules-first",
        what: "security modules are checked before anything is created",
        why: "if a module is missing, nothing has to be undone",
        laws: &[Law::Before(parent!(ParentStep::RequireModule(_)), |step| {
            parent_takes(step)
                || parent!(
                    ParentStep::CreateCgroup | ParentStep::MakeNetwork | ParentStep::Clone { .. }
                )(step)
        })],
    },
    Rule {
        name: "cgroup-before-trees",
        what: "the cgroup is created before mount sources are opened, and before init",
        why: "its v1 directories are among the sources; its limits apply when init is created",
        laws: &[
            Law::Once(parent!(ParentStep::CreateCgroup)),
            Law::Before(parent!(ParentStep::CreateCgroup), |step| {
                takes(step) || parent!(ParentStep::Clone { .. })(step)
            }),
        ],
    },
    Rule {
        name: "sources-before-mounts",
        what: "mount sources of the host are opened before anything is mounted",
        why: "a mount of the container could lead to another source (CVE-2021-30465)",
        laws: &[
            Law::Before(takes, mounts),
            Law::Before(parent_takes, parent!(ParentStep::Clone { .. })),
        ],
    },
    Rule {
        name: "layers-in-order",
        what: "layers are mapped, opened, assembled and detached, in this order",
        why: "overlayfs uses the state of the layers at the time of the mount",
        laws: &[
            Law::Before(
                parent!(ParentStep::MapLayers { .. }),
                parent!(
                    ParentStep::OpenLayers | ParentStep::MakeUpper | ParentStep::AssembleRootfs
                ),
            ),
            Law::Before(
                parent!(ParentStep::OpenLayers | ParentStep::MakeUpper),
                parent!(ParentStep::AssembleRootfs),
            ),
            Law::Before(parent!(ParentStep::AssembleRootfs), parent!(ParentStep::DetachLayers)),
        ],
    },
    Rule {
        name: "elsewhere-only-to-clone",
        what: "the parent enters other namespaces only for the clone",
        why: "paths would refer to other files there, and the parent must return",
        laws: &[
            Law::Before(
                parent!(ParentStep::OpenNamespace { .. } | ParentStep::OpenRoot { .. }),
                goes_elsewhere,
            ),
            Law::Then(goes_elsewhere, parent!(ParentStep::Clone { .. }), |step| {
                goes_elsewhere(step) || parent!(ParentStep::RunOn(_))(step)
            }),
            Law::Each(
                parent!(ParentStep::EnterNamespace { .. }),
                parent!(ParentStep::EnterNamespace { kind, .. } if BEFORE_USER.contains(kind)),
            ),
        ],
    },
];

/// Checks that every process is undumpable before it shares namespaces: it becomes undumpable itself, or inherits the
/// flag. An init that joins nothing shares nothing until the createRuntime hooks have run.
fn undumpable_before_sharing(view: &View<'_>, finding: &mut Finding) {
    finding.applies = true;
    let of_parent = view.first(parent!(ParentStep::Undumpable));
    let own = view.first(init!(InitStep::Undumpable));
    let is_inherited =
        of_parent.is_some() && of_parent < view.first(parent!(ParentStep::Clone { .. }));
    let hooks = view.first(init!(InitStep::AwaitHooks));
    let hooks = hooks.filter(|_| view.all(|step| joins(step) || goes_elsewhere(step)).is_empty());
    for number in view.all(shares) {
        let is_so = match view.step(number).init {
            Some(_) => {
                let is_alone = hooks.is_some_and(|hooks| number < hooks);
                is_inherited || is_alone || own.is_some_and(|own| own < number)
            }
            None => of_parent.is_some_and(|of_parent| of_parent < number),
        };
        if !is_so {
            finding.report(number);
        }
    }
}

/// Selects steps that may run only in an undumpable process.
fn shares(step: Step<'_>) -> bool {
    joins(step)
        || goes_elsewhere(step)
        || executes(step)
        || init!(InitStep::BecomeRoot | InitStep::Unshare(_) | InitStep::RunHooks { .. })(step)
}
