//! /sys of a container that does not own its network namespace.

use spec::InRoot;
use spec::mount_options::MountOptions;
use sys::mount::{MountAttr, attr, propagation};

use super::bind::binds_from;
use crate::Error;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{in_root, is_at_or_below};
use crate::step::{CloneTree, InitStep, Propagation, Target};

/// Adds the steps that bind the host's /sys with all mounts below it, because the kernel lets only the owner of a
/// network namespace mount the sysfs that shows it. The bind mount is recursively read-only, since it includes the
/// host's cgroups.
pub(super) fn bind(
    builder: &mut Builder,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let slot = builder.slot();
    let set = options.attr.set | options.recursive_attr.set | attr::RDONLY;
    let clear = (options.attr.clear | options.recursive_attr.clear) & attr::ATIME;
    builder.take(CloneTree {
        slot,
        source: c"/sys",
        keep_link: false,
        recursive: true,
        propagation: &[Propagation { kind: propagation::SLAVE, recursive: true }],
        attr: MountAttr::default(),
        recursive_attr: MountAttr { set, clear, ..MountAttr::default() },
        id_map: None,
    });
    let target = Target { path: in_root(destination)?, no_symlinks: true };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

/// Returns whether mounts that show the network stay in their turn, instead of following all others: by
/// [`Birth`](crate::birth::Birth), or because a mount that does not show the network covers an earlier sysfs, or binds a
/// part of it.
pub fn are_in_turn(context: &Context<'_, '_>) -> bool {
    context.birth.mounts_in_turn
        || context.birth.parallel_network
            && context.spec.mounts.iter().enumerate().any(|(index, mount)| {
                let earlier =
                    context.spec.mounts.iter().take(index).filter(|other| other.kind == "sysfs");
                let mut earlier = earlier.map(|sysfs| &*sysfs.destination).peekable();
                if earlier.peek().is_none() || context.shows_network(&mount.destination) {
                    return false;
                }
                earlier.any(|sysfs| {
                    is_at_or_below(sysfs, &mount.destination) || binds_from(context, mount, sysfs)
                })
            })
}
