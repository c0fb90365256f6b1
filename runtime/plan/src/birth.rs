//! Decides how init is created, and which fast paths this container can use.

use spec::{Hooks, Linux, Spec};
use sys::clone::CloneFlags;

use crate::caller::Caller;
use crate::fast_path::FastPaths;
use crate::mounts::host_path::needs_host_table;
use crate::namespaces::Namespaces;
use crate::request::{ProgramStart, Request};
use crate::step::Memory;

/// The lowest memory limit, in bytes, with which init may share the parent's memory. With a lower
/// limit, the OOM killer may kill init during the setup. The OOM killer then also kills every
/// process that shares init's memory, including the parent, which has to report the failure.
const ROOM_TO_SHARE: i64 = 64 << 20;

/// The decisions about how init is created.
#[derive(Debug, Clone, Copy)]
pub struct Birth {
    /// Whether init's mount namespace starts as a copy of the blank namespace, which contains one empty
    /// file system. If not, it starts as a copy of the host's mount namespace, and init detaches
    /// the host's mounts later.
    pub from_blank: bool,
    /// Whether the network maker creates init's network namespace while init is being set up.
    pub parallel_network: bool,
    /// Whether init unshares its network namespace, instead of being created in it. Init's pid is then known sooner, and a
    /// template can fork the program only once it is known.
    pub late_network: bool,
    /// Whether init waits for the network namespace just before it mounts the first sysfs of the configuration. If not,
    /// init mounts sysfs after all other mounts, and waits for the network namespace just before that.
    pub mounts_in_turn: bool,
    /// Whether init shares the parent's memory.
    pub memory: Memory,
    /// Whether an intermediate shares the parent's memory. An intermediate that joins a user or time namespace never
    /// does.
    pub intermediate_memory: Memory,
    /// Whether init is created in its cgroup.
    pub into_cgroup: bool,
    /// Whether init moves to v1 cgroups by writing to the file `tasks`, which moves one thread; init has only one.
    pub thread_move: bool,
    /// Whether all masked directories are covered by mounts of one empty directory.
    pub shared_masks: bool,
}

impl Birth {
    /// Decides how to create init for a container with this filter.
    pub fn of(
        spec: &Spec<'_>,
        linux: &Linux<'_>,
        namespaces: &Namespaces,
        request: &Request<'_>,
        filter: Option<&seccomp::Program>,
    ) -> Self {
        let fast_paths = request.kernel.fast_paths;
        // setns(2) back to the old time namespace fails with EUSERS if the memory is shared, so a new time namespace
        // rules out CLONE_VM.
        let host_time = !namespaces.has(CloneFlags::NEWTIME);
        // The filter's agent may keep init waiting right before the program. Meanwhile, other processes may already
        // enter the container, so init must not share the parent's memory.
        let waits = !request.wait_for_start && filter.is_some_and(seccomp::Program::has_listener);
        // An init that stays after the program's begin must not use the memory of a command that ends.
        let stays = matches!(request.program_start, ProgramStart::Reaped | ProgramStart::Forked);
        // An init that opens mounts itself stores their descriptors in the slot table, so it must not share the
        // parent's memory.
        let shares = host_time && !request.caller.is_confined() && !waits && !stays;
        Self {
            from_blank: request.blank
                && fast_paths.contains(FastPaths::BLANK_NAMESPACE)
                && is_plain(spec, linux, namespaces, &request.caller)
                && namespaces.new.contains(CloneFlags::NEWNS)
                && !request.no_pivot,
            parallel_network: makes_network(spec, &request.caller, fast_paths),
            late_network: request.program_start == ProgramStart::Forked
                && has_free_network(linux, namespaces),
            mounts_in_turn: request.kernel.lists_mounts_in_turn(),
            memory: match shares {
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

/// Returns whether the network maker, a separate process, creates the container's network namespace. If so, the caller
/// should start the network maker early.
pub fn makes_network(spec: &Spec<'_>, caller: &Caller, fast_paths: FastPaths) -> bool {
    let Some(linux) = &spec.linux else { return false };
    let namespaces = Namespaces::of(linux);
    fast_paths.contains(FastPaths::PARALLEL_NETWORK)
        && is_plain(spec, linux, &namespaces, caller)
        && !namespaces.has(CloneFlags::NEWTIME)
        && has_free_network(linux, &namespaces)
}

/// Returns whether the container's network namespace is new, and no network devices are moved to it before init
/// continues.
fn has_free_network(linux: &Linux<'_>, namespaces: &Namespaces) -> bool {
    namespaces.new.contains(CloneFlags::NEWNET) && linux.net_devices.is_empty()
}

/// Returns whether a process other than init may create namespaces of the container. A user namespace owns only
/// namespaces that a process in it has created, so then no process outside it may.
fn is_plain(spec: &Spec<'_>, linux: &Linux<'_>, namespaces: &Namespaces, caller: &Caller) -> bool {
    !namespaces.user() && !caller.is_confined() && !needs_mount_table(spec, linux)
}

/// Returns whether the container needs the host's mounts in its own namespace until pivot_root(2). There are three
/// reasons: hooks that enter the namespace look for programs and the rootfs at their paths on the host; init creates a
/// file system from a path of the host; or the root shares mount events with the host.
fn needs_mount_table(spec: &Spec<'_>, linux: &Linux<'_>) -> bool {
    // The others run later, or outside.
    let Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container: _,
        poststart: _,
        poststop: _,
    } = &spec.hooks;
    !prestart.is_empty()
        || !create_runtime.is_empty()
        || !create_container.is_empty()
        || spec.mounts.iter().any(needs_host_table)
        || !matches!(linux.rootfs_propagation.as_deref(), None | Some("private" | "rprivate"))
}

/// Returns whether init shares the parent's memory. Init shares the parent's memory only if no other program runs in
/// init's PID namespace before init's exec: a hook in that namespace could trace init, and so write to the parent's
/// memory. Init also gets a copy of the memory if a mount has the option tmpcopyup: the kernel charges pages to the
/// cgroup of the process that owns the memory, and the copied files must be charged to the container.
fn memory(
    spec: &Spec<'_>,
    linux: &Linux<'_>,
    namespaces: &Namespaces,
    fast_paths: FastPaths,
) -> Memory {
    // The others do not run in the PID namespace of init.
    let Hooks {
        create_container,
        start_container,
        prestart: _,
        create_runtime: _,
        poststart: _,
        poststop: _,
    } = &spec.hooks;
    let hooks = !create_container.is_empty() || !start_container.is_empty();
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

/// Returns whether the memory limit is at least [`ROOM_TO_SHARE`].
fn has_room(linux: &Linux<'_>) -> bool {
    let limit = linux.resources.as_ref().and_then(|resources| resources.memory.as_ref()?.limit);
    let unified = linux.resources.as_ref().and_then(|resources| {
        match resources.unified.get("memory.max")?.trim() {
            "max" => None,
            // A value that only the kernel can parse, such as "1G", may be small.
            limit => Some(limit.parse::<i64>().unwrap_or(0)),
        }
    });
    limit.is_none_or(|limit| limit <= 0 || limit >= ROOM_TO_SHARE)
        && unified.is_none_or(|limit| limit >= ROOM_TO_SHARE)
}
