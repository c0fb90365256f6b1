//! Id-mapped mounts: the id mappings of a bind mount.

use alloc::format;
use alloc::vec::Vec;

use spec::id_ranges::{self, IdRange};
use spec::mount_options::MountOptions;
use spec::{IdMapping, Mount};
use sys::clone::CloneFlags;

use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::namespaces::maps;
use crate::path::c_string;
use crate::step::{IdMaps, ParentStep, Slot, TreeIdMap};

/// Returns the mapping of a bind mount, if any, and adds the steps that create it. If the mount has no mappings of its
/// own, the mappings of the container's user namespace are used.
pub fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
) -> Result<Option<TreeIdMap>, Error> {
    let own = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
    if options.id_map.is_none() && !own {
        return Ok(None);
    }
    if context.request.caller.is_rootless() {
        let text = "id-mapped mounts are not supported for rootless containers";
        return Err(Error::config(text));
    }
    let recursive = options.id_map.is_some_and(|id_map| id_map.recursive);
    let ranges = options.id_map.and_then(|id_map| id_map.ranges);
    let user_namespace = if let Some(ranges) = ranges {
        made(builder, of_option(context, ranges, &mount.destination)?)
    } else if own {
        made(builder, maps(&mount.uid_mappings, &mount.gid_mappings))
    } else if let Some(path) = joined_user_namespace(context) {
        joined(builder, path)?
    } else {
        // The container's user namespace does not exist before the clone, so another one with the same mappings is
        // used.
        made(builder, maps(&context.linux.uid_mappings, &context.linux.gid_mappings))
    };
    Ok(Some(TreeIdMap { user_namespace, recursive }))
}

/// Returns the mapping of an option `idmap=uids=…;gids=…` (crun). An id of the host that is marked as relative is one of
/// the container's user namespace.
fn of_option(context: &Context<'_, '_>, ranges: &str, destination: &str) -> Result<IdMaps, Error> {
    let failed = |why| Error::config(format!("mount {destination}: idmap={ranges}: {why}"));
    let (uids, gids) = id_ranges::parse(ranges).map_err(failed)?;
    let absolute = |ranges: Vec<IdRange>, own: &[IdMapping]| {
        let all = ranges.into_iter().map(|range| range.absolute(own));
        all.collect::<Option<Vec<_>>>()
            .ok_or_else(|| failed("the container's user namespace does not map a relative id"))
    };
    let linux = context.linux;
    Ok(maps(&absolute(uids, &linux.uid_mappings)?, &absolute(gids, &linux.gid_mappings)?))
}

pub fn joined_user_namespace<'a>(context: &'a Context<'_, '_>) -> Option<&'a str> {
    context.linux.namespace(spec::NamespaceKind::User)?.path.as_deref()
}

/// Adds the step that opens the container's user namespace, once for all mounts. Returns the namespace's slot.
pub fn joined(builder: &mut Builder, path: &str) -> Result<Slot, Error> {
    if let Some(slot) = builder.user_namespace(None) {
        return Ok(slot);
    }
    let slot = builder.slot();
    builder.user_namespaces.push((None, slot));
    let kind = CloneFlags::NEWUSER;
    builder.parent(ParentStep::OpenNamespace { slot, path: c_string(path)?, kind, foreign: None });
    Ok(slot)
}

/// Adds the step that creates a user namespace with these mappings, once for all mounts with the same mappings. Returns
/// the namespace's slot.
pub fn made(builder: &mut Builder, wanted: IdMaps) -> Slot {
    builder.user_namespace(Some(&wanted)).unwrap_or_else(|| {
        let slot = builder.slot();
        builder.user_namespaces.push((Some(wanted.clone()), slot));
        builder.parent(ParentStep::MakeUserNamespace { slot, maps: wanted });
        slot
    })
}
