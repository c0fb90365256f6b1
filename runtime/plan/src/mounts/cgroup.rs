//! /sys/fs/cgroup.

use alloc::format;
use alloc::vec::Vec;

use cgroup::Controller;
use spec::mount_options::{AttrChange, MountOptions};
use spec::{InRoot, Mount};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr, propagation};

use super::filesystem::{self, context_of};
use super::shared_subtrees::{propagation_of_bind, propagation_of_trees};
use crate::builder::Builder;
use crate::context::Context;
use crate::path::{c_str, in_root};
use crate::step::{CloneTree, InitStep, Link, MountFs, Target};
use crate::{Error, keep};

/// Adds the steps that mount /sys/fs/cgroup. If the container has its own cgroup namespace, this is a new mount, which
/// is cheap and whose root is the container's cgroup. If not, it is a bind mount of the host's hierarchy: a new cgroup2
/// mount in the initial cgroup namespace costs about 6 ms and may change flags of the host's root.
///
/// A mount of type `cgroup2` is the v2 hierarchy on every host. A mount of type `cgroup` is that hierarchy only on a
/// host without v1; otherwise it is a tmpfs with a directory for each v1 hierarchy. The tmpfs is writable, whatever the
/// options are, as in runc and crun: systemd makes directories in it.
pub(super) fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    mount: &Mount<'_>,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let private = context.namespaces.has(CloneFlags::NEWCGROUP);
    let own = own_attributes(options);
    let Some(location) = context.cgroup() else {
        return Err(Error::config(format!("mount {destination}: the container has no cgroup")));
    };
    if mount.kind == "cgroup2" || location.is_unified() {
        if let (Some(place), false) = (&location.unified, private) {
            return bind_cgroup(builder, context, place.mount(), options, destination);
        }
        let filesystem = filesystem::new("cgroup2", Some("cgroup"), options, destination, None)?;
        let (slot, target) = (builder.slot(), filesystem.target);
        builder.made.push(InitStep::MakeTree { slot, filesystem });
        builder.init(InitStep::AttachTree { slot, target });
        return Ok(());
    }
    let mut parameters = Vec::from([(c"mode", Some(c"755")), (c"size", Some(c"1m"))]);
    parameters.extend(context_of("tmpfs", context)?);
    let top = in_root(destination)?;
    let tmpfs = MountFs {
        kind: c"tmpfs",
        source: c"tmpfs",
        parameters: keep::all(parameters),
        attr: MountAttr { set: own.set & !attr::RDONLY, ..MountAttr::default() },
        target: Target { path: top, no_symlinks: false },
        label: None,
        copy_up: false,
        inherit_mode: false,
        kept: None,
        oversized: None,
    };
    builder.init(InitStep::MountFs(tmpfs));
    let mut links = Vec::new();
    for hierarchy in &location.legacy {
        let name = hierarchy.place.mount().rsplit('/').next().unwrap_or_default();
        let below = InRoot::from(format!("{destination}/{name}"));
        if private {
            let named = hierarchy.controllers.contains(Controller::Systemd);
            let none = named.then_some("none");
            let controllers = hierarchy.controllers.iter().map(Controller::name);
            let words: Vec<&str> = none.into_iter().chain(controllers).collect();
            let options = MountOptions { attr: own, data: words, ..MountOptions::default() };
            let step = filesystem::new("cgroup", Some("cgroup"), &options, &below, None)?;
            builder.init(InitStep::MountFs(step));
        } else {
            bind_cgroup(builder, context, hierarchy.place.directory(), options, &below)?;
        }
        // Co-mounted controllers are also available under each of their names: cpu in addition to cpu,cpuacct.
        for link in name.split(',').filter(|link| *link != name) {
            links.push(Link::new(c_str(link)?, c_str(name)?));
        }
    }
    if !links.is_empty() {
        builder.init(InitStep::MakeLinks { directory: top, links: keep::all(links) });
    }
    Ok(())
}

/// Returns the attributes of the options; a cgroup file system has no mounts below it.
fn own_attributes(options: &MountOptions<'_>) -> AttrChange {
    AttrChange {
        set: options.attr.set | options.recursive_attr.set,
        clear: options.attr.clear | options.recursive_attr.clear,
    }
}

fn bind_cgroup(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    source: &str,
    options: &MountOptions<'_>,
    destination: &InRoot<'_>,
) -> Result<(), Error> {
    let slot = builder.slot();
    let change = own_attributes(options);
    // Where others mount a new file system, a bind is a peer of the host's mount only if its options say so.
    let root = propagation_of_trees(context.linux)?
        .filter(|root| root.kind != propagation::SHARED || !options.propagation.is_empty());
    let changes = propagation_of_bind(root, options, true);
    // An unprivileged caller may have write access to parts of the host's hierarchy. Without protection, its container
    // could write to all cgroups of the caller, not only to the container's own (CVE-2023-25809).
    let undefended = is_off(Defence::CgroupReadOnly);
    let protection =
        if context.request.caller.is_confined() && !undefended { attr::RDONLY } else { 0 };
    let taken_back = if undefended { attr::RDONLY } else { 0 };
    builder.take(CloneTree {
        slot,
        source: c_str(source)?,
        keep_link: false,
        recursive: true,
        propagation: keep::all(changes),
        attr: MountAttr {
            set: (change.set & !taken_back) | protection,
            clear: change.clear,
            ..MountAttr::default()
        },
        recursive_attr: MountAttr { set: protection, ..MountAttr::default() },
        id_map: None,
    });
    let target = Target { path: in_root(destination)?, no_symlinks: false };
    builder.init(InitStep::AttachTree { slot, target });
    Ok(())
}
