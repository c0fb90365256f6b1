//! Describes the mount of the configuration that a step belongs to, in the words of runc's errors.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use core::ffi::CStr;

use crate::Plan;
use crate::step::{AttachBind, BindSource, CloneTree, InitStep, MountFs, ParentStep, Slot, Target};

/// Returns the description of the mount that a step of the parent belongs to; `None` if it belongs to no mount.
pub fn of_parent(plan: &Plan, step: &ParentStep) -> Option<String> {
    match step {
        ParentStep::CloneTree(tree) => of_tree(plan, tree),
        ParentStep::MakeTree { slot, filesystem, .. } if *slot != Slot::ROOT => {
            Some(of_filesystem(filesystem))
        }
        _ => None,
    }
}

/// Returns the description of the mount that a step of init belongs to; `None` if it belongs to no mount.
pub fn of_init(plan: &Plan, step: &InitStep) -> Option<String> {
    match step {
        InitStep::CloneTree(tree) => of_tree(plan, tree),
        InitStep::AttachTree { slot, target } => attached(plan, *slot, target),
        InitStep::AttachBind(AttachBind { source: BindSource::Taken(slot), target, .. }) => {
            attached(plan, *slot, target)
        }
        InitStep::AttachBind(AttachBind { source: BindSource::Inside(tree), target, .. }) => {
            Some(mounting(&["/", &text(tree.source)].concat(), target))
        }
        InitStep::MakeTree { filesystem: mount, .. } | InitStep::MountFs(mount) => {
            Some(of_filesystem(mount))
        }
        _ => None,
    }
}

fn of_tree(plan: &Plan, tree: &CloneTree) -> Option<String> {
    let source = text(tree.source);
    if tree.slot == Slot::ROOT {
        return Some(format!("error preparing rootfs {source:?}"));
    }
    let target = plan.init.iter().find_map(|step| match step {
        InitStep::AttachTree { slot, target } if *slot == tree.slot => Some(target),
        InitStep::AttachBind(bind) => match bind.source {
            BindSource::Taken(slot) if slot == tree.slot => Some(&bind.target),
            _ => None,
        },
        _ => None,
    })?;
    Some(mounting(&source, target))
}

/// Returns the description of the mount whose tree is in this slot.
fn attached(plan: &Plan, wanted: Slot, target: &Target) -> Option<String> {
    let source =
        |tree: &CloneTree| (tree.slot == wanted).then(|| mounting(&text(tree.source), target));
    let of_parent = plan.parent.iter().find_map(|step| match step {
        ParentStep::CloneTree(tree) => source(tree),
        ParentStep::MakeTree { slot, filesystem, .. } if *slot == wanted => {
            Some(mounting(&text(filesystem.source), target))
        }
        _ => None,
    });
    of_parent.or_else(|| {
        plan.init.iter().find_map(|step| match step {
            InitStep::CloneTree(tree) => source(tree),
            InitStep::MakeTree { slot, filesystem } if *slot == wanted => {
                Some(of_filesystem(filesystem))
            }
            _ => None,
        })
    })
}

fn of_filesystem(mount: &MountFs) -> String {
    mounting(&text(mount.source), &mount.target)
}

fn mounting(source: &str, target: &Target) -> String {
    let target = ["/", &text(target.path)].concat();
    format!("error mounting {source:?} to rootfs at {target:?}")
}

fn text(string: &CStr) -> Cow<'_, str> {
    string.to_string_lossy()
}
