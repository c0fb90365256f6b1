//! Refuses properties of a container that criu cannot restore unchanged or that have not been tested. The check runs
//! before anything is created, and its error names the property.

use alloc::format;

use plan::Caller;
use spec::mount_options::MountOptions;
use spec::{IdMapping, Linux, NamespaceKind, Process, Spec};

use crate::Error;
use crate::request::foreign_network;

/// The overflow id. In a user namespace that does not map the id of a process, the process appears to have the overflow
/// id.
const OVERFLOW_ID: u32 = 65534;

/// Refuses an unsupported configuration. `in_user_namespace` is true if the container is in a user
/// namespace, even one that its configuration does not contain (`--userns`).
///
/// # Errors
/// If the configuration has an unsupported property, which the error names.
pub(super) fn check(spec: &Spec<'_>, in_user_namespace: bool, command: &str) -> Result<(), Error> {
    // The patterns name all fields: a new field does not compile before it is decided here whether a restored container
    // can have it. criu restores what the other fields of the process set; a restore runs the plan's steps for the root
    // filesystem, the cgroup and the hooks.
    let Spec {
        process,
        linux,
        mounts,
        oci_version: _,
        root: _,
        hostname: _,
        domainname: _,
        hooks: _,
        annotations: _,
        vm: _,
        solaris: _,
        windows: _,
        zos: _,
        freebsd: _,
    } = spec;
    let caller = Caller::probe(None);
    if caller.is_confined() {
        return refuse(command, "a caller without the host's root rights");
    }
    let Some(linux) = linux else {
        return refuse(command, "a container without namespaces of its own");
    };
    let Linux {
        namespaces,
        intel_rdt,
        net_devices,
        memory_policy,
        personality,
        // For `check_user_namespace`.
        uid_mappings: _,
        gid_mappings: _,
        sysctl: _,
        resources: _,
        cgroups_path: _,
        devices: _,
        seccomp: _,
        rootfs_propagation: _,
        masked_paths: _,
        readonly_paths: _,
        mount_label: _,
        time_offsets: _,
    } = &**linux;
    if let Some(process) = process {
        check_process(process, command)?;
    }
    if linux.namespace(NamespaceKind::Mount).is_none() {
        return refuse(command, "a container without a mount namespace of its own");
    }
    for namespace in namespaces {
        let kind = namespace.kind;
        if namespace.path.is_some() && joined(kind).is_none() {
            return refuse(command, &format!("a {kind} namespace that is joined by its path"));
        }
    }
    if in_user_namespace {
        check_user_namespace(linux, command)?;
    }
    if foreign_network(spec, &caller) {
        let what = "a /sys of the host's, for a network namespace of another user namespace";
        return refuse(command, what);
    }
    for (is_given, what) in [
        (intel_rdt.is_some(), "linux.intelRdt"),
        (memory_policy.is_some(), "linux.memoryPolicy"),
        (personality.is_some(), "linux.personality"),
    ] {
        if is_given {
            return refuse(command, what);
        }
    }
    let network = linux.namespace(NamespaceKind::Network);
    if !net_devices.is_empty() && network.is_none_or(|network| network.path.is_none()) {
        return refuse(command, "linux.netDevices in a network namespace of the container's own");
    }
    for mount in mounts {
        let is_mapped = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
        // Every field is named, so that each new one is decided here.
        let MountOptions {
            attr: _,
            recursive_attr: _,
            superblock_set: _,
            superblock_clear: _,
            propagation: _,
            bind: _,
            remount: _,
            tmpcopyup: _,
            id_map,
            copy_symlink,
            source_nofollow,
            destination_nofollow,
            data: _,
        } = MountOptions::parse(&mount.options);
        if is_mapped || id_map.is_some() {
            return refuse(command, &format!("mount {}: an id-mapped mount", mount.destination));
        }
        if copy_symlink || source_nofollow || destination_nofollow {
            let what = format!("mount {}: a symbolic link itself", mount.destination);
            return refuse(command, &what);
        }
    }
    Ok(())
}

