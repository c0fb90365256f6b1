//! The propagation of the root filesystem and of bind mounts (sharedsubtree.rst of the kernel).

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::{MountOptions, Propagation as RootPropagation};
use spec::{Linux, Mount, NamespaceKind};
use sys::mount::{MountAttr, propagation};

use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::step::{InitStep, Propagation};

/// Returns propagation changes of a bound tree, in the order of the options. The tree is initially a slave: as in runc,
/// it receives the host's later mounts and sends nothing back. So a mount with the option `shared` shares mount events
/// with later copies of itself. It shares none with the host, unless the root is shared as well: then the mounts of the
/// tree are initially peers of their sources. If the root is `rprivate`, the tree is private from the beginning.
pub(super) fn propagation_of_bind(
    root: Option<RootPropagation>,
    options: &MountOptions<'_>,
    recursive: bool,
) -> Vec<Propagation> {
    let mut changes = Vec::with_capacity(1 + options.propagation.len());
    let first = match root {
        Some(RootPropagation { kind: propagation::SHARED, .. }) => None,
        Some(RootPropagation { kind: propagation::PRIVATE, recursive: true }) => {
            Some(propagation::PRIVATE)
        }
        _ => Some(propagation::SLAVE),
    };
    changes.extend(first.map(|kind| Propagation { kind, recursive }));
    for change in &options.propagation {
        let change = Propagation { kind: change.kind, recursive: change.recursive && recursive };
        match change.kind {
            // This change overrides all changes before it.
            propagation::PRIVATE | propagation::UNBINDABLE if change.recursive == recursive => {
                changes.clear();
            }
            propagation::SLAVE if changes.last() == Some(&change) => continue,
            _ => {}
        }
        changes.push(change);
    }
    changes
}

/// Returns the changes of propagation of the copy that becomes the root filesystem.
pub(super) fn first_changes(wanted: Option<RootPropagation>) -> Vec<Propagation> {
    let change = |kind, recursive| Propagation { kind, recursive };
    match wanted {
        Some(wanted) if wanted.kind == propagation::PRIVATE => {
            alloc::vec![change(propagation::PRIVATE, true)]
        }
        _ => alloc::vec![change(propagation::SLAVE, true), change(propagation::PRIVATE, false)],
    }
}

/// Returns the change of propagation that follows the pivot.
fn last_change(wanted: Option<RootPropagation>) -> Option<RootPropagation> {
    wanted.filter(|wanted| wanted.kind != propagation::PRIVATE)
}

/// Returns all changes of propagation that a start makes to the copy of a mount of the host, in their order: to the bind
/// mount `mount`, or to a root filesystem that is a directory. Changes that are not recursive do not concern the mounts
/// below it.
///
/// # Errors
/// If the configuration's `rootfsPropagation` is unknown.
pub fn propagation_of(
    linux: &Linux<'_>,
    mount: Option<&Mount<'_>>,
) -> Result<Vec<Propagation>, Error> {
    let wanted = root_propagation(linux)?;
    let last = last_change(wanted);
    let last = last.map(|last| Propagation { kind: last.kind, recursive: last.recursive });
    let Some(mount) = mount else {
        return Ok(first_changes(wanted).into_iter().chain(last).collect());
    };
    let options = MountOptions::parse(&mount.options);
    let recursive = options.bind.is_none_or(|bind| bind.recursive);
    let mut changes = propagation_of_bind(propagation_of_trees(linux)?, &options, recursive);
    changes.extend(last.filter(|last| last.recursive));
    Ok(changes)
}

/// Returns the propagation of the root that counts for the host's trees. With a user namespace, these are no peers of the
/// host's: the kernel makes the mounts of a mount namespace slaves when another user namespace owns it
/// (mount_namespaces(7)).
pub(super) fn propagation_of_trees(linux: &Linux<'_>) -> Result<Option<RootPropagation>, Error> {
    let owns_users = linux.namespaces.iter().any(|namespace| namespace.kind == NamespaceKind::User);
    let wanted = root_propagation(linux)?;
    Ok(wanted.filter(|wanted| !owns_users || wanted.kind != propagation::SHARED))
}

pub(super) fn root_propagation(linux: &Linux<'_>) -> Result<Option<RootPropagation>, Error> {
    let Some(word) = linux.rootfs_propagation.as_deref() else { return Ok(None) };
    match RootPropagation::parse(word) {
        Some(propagation) => Ok(Some(propagation)),
        None => Err(Error::config(format!("rootfsPropagation={word} is not supported"))),
    }
}

/// Adds the step that sets the propagation of the root filesystem. The step follows the pivot: pivot_root(2) refuses
/// shared mounts, and before the pivot the change would affect the host.
pub fn compile_root_propagation(
    builder: &mut Builder,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    if let Some(wanted) = last_change(root_propagation(context.linux)?) {
        builder.init(InitStep::SetMountAttr {
            slot: None,
            path: c"",
            recursive: wanted.recursive,
            attr: MountAttr { propagation: wanted.kind, ..MountAttr::default() },
        });
    }
    Ok(())
}
