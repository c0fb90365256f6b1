//! Bind mounts.

use alloc::format;
use alloc::vec::Vec;

use spec::Mount;
use spec::mount_options::{MountOptions, Propagation};
use sys::mount::{MountAttr, attr, propagation};

use super::proc;
use super::root::root_propagation;
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{absolute, c_string, in_root};
use crate::step::{CloneTree, InitStep, Target};
use crate::{Error, idmap};

pub(super) fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &str,
) -> Result<(), Error> {
    let Some(source) = mount.source.as_deref() else {
        return Err(Error::config(format!("bind mount {destination}: source is missing")));
    };
    let source = absolute(context.bundle, source);
    proc::check_bind(&source, destination)?;
    let recursive = options.bind.is_none_or(|bind| bind.recursive);
    let id_map = idmap::compile(builder, context, mount, options)?;
    let slot = builder.slot();
    let mut tree = CloneTree {
        slot,
        source: c_string(source)?,
        recursive,
        propagation: propagation_of_bind(context, options, recursive)?,
        attr: MountAttr {
            set: options.attr.set,
            clear: options.attr.clear,
            ..MountAttr::default()
        },
        recursive_attr: MountAttr {
            set: options.recursive_attr.set,
            clear: options.recursive_attr.clear,
            ..MountAttr::default()
        },
        id_map,
    };
    if context.caller.is_confined() && destination == "/sys" && tree.attr.set & attr::RDONLY != 0 {
        // A read-only /sys has the host's cgroups below it, of which the caller's own would stay
        // writable (CVE-2023-25809).
        tree.recursive_attr.set |= attr::RDONLY;
    }
    builder.take(tree);
    let target = Target { path: in_root(destination)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}

/// Changes of the propagation of a bound tree, in the order of the options. Before them it is a slave: that
/// hears of the host's later mounts and tells nothing back, as in runc; so a shared one is shared among
/// containers, and with the host only where the root is.
fn propagation_of_bind(
    context: &Context<'_, '_>,
    options: &MountOptions<'_>,
    recursive: bool,
) -> Result<Vec<Propagation>, Error> {
    let root = root_propagation(context)?;
    let shares = root.is_some_and(|root| root.kind == propagation::SHARED);
    let first = options.propagation.first();
    let mut changes = Vec::with_capacity(1 + options.propagation.len());
    if !(shares && first.is_some_and(|first| first.kind == propagation::SHARED)) {
        changes.push(Propagation { kind: propagation::SLAVE, recursive });
    }
    for change in &options.propagation {
        let change = Propagation { kind: change.kind, recursive: change.recursive && recursive };
        match change.kind {
            // Nothing is left of those before it.
            propagation::PRIVATE | propagation::UNBINDABLE if change.recursive == recursive => {
                changes.clear();
            }
            propagation::SLAVE if changes.last() == Some(&change) => continue,
            _ => {}
        }
        changes.push(change);
    }
    Ok(changes)
}
