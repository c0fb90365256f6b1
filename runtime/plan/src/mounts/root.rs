//! The root filesystem, and the propagation it has.

use alloc::format;

use spec::mount_options::Propagation;
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, propagation};

use crate::builder::Builder;
use crate::context::Context;
use crate::path::c_str;
use crate::step::{self, CloneTree, InitStep, Slot};
use crate::{Error, keep, layers};

/// Adds the root filesystem's own steps: a detached copy of it with its propagation, attached in the
/// container's mount namespace once that is cut off from the host's. A container in the host's mount
/// namespace has its mounts on the detached copy itself, where the host does not see them and they go
/// with its last process.
pub fn compile_root(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    if let Some(recipe) = context.layers {
        layers::compile(builder, context, recipe);
    } else {
        compile_directory(builder, context)?;
    }
    if context.birth.from_template {
        builder.init(InitStep::AttachRoot { path: c"/" });
        builder.init(InitStep::EnterRoot);
    } else if context.namespaces.has(CloneFlags::NEWNS) {
        builder.init(InitStep::DetachPropagation);
        builder.init(InitStep::AttachRoot { path: c_str(context.rootfs.as_str())? });
    }
    Ok(())
}

/// The root filesystem that is a directory.
fn compile_directory(builder: &mut Builder, context: &Context<'_, '_>) -> Result<(), Error> {
    let kind = match root_propagation(context)? {
        Some(wanted) if wanted.kind == propagation::PRIVATE => propagation::PRIVATE,
        _ => propagation::SLAVE,
    };
    builder.take(CloneTree {
        slot: Slot::ROOT,
        source: c_str(context.rootfs.as_str())?,
        keep_link: false,
        recursive: true,
        propagation: keep::all(alloc::vec![step::Propagation { kind, recursive: true }]),
        attr: MountAttr::default(),
        recursive_attr: MountAttr::default(),
        id_map: None,
    });
    Ok(())
}

pub(super) fn root_propagation(context: &Context<'_, '_>) -> Result<Option<Propagation>, Error> {
    let Some(word) = context.linux.rootfs_propagation.as_deref() else { return Ok(None) };
    match Propagation::parse(word) {
        Some(propagation) => Ok(Some(propagation)),
        None => Err(Error::config(format!("rootfsPropagation={word} is not supported"))),
    }
}

/// Adds the propagation that the root has for the container's own mounts. Only after the pivot:
/// pivot_root(2) refuses shared mounts, and before it the change would reach the host.
pub fn compile_root_propagation(
    builder: &mut Builder,
    context: &Context<'_, '_>,
) -> Result<(), Error> {
    if let Some(wanted) = root_propagation(context)?
        && wanted.kind != propagation::PRIVATE
    {
        builder.init(InitStep::SetMountAttr {
            path: c"",
            recursive: wanted.recursive,
            attr: MountAttr { propagation: wanted.kind, ..MountAttr::default() },
        });
    }
    Ok(())
}
