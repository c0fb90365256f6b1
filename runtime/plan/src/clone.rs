//! The clone: which namespaces are new, which are joined, and in what order.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use rustix::process::Resource;
use spec::{Linux, Process, Str};
use sys::clone::CloneFlags;

use crate::birth::Birth;
use crate::builder::Builder;
use crate::context::Context;
use crate::fast_path::FastPaths;
use crate::namespaces::{flag, has_mappings, maps};
use crate::path::c_string;
use crate::step::{
    InitStep, Intermediate, Limit, Memory, NetDevice, ParentStep, Slot, TimeNamespace,
};
use crate::{Descriptors, Error, ExecRequest, keep};

/// The types of namespaces that must be joined before a user namespace is entered: a process in a user namespace cannot
/// join a namespace that another user namespace owns. The parent joins these namespaces, and init inherits them
/// (`elsewhere-only-to-clone`). With root's rights, the parent also joins those that the container's own user namespace
/// owns.
pub(crate) const BEFORE_USER: [CloneFlags; 4] =
    [CloneFlags::NEWNET, CloneFlags::NEWIPC, CloneFlags::NEWUTS, CloneFlags::NEWCGROUP];

/// Opens the namespaces to join, then adds the clone.
///
/// setns(2) of a PID namespace affects only the caller's future children, so an intermediate joins the PID namespace
/// and creates init in it. If no user namespace is joined, the intermediate joins all other namespaces as well
/// (newborn.rs). If a user namespace is joined, new namespaces must be created from inside it, which also requires an
/// intermediate. In that case, the PID namespace and the namespaces of the types in [`BEFORE_USER`] are joined by the
/// parent, if it can return to its own namespaces afterwards, and otherwise by the intermediate.
pub fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    limits: Vec<Limit>,
) -> Result<(), Error> {
    let Context { linux, namespaces, birth, request, .. } = context;
    let mut user = None;
    let mut pid = None;
    let mut time = None;
    let mut joins = Vec::new();
    for namespace in &linux.namespaces {
        let Some(path) = &namespace.path else { continue };
        let kind = flag(namespace.kind);
        let slot = builder.slot();
        // If this namespace turned out to be the host's, the configuration's sysctls would change the host.
        let foreign = match spec::sysctl::refused_of_host(linux, namespace.kind) {
            Some(refusal) => {
                let own = format!("self/ns/{}", namespace.kind.proc_name());
                Some((c_string(own)?, refusal.to_string()))
            }
            None => None,
        };
        let path = c_string(path.as_str())?;
        builder.parent(ParentStep::OpenNamespace { slot, path, kind, foreign });
        match kind {
            CloneFlags::NEWUSER => user = Some(slot),
            CloneFlags::NEWPID => pid = Some(slot),
            CloneFlags::NEWTIME => time = Some(TimeNamespace::Joined(slot)),
            kind => joins.push((slot, kind)),
        }
    }
    // The parent can return from init's namespaces to its own only with rights on the host.
    let confined = request.caller.is_confined();
    let relay_pid = pid.filter(|_| confined || user.is_none());
    let network = joins.iter().find(|(_, kind)| *kind == CloneFlags::NEWNET);
    let network = network.map(|(slot, _)| *slot);
    // A rootless caller can join only namespaces that the joined user namespace owns, so the order does not matter for
    // it.
    let mut first = Vec::new();
    if namespaces.user() && !request.caller.is_rootless() {
        first = joins.extract_if(.., |(_, kind)| BEFORE_USER.contains(kind)).collect();
    }
    if let Some(slot) = pid.filter(|_| relay_pid.is_none()) {
        builder.parent(ParentStep::EnterPidNamespace { slot });
    }
    if !confined {
        for (slot, kind) in first.drain(..) {
            builder.parent(ParentStep::EnterNamespace { slot, kind });
        }
    }
    // Init unshares the cgroup namespace later, when it is in the container's cgroup. A mount namespace that is a copy
    // of the blank namespace is unshared later, too.
    let mut unshared = namespaces.new.intersection(CloneFlags::NEWCGROUP);
    if birth.from_blank {
        unshared |= CloneFlags::NEWNS;
    }
    // `ipc-made-by-root`
    if namespaces.user() {
        unshared |= namespaces.new.intersection(CloneFlags::NEWIPC);
    }
    if birth.late_network {
        unshared |= CloneFlags::NEWNET;
    }
    let mut born_in = namespaces.new.difference(unshared);
    if born_in.contains(CloneFlags::NEWTIME) {
        born_in.remove(CloneFlags::NEWTIME);
        time = Some(TimeNamespace::New(keep::text(offsets(linux))));
    }
    if birth.parallel_network {
        born_in.remove(CloneFlags::NEWNET);
    }
    // A rootless caller cannot create a time namespace for a container with a new user namespace: only root of that
    // user namespace may. So init itself creates the time namespace, once init is that root.
    let own_user = namespaces.new.contains(CloneFlags::NEWUSER);
    let made_inside = match &time {
        Some(TimeNamespace::New(_)) if context.maps_ids() => time.take(),
        _ => None,
    };
    let Birth { memory, intermediate_memory, mut into_cgroup, thread_move, .. } = *birth;
    // From another cgroup namespace, the kernel may deny access to the cgroup (nsdelegate, cgroup_namespaces(7)). For a
    // move, the kernel checks the process that opened cgroup.procs; for CLONE_INTO_CGROUP, it checks the calling
    // process.
    into_cgroup &= !(namespaces.user() && namespaces.joined.contains(CloneFlags::NEWCGROUP));
    let relay_time = confined && time.is_some();
    let intermediate = (user.is_some() || relay_pid.is_some() || relay_time || !first.is_empty())
        .then_some(Intermediate {
            first: Intermediate::first(first),
            user,
            pid: relay_pid,
            time: relay_time,
            steps: 0,
            strips: None,
        });
    let memory =
        intermediate.map_or(memory, |intermediate| intermediate.memory(intermediate_memory));
    builder.parent(ParentStep::Clone {
        flags: born_in,
        intermediate,
        memory,
        time,
        into_cgroup,
        thread_move,
    });
    if let Some(location) = context.cgroup().filter(|location| location.unit.is_some()) {
        builder
            .parent(ParentStep::ReleaseScope { born_inside: into_cgroup && location.is_unified() });
    }
    if own_user {
        builder.parent(request.caller.map_ids(linux)?);
    } else if namespaces.user() && has_mappings(linux) {
        // Engines pass the mappings of a pod's user namespace to the containers that join it.
        let maps = maps(&linux.uid_mappings, &linux.gid_mappings);
        builder.parent(ParentStep::VerifyIds(maps));
    }
    // `maps-before-undumpable`; until the maps are written, no other process is in init's namespaces.
    if context.maps_ids() {
        builder.parent(ParentStep::Undumpable);
    }
    limit_resources(builder, namespaces.user(), limits);
    if !linux.net_devices.is_empty() {
        builder
            .parent(ParentStep::MoveNetDevices { namespace: network, devices: net_devices(linux) });
    }
    // `outside-before-admit`
    if namespaces.user() || !linux.net_devices.is_empty() {
        builder.parent(ParentStep::Admit);
        builder.init(InitStep::AwaitAdmission);
    }
    // `time-while-dumpable`
    if let Some(TimeNamespace::New(offsets)) = made_inside {
        let ahead = nanoseconds_ahead(linux);
        builder.init(InitStep::EnterTime { offsets, ahead });
    }
    if context.maps_ids() && !context.shown_to_hooks() {
        builder.init(InitStep::Undumpable);
    }
    builder.init(InitStep::JoinCgroups);
    // With --start-cpus, the CPU affinity is set as late as possible (compile.rs), so that init mounts on the start
    // CPUs.
    if !context.has_start_cpus() {
        builder.init(InitStep::RunOnEveryCpu);
    }
    // `taken-before-root`, `joined-before-root`
    core::mem::take(&mut builder.taken).into_iter().for_each(|step| builder.init(step));
    for (slot, kind) in joins {
        builder.init(InitStep::JoinNamespace { slot, kind });
    }
    if namespaces.user() {
        builder.init(InitStep::BecomeRoot);
    }
    // `blank-left-at-once`
    if birth.from_blank {
        builder.init(InitStep::JoinNamespace { slot: Slot::BLANK, kind: CloneFlags::NEWNS });
    }
    if !unshared.is_empty() {
        builder.init(InitStep::Unshare(unshared));
    }
    if namespaces.new.contains(CloneFlags::NEWNET) && !birth.parallel_network {
        builder.init(InitStep::LoopbackUp);
    }
    Ok(())
}

