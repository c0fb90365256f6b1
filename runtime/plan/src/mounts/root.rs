//! The root filesystem.

use alloc::vec::Vec;

use spec::mount_options::{MountOptions, SB_RDONLY};
use spec::{InRoot, Mount};
use sys::clone::CloneFlags;
use sys::mount::MountAttr;

use super::filesystem;
use super::shared_subtrees::{first_changes, root_propagation};
use crate::builder::Builder;
use crate::context::Context;
use crate::namespaces::maps;
use crate::path::c_str;
use crate::request::RootSource;
use crate::step::{CloneTree, InitStep, ParentStep, Slot, TreeIdMap};
use crate::{Error, idmap, keep, layers};

/// Adds the steps for the root filesystem. The root filesystem is a detached copy with its final propagation. It is
/// attached in the container's mount namespace when mount events of that namespace no longer propagate to the host. If
/// the container is in the host's mount namespace, the container's mounts are attached to the detached copy. The host
/// does not see this copy, and the kernel removes it when the container's last process has exited.
pub fn compile_root(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    match context.request.rootfs.map(|given| given.source) {
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

/// Returns the step that leaves pinned mount namespaces out of the trees that these steps of the parent copy, if one is
/// copied with all mounts below it. If init copies the trees, it does so in its own mount namespace, which has none.
/// Without a mount namespace, the container sees the host's pins anyway, and mounts can be made only in a tree that was
/// copied in this namespace.
pub fn leave_out_pins<'p>(
    context: &Context<'_, '_>,
    mut trees: impl Iterator<Item = &'p ParentStep>,
) -> Vec<ParentStep> {
    let may_have_pins =
        |step: &ParentStep| matches!(step, ParentStep::CloneTree(tree) if tree.recursive);
    let has_them = context.namespaces.has(CloneFlags::NEWNS) && trees.any(may_have_pins);
    has_them.then_some(ParentStep::LeaveOutPins).into_iter().collect()
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
