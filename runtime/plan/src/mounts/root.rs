//! The root filesystem and its propagation.

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::{MountOptions, Propagation, SB_RDONLY};
use spec::{InRoot, Linux, Mount, NamespaceKind};
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, propagation};

use super::bind::propagation_of_bind;
use super::filesystem;
use crate::builder::Builder;
use crate::context::Context;
use crate::namespaces::maps;
use crate::path::c_str;
use crate::request::RootSource;
use crate::step::{self, CloneTree, InitStep, ParentStep, Slot, TreeIdMap};
use crate::{Error, idmap, keep, layers};

/// Adds the steps for the root filesystem. The root filesystem is a detached copy with its final propagation. It is
/// attached in the container's mount namespace when mount events of that namespace no longer propagate to the host. If
/// the container is in the host's mount namespace, the container's mounts are attached to the detached copy. The host
/// does not see this copy, and the kernel removes it when the container's last process has exited.
pub fn compile_root(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    match context.given.map(|given| given.source) {
        Some(RootSource::Layers { recipe, ids }) => layers::compile(builder, context, recipe, ids),
        Some(RootSource::Mount(mount)) => compile_given(builder, context, mount)?,
        None => compile_directory(builder, context)?,
    }
    if context.birth.from_blank {
        builder.init(InitStep::AttachRoot { path: c"/" });
        builder.init(InitStep::EnterRoot);
    } else if context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::DetachPropagation);
        builder.init(InitStep::AttachRoot { path: c_str(context.rootfs.as_str())? });
    }
    Ok(())
}

/// Adds the step that leaves pinned mount namespaces out of the copied trees, if the parent has copied one with all mounts
/// below it. If init copies the trees, it does so in its own mount namespace, which has none. Without a mount namespace,
/// the container sees the host's pins anyway, and mounts can be made only in a tree that was copied in this namespace.
pub fn leave_out_pins(builder: &mut Builder, context: &Context<'_, '_>) {
    let may_have_pins =
        |step: &ParentStep| matches!(step, ParentStep::CloneTree(tree) if tree.recursive);
    if context.namespaces.has(CloneFlags::NEWNS) && builder.parent.iter().any(may_have_pins) {
        builder.parent(ParentStep::LeaveOutPins);
    }
}

/// Adds a root filesystem that is a directory.
fn compile_directory(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    let tree = root_tree(context, context.rootfs.as_str())?;
    builder.take(tree);
    Ok(())
}

/// Returns the data of a step that copies a directory of the host, with all mounts below it. The copy of the directory
/// itself is private, as with runc, whatever it lies on: no mount of the host appears in it.
fn root_tree(context: &Context<'_, '_>, source: &str) -> Result<CloneTree, Error> {
    let changes = first_changes(root_propagation(context.linux)?);
    Ok(CloneTree {
        slot: Slot::ROOT,
        source: c_str(source)?,
        keep_link: false,
        recursive: true,
        propagation: keep::all(changes),
        attr: MountAttr::default(),
        recursive_attr: MountAttr::default(),
        id_map: None,
    })
}

/// Adds a root filesystem described by a mount: a bind mount or a new file system.
fn compile_given(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
) -> Result<(), Error> {
    let options = MountOptions::parse(&mount.options);
    let is_mapped = !mount.uid_mappings.is_empty();
    let user_namespace =
        is_mapped.then(|| idmap::made(builder, maps(&mount.uid_mappings, &mount.gid_mappings)));
    if let Some(bind) = options.bind {
        let tree = root_tree(context, mount.source.as_deref().unwrap_or_default())?;
        builder.take(CloneTree {
            recursive: bind.recursive,
            keep_link: true,
            attr: MountAttr {
                set: options.attr.set,
                clear: options.attr.clear,
                ..MountAttr::default()
            },
            id_map: user_namespace
                .map(|user_namespace| TreeIdMap { user_namespace, recursive: bind.recursive }),
            ..tree
        });
        return Ok(());
    }
    let place = InRoot::known("/");
    let mut filesystem =
        filesystem::new(&mount.kind, mount.source.as_deref(), &options, &place, None)?;
    if options.superblock_set & SB_RDONLY != 0 {
        // A read-only device can be mounted only with a read-only superblock.
        let mut parameters = filesystem.parameters.to_vec();
        parameters.push((c"ro", None));
        filesystem.parameters = keep::all(parameters);
    }
    builder.parent(ParentStep::MakeTree { slot: Slot::ROOT, filesystem, user_namespace });
    Ok(())
}

/// Returns the changes of propagation of the copy that becomes the root filesystem.
fn first_changes(wanted: Option<Propagation>) -> Vec<step::Propagation> {
    let change = |kind, recursive| step::Propagation { kind, recursive };
    match wanted {
        Some(wanted) if wanted.kind == propagation::PRIVATE => {
            alloc::vec![change(propagation::PRIVATE, true)]
        }
        _ => alloc::vec![change(propagation::SLAVE, true), change(propagation::PRIVATE, false)],
    }
}

/// Returns the change of propagation that follows the pivot.
fn last_change(wanted: Option<Propagation>) -> Option<Propagation> {
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
) -> Result<Vec<step::Propagation>, Error> {
    let wanted = root_propagation(linux)?;
    let last = last_change(wanted);
    let last = last.map(|last| step::Propagation { kind: last.kind, recursive: last.recursive });
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
pub(super) fn propagation_of_trees(linux: &Linux<'_>) -> Result<Option<Propagation>, Error> {
    let owns_users = linux.namespaces.iter().any(|namespace| namespace.kind == NamespaceKind::User);
    let wanted = root_propagation(linux)?;
    Ok(wanted.filter(|wanted| !owns_users || wanted.kind != propagation::SHARED))
}

pub(super) fn root_propagation(linux: &Linux<'_>) -> Result<Option<Propagation>, Error> {
    let Some(word) = linux.rootfs_propagation.as_deref() else { return Ok(None) };
    match Propagation::parse(word) {
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
