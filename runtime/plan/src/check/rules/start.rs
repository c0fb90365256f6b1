//! The parent's steps before init exists.

use crate::check::Rule;
use crate::check::law::{Finding, Law, Look, Step};
use crate::check::pick::{
    executes, goes_elsewhere, init, joins, mounts, parent, parent_takes, takes,
};
use crate::clone::BEFORE_USER;
use crate::step::{InitStep, ParentStep};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "proc-first",
        what: "the host's procfs is opened before all but dumpability",
        why: "what is at /proc later may be a container's (CVE-2019-16884, CVE-2025-52881)",
        laws: &[
            Law::Once(parent!(ParentStep::OpenProc)),
            Law::Before(parent!(ParentStep::OpenProc), |step| {
                step.parent.is_some() && !parent!(ParentStep::Undumpable)(step)
            }),
        ],
    },
    Rule {
        name: "undumpable-before-sharing",
        what: "who joins namespaces or has init go on is undumpable",
        why: "others in there could trace it and take its descriptors (CVE-2016-9962)",
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
        what: "a caller without rights has ids mapped while it and init are dumpable",
        why: "newuidmap looks at who owns /proc/PID, which is root once that is undumpable",
        laws: &[Law::Before(
            parent!(ParentStep::MapOwnId(_) | ParentStep::MapIdsThrough(_)),
            |step| parent!(ParentStep::Undumpable)(step) || init!(InitStep::Undumpable)(step),
        )],
    },
    Rule {
        name: "inherited-oom-score",
        what: "a caller without rights takes on init's OOM score while dumpable, before the clone",
        why: "its own /proc/self/oom_score_adj is root's afterwards; init inherits the score",
        laws: &[Law::Before(
            parent!(ParentStep::InheritOomScore(_)),
            parent!(ParentStep::Undumpable | ParentStep::Clone { .. }),
        )],
    },
    Rule {
        name: "modules-first",
        what: "a security module is asked for before anything is made",
        why: "where it is missing nothing has to be taken back",
        laws: &[Law::Before(parent!(ParentStep::RequireModule(_)), |step| {
            parent_takes(step)
                || parent!(
                    ParentStep::CreateCgroup | ParentStep::MakeNetwork | ParentStep::Clone { .. }
                )(step)
        })],
    },
    Rule {
        name: "cgroup-before-trees",
        what: "the cgroup is made before trees are taken and before init",
        why: "on v1 its directories are among the trees; its limits are there when init is born",
        laws: &[
            Law::Once(parent!(ParentStep::CreateCgroup)),
            Law::Before(parent!(ParentStep::CreateCgroup), |step| {
                takes(step) || parent!(ParentStep::Clone { .. })(step)
            }),
        ],
    },
    Rule {
        name: "sources-before-mounts",
        what: "what is mounted from the host is taken before anything is mounted",
        why: "a mount of the container's could lead to another source (CVE-2021-30465)",
        laws: &[
            Law::Before(takes, mounts),
            Law::Before(parent_takes, parent!(ParentStep::Clone { .. })),
        ],
    },
    Rule {
        name: "layers-in-order",
        what: "layers are mapped, opened, assembled, let go of",
        why: "overlayfs takes what is there when it is mounted",
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
        what: "the parent goes to other namespaces for the clone alone",
        why: "paths would mean something else there; it must come back",
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

/// Checks that a process inherits undumpability, or sets it itself, before it shares namespaces.
fn undumpable_before_sharing(look: &Look<'_>, finding: &mut Finding) {
    finding.applies = true;
    let of_parent = look.first(parent!(ParentStep::Undumpable));
    let own = look.first(init!(InitStep::Undumpable));
    let is_inherited =
        of_parent.is_some() && of_parent < look.first(parent!(ParentStep::Clone { .. }));
    for number in look.all(shares) {
        let is_so = match look.step(number).init {
            Some(_) => is_inherited || own.is_some_and(|own| own < number),
            None => of_parent.is_some_and(|of_parent| of_parent < number),
        };
        if !is_so {
            finding.blame(number);
        }
    }
}

/// Selects steps that require undumpability.
fn shares(step: Step<'_>) -> bool {
    joins(step)
        || goes_elsewhere(step)
        || executes(step)
        || init!(InitStep::BecomeRoot | InitStep::Unshare(_) | InitStep::RunHooks { .. })(step)
}