/// An allowance for descriptors that are open in init, besides slots and the descriptors passed to the program: init's
/// own, and those that the caller left open.
pub(crate) const OTHER_DESCRIPTORS: u64 = 128;

/// Returns the number of open descriptors that init's work needs.
pub(crate) fn room(slots: u16, preserved: u32) -> u64 {
    OTHER_DESCRIPTORS + u64::from(slots) + u64::from(preserved)
}

/// Returns the limit that parent and init get for their work if the caller's own limit leaves too little `room`. It is
/// the caller's hard limit, to which every caller may raise its soft limit.
pub(crate) fn raised(own: Limit, room: u64) -> Option<Descriptors> {
    let is_low = own.soft.is_some_and(|soft| soft < room) && own.soft != own.hard;
    is_low.then_some(Descriptors { raised: Limit { soft: own.hard, ..own }, own })
}

/// Returns the limit on open descriptors if it is too low for init's work. Init sets this limit last
/// (`low-nofile-last`); this needs no privileges, because it only lowers the limit. Until then, if the hard limit is
/// high enough, the list has the hard limit as soft limit as well; if not, the limit is removed from the list.
pub(crate) fn low_limits(limits: &mut Vec<Limit>, room: u64) -> Vec<Limit> {
    let is_low = |limit: &Limit| {
        limit.resource == Resource::Nofile && limit.soft.is_some_and(|soft| soft < room)
    };
    let low: Vec<Limit> = limits.iter().copied().filter(is_low).collect();
    if !low.is_empty() {
        limits.retain(|limit| !is_low(limit) || limit.hard.is_none_or(|hard| hard >= room));
        for limit in limits.iter_mut().filter(|limit| is_low(limit)) {
            limit.soft = limit.hard;
        }
    }
    low
}

