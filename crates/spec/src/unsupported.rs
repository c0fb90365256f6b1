//! What the specification knows and dayfly does not do yet.
//!
//! Such a property is refused by name: to ignore it would give a container that
//! is not what its author asked for. A feature that gets done leaves this list.
use crate::config::Spec;
use crate::invalid::Invalid;
use crate::kinds::NamespaceKind;
use crate::linux::Linux;
use crate::process::Process;

/// Where a property is, and how to see that it is set.
enum Property {
    Top(fn(&Spec<'_>) -> bool),
    Process(fn(&Process<'_>) -> bool),
    Linux(fn(&Linux<'_>) -> bool),
}
use Property::{Linux as OfLinux, Process as OfProcess, Top};

const UNSUPPORTED: [(&str, Property); 15] = [
    ("vm", Top(|spec| spec.vm.is_some())),
    ("solaris", Top(|spec| spec.solaris.is_some())),
    ("windows", Top(|spec| spec.windows.is_some())),
    ("zos", Top(|spec| spec.zos.is_some())),
    ("freebsd", Top(|spec| spec.freebsd.is_some())),
    ("process.scheduler", OfProcess(|process| process.scheduler.is_some())),
    ("process.ioPriority", OfProcess(|process| process.io_priority.is_some())),
    ("process.execCPUAffinity", OfProcess(|process| process.exec_cpu_affinity.is_some())),
    ("process.apparmorProfile", OfProcess(is_confined)),
    ("process.selinuxLabel", OfProcess(|process| process.selinux_label.is_some())),
    ("linux.namespaces time", OfLinux(|linux| linux.namespace(NamespaceKind::Time).is_some())),
    ("linux.timeOffsets", OfLinux(|linux| !linux.time_offsets.is_empty())),
    ("linux.memoryPolicy", OfLinux(|linux| linux.memory_policy.is_some())),
    ("linux.personality", OfLinux(|linux| linux.personality.is_some())),
    ("linux.mountLabel", OfLinux(|linux| linux.mount_label.is_some())),
];

fn is_confined(process: &Process<'_>) -> bool {
    process.apparmor_profile.as_deref().is_some_and(|profile| profile != "unconfined")
}

/// Refuses what a configuration asks for beyond its process.
pub(crate) fn refuse(spec: &Spec<'_>) -> Result<(), Invalid> {
    first_set(|property| match property {
        Top(is_set) => is_set(spec),
        OfLinux(is_set) => spec.linux.as_ref().is_some_and(is_set),
        OfProcess(_) => false,
    })
}

/// Refuses what a process asks for.
pub(crate) fn refuse_process(process: &Process<'_>) -> Result<(), Invalid> {
    first_set(|property| match property {
        OfProcess(is_set) => is_set(process),
        _ => false,
    })
}

fn first_set(is_set: impl Fn(&Property) -> bool) -> Result<(), Invalid> {
    match UNSUPPORTED.iter().find(|(_, property)| is_set(property)) {
        Some((name, _)) => Err(Invalid::Unsupported(name)),
        None => Ok(()),
    }
}
