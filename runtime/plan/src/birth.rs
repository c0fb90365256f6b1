//! How init comes into the world: which of the fast ways this container can take.

use spec::{Linux, Spec};
use sys::clone::CloneFlags;

use crate::fast_path::FastPaths;
use crate::mounts::host_path::needs_host_table;
use crate::namespaces::Namespaces;
use crate::request::Request;
use crate::step::Memory;

/// Bytes. With a lower memory limit the OOM killer may come while init still sets up, and it ends
/// every process that shares the memory of its victim: the parent, which has to report it.
const ROOM_TO_SHARE: i64 = 64 << 20;

/// How init is made.
#[derive(Debug, Clone, Copy)]
pub struct Birth {
    /// Its mount namespace starts as a copy of the template: one empty file system, where the host's
    /// table would have to be copied and let go of again.
    pub from_template: bool,
    /// Its network namespace is made by another process meanwhile.
    pub parallel_network: bool,
    /// It waits for that network where the configuration has a sysfs, not after everything else.
    pub mounts_in_turn: bool,
    /// Whose memory it works in.
    pub memory: Memory,
    /// Whose memory an intermediate works in, where that may be the parent's at all.
    pub intermediate_memory: Memory,
    /// It is born in its cgroup.
    pub into_cgroup: bool,
    /// It moves to v1 cgroups as the one thread that it has.
    pub thread_move: bool,
    /// One empty directory covers all that are masked.
    pub shared_masks: bool,
}

impl Birth {
    /// Decides it for a container.
    pub fn of(
        spec: &Spec<'_>,
        linux: &Linux<'_>,
        namespaces: &Namespaces,
        request: &Request<'_>,
    ) -> Self {
        let fast_paths = request.kernel.fast_paths;
        // A user namespace owns what is made in it: all of that has to be made by its members.
        let confined = request.caller.is_confined();
        let plain = !namespaces.user() && !confined && !needs_mount_table(spec, linux);
        // Back from another time namespace comes only who shares his memory with nobody.
        let host_time = !namespaces.has(CloneFlags::NEWTIME);
        Self {
            from_template: request.template
                && fast_paths.contains(FastPaths::TEMPLATE_NAMESPACE)
                && plain
                && namespaces.new.contains(CloneFlags::NEWNS)
                && !request.no_pivot,
            parallel_network: fast_paths.contains(FastPaths::PARALLEL_NETWORK)
                && plain
                && host_time
                // Devices are moved there before init goes on.
                && linux.net_devices.is_empty()
                && namespaces.new.contains(CloneFlags::NEWNET),
            mounts_in_turn: request.kernel.lists_mounts_in_turn(),
            // An init that takes mounts itself keeps a table of its own.
            memory: match host_time && !confined {
                true => memory(spec, linux, namespaces, fast_paths),
                false => Memory::Copied,
            },
            intermediate_memory: match fast_paths.contains(FastPaths::SHARED_MEMORY)
                && has_room(linux)
            {
                true => Memory::Shared,
                false => Memory::Copied,
            },
            into_cgroup: fast_paths.contains(FastPaths::CLONE_INTO_CGROUP),
            thread_move: fast_paths.contains(FastPaths::THREAD_MOVE),
            shared_masks: fast_paths.contains(FastPaths::SHARED_MASKS),
        }
    }
}

/// Whether the container needs the host's mounts in its own namespace until it pivots: hooks that
/// enter it look for programs and the rootfs where the host has them, a file system that init has to make of
/// something of the host's looks for that, and a root that shares propagation is made of the host's.
fn needs_mount_table(spec: &Spec<'_>, linux: &Linux<'_>) -> bool {
    let hooks = &spec.hooks;
    !hooks.prestart.is_empty()
        || !hooks.create_runtime.is_empty()
        || !hooks.create_container.is_empty()
        || spec.mounts.iter().any(needs_host_table)
        || !matches!(linux.rootfs_propagation.as_deref(), None | Some("private" | "rprivate"))
}

/// Shared where nothing but our own steps runs in the PID namespace while init is in our memory. A hook
/// in there is a program that could trace init, and so write to the parent. What tmpcopyup copies
/// is the container's to pay for: pages belong to the cgroup of the memory's owner.
fn memory(
    spec: &Spec<'_>,
    linux: &Linux<'_>,
    namespaces: &Namespaces,
    fast_paths: FastPaths,
) -> Memory {
    let hooks = !spec.hooks.create_container.is_empty() || !spec.hooks.start_container.is_empty();
    let copies = spec
        .mounts
        .iter()
        .any(|mount| mount.options.iter().any(|option| option.as_str() == "tmpcopyup"));
    let alone = namespaces.new.contains(CloneFlags::NEWPID)
        && !namespaces.joined.contains(CloneFlags::NEWUSER);
    let suitable = has_room(linux) && alone && !hooks && !copies;
    match fast_paths.contains(FastPaths::SHARED_MEMORY) && suitable {
        true => Memory::Shared,
        false => Memory::Copied,
    }
}

/// Whether the memory limit leaves [`ROOM_TO_SHARE`].
fn has_room(linux: &Linux<'_>) -> bool {
    let limit = linux.resources.as_ref().and_then(|resources| resources.memory.as_ref()?.limit);
    let unified = linux.resources.as_ref().and_then(|resources| {
        match resources.unified.get("memory.max")?.trim() {
            "max" => None,
            // What the kernel reads otherwise, as "1G", may be little.
            limit => Some(limit.parse::<i64>().unwrap_or(0)),
        }
    });
    limit.is_none_or(|limit| limit <= 0 || limit >= ROOM_TO_SHARE)
        && unified.is_none_or(|limit| limit >= ROOM_TO_SHARE)
}
