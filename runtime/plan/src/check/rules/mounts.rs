//! Mounts, the change of root, and covered paths.

use sys::mount::attr;

use crate::check::Rule;
use crate::check::law::{Finding, Law, View};
use crate::check::nature::Nature;
use crate::check::pick::{
    enters_network, enters_root, gets_root, init, init_takes, joins, mounts, parent, protects,
};
use crate::step::{InitStep, ParentStep, Slot};

/// The rules.
pub const RULES: &[Rule] = &[
    Rule {
        name: "cut-off-before-mounts",
        what: "mount propagation is disabled, or the blank namespace joined, before the root is attached",
        why: "every mount would propagate to the host",
        laws: &[Law::Needs(
            init!(InitStep::AttachRoot { .. }),
            init!(InitStep::DetachPropagation | InitStep::JoinNamespace { slot: Slot::BLANK, .. }),
        )],
    },
    Rule {
        name: "pins-left-out-last",
        what: "pins are left out of all trees, before the clone",
        why: "init cannot attach them (ELOOP)",
        laws: &[
            Law::Before(parent!(ParentStep::CloneTree(_)), parent!(ParentStep::LeaveOutPins)),
            Law::Before(parent!(ParentStep::LeaveOutPins), parent!(ParentStep::Clone { .. })),
            Law::Own(pins_left_out),
        ],
    },
    Rule {
        name: "root-before-mounts",
        what: "the root is attached before it is entered, and before mounts are made in it",
        why: "mounts in a tree that is not attached require Linux 6.15",
        laws: &[Law::Before(init!(InitStep::AttachRoot { .. }), |step| {
            enters_root(step) || mounts(step) && !init!(InitStep::AttachRoot { .. })(step)
        })],
    },
    Rule {
        name: "one-way-into-root",
        what: "init gets its root only once, after it has joined all namespaces",
        why: "otherwise it runs in the host's root; setns(2) sets the root",
        laws: &[Law::Once(gets_root), Law::Before(joins, enters_root)],
    },
    Rule {
        name: "no-host-path-inside",
        what: "no path of the host is resolved after the root is entered",
        why: "the image would determine the result (CVE-2021-30465)",
        laws: &[Law::Before(
            |step| {
                init_takes(step)
                    || init!(InitStep::AttachRoot { .. } | InitStep::DetachPropagation)(step)
            },
            enters_root,
        )],
    },
    Rule {
        name: "protected-inside",
        what: "terminal, masks, sysctls and cwd are set up when the host's tree is unreachable",
        why: "a link of the image could lead to the host (CVE-2025-31133, CVE-2025-52565)",
        laws: &[Law::Needs(
            |step| {
                protects(step)
                    || init!(
                        InitStep::OpenConsole { .. }
                            | InitStep::WriteSysctl { .. }
                            | InitStep::ChangeDirectory { .. }
                    )(step)
            },
            gets_root,
        )],
    },
    Rule {
        name: "masks-after-mounts",
        what: "a path is masked after everything at, above or below it has been created",
        why: "a later mount would uncover the path, or fail below the mask",
        laws: &[Law::Own(masks_after_mounts)],
    },
    Rule {
        name: "read-only-last",
        what: "a tree becomes read-only after everything in it has been created",
        why: "nothing could be created in it (EROFS)",
        laws: &[Law::Own(read_only_last)],
    },
    Rule {
        name: "frozen-is-own",
        what: "frozen tmpfs are init's own",
        why: "its path may lead to the host",
        laws: &[Law::Own(frozen_is_own)],
    },
    Rule {
        name: "network-before-sysfs",
        what: "init joins or creates its network namespace before it mounts a sysfs or sets sysctls",
        why: "otherwise they would be those of the host's network namespace",
        laws: &[Law::Before(enters_network, |step| {
            matches!(step.init, Some(InitStep::MountFs(mount)) if mount.kind.to_bytes() == b"sysfs")
                || init!(InitStep::WriteSysctl { .. })(step)
        })],
    },
];

/// Returns whether the path `place` equals the path `below`, or is one of its parent directories.
fn is_above(place: &[u8], below: &[u8]) -> bool {
    place.is_empty()
        || below.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Records steps after `number` that create something at or below `at`, or (if `above` is true) above it, as breaking
/// the rule.
fn later(view: &View<'_>, number: usize, at: &[u8], above: bool, finding: &mut Finding) {
    finding.applies = true;
    for other in number + 1..view.steps().end {
        let nature = view.step(other).init.map(Nature::of);
        let Some(made) = nature.and_then(Nature::place) else { continue };
        if is_above(at, made) || above && is_above(made, at) {
            finding.report(number);
            finding.report(other);
        }
    }
}

/// Every recursive copy of the parent is followed by the step that leaves pins out, if init attaches the root in a mount
/// namespace.
fn pins_left_out(view: &View<'_>, finding: &mut Finding) {
    if view.first(init!(InitStep::AttachRoot { .. })).is_none() {
        return;
    }
    let last = view.first(parent!(ParentStep::LeaveOutPins));
    for number in 0..view.steps().end {
        if let Some(ParentStep::CloneTree(tree)) = view.step(number).parent
            && tree.recursive
        {
            finding.applies = true;
            if last.is_none() {
                finding.report(number);
            }
        }
    }
}

fn masks_after_mounts(view: &View<'_>, finding: &mut Finding) {
    for number in view.init() {
        if let Some(InitStep::MaskPath { path, .. } | InitStep::ReadonlyPath { path }) =
            view.step(number).init
        {
            later(view, number, path.to_bytes(), true, finding);
        }
    }
}

fn read_only_last(view: &View<'_>, finding: &mut Finding) {
    for number in view.init() {
        let path = match view.step(number).init {
            Some(InitStep::SetMountAttr { path, attr, .. }) if attr.set & attr::RDONLY != 0 => path,
            Some(InitStep::FreezeTmpfs { path, .. }) => path,
            _ => continue,
        };
        later(view, number, path.to_bytes(), false, finding);
    }
}

fn frozen_is_own(view: &View<'_>, finding: &mut Finding) {
    for number in view.init() {
        let Some(InitStep::FreezeTmpfs { slot, .. }) = view.step(number).init else { continue };
        finding.applies = true;
        let makes = |other| {
            matches!(
                view.step(other).init,
                Some(InitStep::MountFs(mount)) if mount.kept == Some(*slot) && mount.kind == c"tmpfs"
            )
        };
        if !view.init().take_while(|other| *other < number).any(makes) {
            finding.report(number);
        }
    }
}