/// Refuses properties of a process that criu does not save.
fn check_process(process: &Process<'_>, command: &str) -> Result<(), Error> {
    let Process {
        io_priority,
        scheduler,
        terminal: _,
        console_size: _,
        user: _,
        args: _,
        env: _,
        cwd: _,
        capabilities: _,
        rlimits: _,
        no_new_privileges: _,
        apparmor_profile: _,
        oom_score_adj: _,
        selinux_label: _,
        // For programs of `exec`, to which it applies after a restore, too.
        exec_cpu_affinity: _,
    } = process;
    if io_priority.is_some() {
        return refuse(command, "process.ioPriority");
    }
    match scheduler {
        Some(scheduler) if scheduler.policy == "SCHED_DEADLINE" => {
            refuse(command, "process.scheduler with SCHED_DEADLINE")
        }
        _ => Ok(()),
    }
}

/// Refuses properties that criu cannot save or restore in a user namespace. criu saves only
/// namespaces that this user namespace owns. At a restore, criu's first process in the namespace
/// sends messages before its id is mapped there.
fn check_user_namespace(linux: &Linux<'_>, command: &str) -> Result<(), Error> {
    if let Some(joined) = linux.namespaces.iter().find(|namespace| namespace.path.is_some()) {
        let kind = joined.kind;
        let what = format!(
            "a {kind} namespace that is joined by its path, by a container in a user namespace of its own"
        );
        return refuse(command, &what);
    }
    let has_own = |kind| linux.namespace(kind).is_some();
    let lacks = |maps: &[IdMapping]| {
        !maps.iter().any(|map| {
            OVERFLOW_ID.checked_sub(map.container_id).is_some_and(|offset| offset < map.size)
        })
    };
    if has_own(NamespaceKind::User)
        && has_own(NamespaceKind::Cgroup)
        && (lacks(&linux.uid_mappings) || lacks(&linux.gid_mappings))
    {
        let what = format!("a cgroup namespace with id mappings that lack the id {OVERFLOW_ID}");
        return refuse(command, &what);
    }
    Ok(())
}

/// Refuses lazy pages in a user namespace, where userfaultfd(2) fails even for root.
///
/// # Errors
/// If the container is in a user namespace.
pub(super) fn check_lazy_pages(in_user_namespace: bool, command: &str) -> Result<(), Error> {
    match in_user_namespace {
        true => refuse(
            command,
            "a container in a user namespace with --lazy-pages (userfaultfd(2) takes CAP_SYS_PTRACE of the host)",
        ),
        false => Ok(()),
    }
}

pub(super) fn refuse(command: &str, what: &str) -> Result<(), Error> {
    Err(Error::Text(format!("{command} of {what} is not supported yet")))
}

/// The way in which restored processes join a namespace that the configuration specifies by its
/// path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joined {
    /// criu receives the namespace as a descriptor of an external file. The field is the first
    /// version of criu that supports this.
    External(i32),
    /// criu joins the namespace by its path.
    ByPath,
}

/// Iterates over the namespaces that are joined by their path, each with the path and the way.
pub(super) fn all_joined<'s>(
    spec: &'s Spec<'_>,
) -> impl Iterator<Item = (NamespaceKind, &'s str, Joined)> {
    let namespaces = spec.linux.iter().flat_map(|linux| &linux.namespaces);
    namespaces.filter_map(|one| Some((one.kind, one.path.as_deref()?, joined(one.kind)?)))
}

/// Returns the way in which namespaces of this kind are joined, or `None` if joining them is not
/// supported.
fn joined(kind: NamespaceKind) -> Option<Joined> {
    match kind {
        NamespaceKind::Network => Some(Joined::External(31100)),
        NamespaceKind::Pid => Some(Joined::External(31500)),
        NamespaceKind::Ipc | NamespaceKind::Uts => Some(Joined::ByPath),
        _ => None,
    }
}
