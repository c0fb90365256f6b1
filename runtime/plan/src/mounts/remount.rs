//! Changes of existing mounts.

use alloc::format;
use alloc::vec::Vec;

use spec::mount_options::{AttrChange, MountOptions, Propagation};
use spec::{InRoot, Mount};
use sys::clone::CloneFlags;
use sys::mount::{MountAttr, attr};

use super::filesystem::parameters;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{c_str, in_root};
use crate::step::{InitStep, Parameter};
use crate::{Error, keep};

/// Adds the steps that change an existing mount. Only the named options change, whereas mount(2) would reset all
/// others. The file system itself is changed only if its own options are named.
pub(super) fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let refused = |why| Err(Error::config(format!("mount {destination}: remount {why}")));
    if !context.namespaces.has(CloneFlags::NEWNS) {
        return refused("takes a mount namespace of the container's own");
    }
    if options.id_map.is_some() || !mount.uid_mappings.is_empty() {
        return refused("cannot change the ids of a mount");
    }
    if options.tmpcopyup {
        return refused("cannot copy what a tmpfs covers already");
    }
    let path = in_root(destination)?;
    let is_bind = options.is_bind(&mount.kind);
    let parameters = if is_bind { &[] } else { keep::all(changes(options)?) };
    if !parameters.is_empty() {
        builder.init(InitStep::Reconfigure { path, parameters });
    }
    // A mount becomes read-only later, because later steps create mount points below it, and device nodes in /dev. By
    // then, its path may lead to another mount.
    let is_late = (options.attr.set | options.recursive_attr.set) & attr::RDONLY != 0;
    let slot = is_late.then(|| builder.slot());
    if let Some(slot) = slot {
        builder.init(InitStep::OpenMount { slot, path });
    }
    let mut steps = Vec::new();
    let mut set = |recursive, attr: MountAttr| {
        if !attr.is_empty() {
            steps.push(InitStep::SetMountAttr { slot, path, recursive, attr });
        }
    };
    for (change, recursive) in [(options.attr, false), (options.recursive_attr, true)] {
        let AttrChange { set: bits, clear } = change;
        set(recursive, MountAttr { set: bits, clear, ..MountAttr::default() });
    }
    for Propagation { kind, recursive } in &options.propagation {
        set(*recursive, MountAttr { propagation: *kind, ..MountAttr::default() });
    }
    if steps.is_empty() && parameters.is_empty() {
        // Even without options, the step checks that something is mounted there.
        steps.push(InitStep::Reconfigure { path, parameters: &[] });
    }
    match is_late {
        true => builder.frozen.append(&mut steps),
        false => steps.into_iter().for_each(|step| builder.init(step)),
    }
    Ok(())
}

/// Returns the options of the file system, cleared options first.
fn changes(options: &MountOptions<'_>) -> Result<Vec<Parameter>, Error> {
    let cleared = options.cleared_superblock_words().map(|word| Ok((c_str(word)?, None)));
    let mut changes = cleared.collect::<Result<Vec<_>, Error>>()?;
    changes.append(&mut parameters(options)?);
    Ok(changes)
}
