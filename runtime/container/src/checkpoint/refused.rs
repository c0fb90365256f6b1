//! Refuses properties of a container that criu cannot restore unchanged or that have not been tested. The check runs
//! before anything is created, and its error names the property.

use alloc::format;

use plan::Caller;
use spec::mount_options::MountOptions;
use spec::{NamespaceKind, Spec};

use crate::Error;

/// Refuses an unsupported configuration.
///
/// # Errors
/// If the configuration has an unsupported property, which the error names.
pub(super) fn check(spec: &Spec<'_>, command: &str) -> Result<(), Error> {
    if Caller::probe(None).is_confined() {
        return refuse(command, "a caller without the host's root rights");
    }
    let Some(linux) = &spec.linux else {
        return refuse(command, "a container without namespaces of its own");
    };
    if linux.namespace(NamespaceKind::Mount).is_none() {
        return refuse(command, "a container without a mount namespace of its own");
    }
    if linux.namespace(NamespaceKind::User).is_some() {
        return refuse(command, "a container in a user namespace");
    }
    for namespace in &linux.namespaces {
        let kind = namespace.kind;
        if namespace.path.is_some() && joined(kind).is_none() {
            return refuse(command, &format!("a {kind} namespace that is joined by its path"));
        }
    }
    if linux.intel_rdt.is_some() {
        return refuse(command, "linux.intelRdt");
    }
    let network = linux.namespace(NamespaceKind::Network);
    if !linux.net_devices.is_empty() && network.is_none_or(|network| network.path.is_none()) {
        return refuse(command, "linux.netDevices in a network namespace of the container's own");
    }
    for mount in &spec.mounts {
        let is_mapped = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
        let options = MountOptions::parse(&mount.options);
        if is_mapped || options.id_map.is_some() {
            return refuse(command, &format!("mount {}: an id-mapped mount", mount.destination));
        }
        if options.copy_symlink || options.source_nofollow || options.destination_nofollow {
            let what = format!("mount {}: a symbolic link itself", mount.destination);
            return refuse(command, &what);
        }
    }
    Ok(())
}

pub(super) fn refuse(command: &str, what: &str) -> Result<(), Error> {
    Err(Error::Text(format!("{command} of {what} is not supported yet")))
}

/// How restored processes join a namespace whose path is in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// The namespace is external to criu, which receives it as a descriptor. Contains the first version of criu that
    /// supports this.
    External(i32),
    /// criu joins the namespace by its path.
    ByPath,
}

/// Returns how namespaces of this kind are joined, or `None` if joining them is not supported.
pub(super) fn joined(kind: NamespaceKind) -> Option<Joined> {
    match kind {
        NamespaceKind::Network => Some(Joined::External(31100)),
        NamespaceKind::Ipc | NamespaceKind::Uts => Some(Joined::ByPath),
        _ => None,
    }
}
