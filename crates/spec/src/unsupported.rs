//! What the specification knows and dayfly does not do yet.
//!
//! Such a property is refused by name: to ignore it would give a container that
//! is not what its author asked for. A feature that gets done leaves this list.
use crate::config::{Mount, Spec};
use crate::invalid::Invalid;
use crate::linux::Linux;

/// Where a property is, and how to see that it is set.
enum Property {
    Top(fn(&Spec<'_>) -> bool),
    Mount(fn(&Mount<'_>) -> bool),
    Linux(fn(&Linux<'_>) -> bool),
}
use Property::{Linux as OfLinux, Mount as OfMount, Top};

const UNSUPPORTED: [(&str, Property); 11] = [
    ("vm", Top(|spec| spec.vm.is_some())),
    ("solaris", Top(|spec| spec.solaris.is_some())),
    ("windows", Top(|spec| spec.windows.is_some())),
    ("zos", Top(|spec| spec.zos.is_some())),
    ("freebsd", Top(|spec| spec.freebsd.is_some())),
    ("mounts.uidMappings", OfMount(|mount| !mount.uid_mappings.is_empty())),
    ("mounts.gidMappings", OfMount(|mount| !mount.gid_mappings.is_empty())),
    ("mount option idmap", OfMount(|mount| mount.options.iter().any(|word| word == "idmap"))),
    ("mount option ridmap", OfMount(|mount| mount.options.iter().any(|word| word == "ridmap"))),
    ("linux.netDevices", OfLinux(|linux| !linux.net_devices.is_empty())),
    ("linux.intelRdt", OfLinux(|linux| linux.intel_rdt.is_some())),
];

/// Refuses what a configuration asks for.
pub(crate) fn refuse(spec: &Spec<'_>) -> Result<(), Invalid> {
    let is_set = |property: &Property| match property {
        Top(is_set) => is_set(spec),
        OfMount(is_set) => spec.mounts.iter().any(is_set),
        OfLinux(is_set) => spec.linux.as_ref().is_some_and(is_set),
    };
    match UNSUPPORTED.iter().find(|(_, property)| is_set(property)) {
        Some((name, _)) => Err(Invalid::Unsupported(name)),
        None => Ok(()),
    }
}