/// Adds the resource limits. Root of a user namespace may not raise limits. So if init will be in a user namespace, the
/// parent sets the limits and init waits for the parent. If not, init sets the limits itself. `limits-before-user`
/// holds in both cases.
fn limit_resources(builder: &mut Builder, user_namespace: bool, limits: Vec<Limit>) {
    let some = !limits.is_empty();
    if user_namespace {
        if some {
            builder.parent(ParentStep::LimitResources(limits));
        }
    } else if some {
        builder.init(InitStep::LimitResources(keep::all(limits)));
    }
}

fn net_devices(linux: &Linux<'_>) -> Vec<NetDevice> {
    let device = |(name, device): (&Str<'_>, &spec::NetDevice<'_>)| NetDevice {
        name: name.to_string(),
        inside: device.name.as_ref().unwrap_or(name).to_string(),
    };
    linux.net_devices.iter().map(device).collect()
}

/// Returns the number of nanoseconds by which the monotonic clock of the time namespace is ahead of the host's.
fn nanoseconds_ahead(linux: &Linux<'_>) -> i64 {
    let mut offsets = linux.time_offsets.iter();
    let offset = offsets.find(|(clock, _)| clock.as_str() == "monotonic").map(|(_, offset)| offset);
    offset.map_or(0, |offset| {
        offset.secs.saturating_mul(1_000_000_000).saturating_add(i64::from(offset.nanosecs))
    })
}

/// Returns the text of timens_offsets.
fn offsets(linux: &Linux<'_>) -> String {
    let mut text = String::new();
    for (clock, offset) in &linux.time_offsets {
        let _ = writeln!(text, "{clock} {} {}", offset.secs, offset.nanosecs);
    }
    text
}

/// Adds the steps by which an exec joins all namespaces of the container's init in one call. The parent sets the
/// initial CPUs of `execCPUAffinity` before the clone, because the clone may create the process in its cgroup. When the
/// process is in its cgroup, it sets the final CPUs or, if there are none, the initial CPUs again.
pub fn join_all(
    builder: &mut Builder,
    request: &ExecRequest<'_>,
    process: &Process<'_>,
    limits: Vec<Limit>,
) -> Result<(), Error> {
    let affinity = process.exec_cpu_affinity.as_ref().map(spec::CpuAffinity::sets).transpose()?;
    let [initial, settled] = affinity.unwrap_or_default();
    let kinds = request.namespaces;
    let rest = kinds.difference(CloneFlags::NEWPID | CloneFlags::NEWTIME);
    let joins_time = kinds.contains(CloneFlags::NEWTIME);
    // If a container is in the host's mount namespace, its root can be reached only through its init.
    let root = (!kinds.contains(CloneFlags::NEWNS)).then(|| builder.slot());
    if let Some(slot) = root {
        builder.parent(ParentStep::OpenRoot { slot, init: request.init });
    }
    let joins_pid = kinds.contains(CloneFlags::NEWPID);
    // If the caller has no rights on the host, the intermediate joins the user namespace first. There is one exception:
    // if the caller is root of another user namespace, the intermediate first joins the namespaces that the container's
    // user namespace may not own.
    let confined = request.caller.is_confined();
    let container = |is_so: bool| (confined && is_so).then_some(Slot::CONTAINER);
    let joins_user = kinds.contains(CloneFlags::NEWUSER);
    let has_first = confined && joins_user && !request.caller.is_rootless();
    let first = BEFORE_USER.into_iter().filter(|kind| has_first && kinds.contains(*kind));
    let rest = first.clone().fold(rest, CloneFlags::difference);
    let intermediate = Intermediate {
        first: Intermediate::first(first.map(|kind| (Slot::CONTAINER, kind))),
        user: container(joins_user),
        // If the container has no user namespace, the intermediate joins the PID namespace and the other namespaces in
        // one call.
        pid: container(joins_pid && joins_user),
        time: confined && joins_time,
        steps: 0,
        strips: None,
    };
    let is_stripped = joins_pid && !joins_user;
    let has_intermediate = is_stripped
        || intermediate.user.is_some()
        || intermediate.pid.is_some()
        || intermediate.time;
    let rest =
        if intermediate.user.is_some() { rest.difference(CloneFlags::NEWUSER) } else { rest };
    let rest = if is_stripped { rest | CloneFlags::NEWPID } else { rest };
    let intermediate = has_intermediate.then_some(intermediate);
    if joins_pid && joins_user && !confined {
        builder.parent(ParentStep::EnterPidNamespace { slot: Slot::CONTAINER });
    }
    let settled = settled.or(initial);
    if let Some(cpus) = initial {
        builder.parent(ParentStep::RunOn(Box::new(cpus)));
    }
    // Only an intermediate may share this command's memory. Init may not: the PID namespace belongs to the container,
    // so a process in it could trace init. A container may have reached its memory limit, however high: the OOM killer
    // kills all processes that share its victim's memory, which would include this command.
    let may_share = request.fast_paths.contains(FastPaths::SHARED_MEMORY)
        && !request.memory_is_limited
        && !request.cgroup_is_asked_for;
    let memory = match intermediate {
        Some(intermediate) if may_share => intermediate.memory(Memory::Shared),
        _ => Memory::Copied,
    };
    builder.parent(ParentStep::Clone {
        flags: CloneFlags::empty(),
        intermediate,
        memory,
        time: joins_time.then_some(TimeNamespace::Joined(Slot::CONTAINER)),
        into_cgroup: request.fast_paths.contains(FastPaths::CLONE_INTO_CGROUP),
        thread_move: request.fast_paths.contains(FastPaths::THREAD_MOVE),
    });
    limit_resources(builder, kinds.contains(CloneFlags::NEWUSER), limits);
    if kinds.contains(CloneFlags::NEWUSER) {
        builder.parent(ParentStep::Admit);
        builder.init(InitStep::AwaitAdmission);
    }
    builder.init(InitStep::JoinCgroups);
    builder.init(InitStep::RunOnEveryCpu);
    if let Some(cpus) = settled {
        builder.init(InitStep::RunOn(keep::one(sys::sched::cpu_set(cpus.iter()))));
    }
    if !rest.is_empty() {
        builder.init(InitStep::JoinProcess { slot: Slot::CONTAINER, kinds: rest });
    }
    if let Some(slot) = root {
        builder.init(InitStep::EnterRootOf { slot });
    }
    Ok(())
}
