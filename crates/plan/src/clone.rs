//! The clone: which namespaces are new, which are joined, and in what order.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use spec::{Linux, Process, Str};
use sys::clone::CloneFlags;

use crate::birth::Birth;
use crate::builder::Builder;
use crate::context::Context;
use crate::namespaces::flag;
use crate::path::c_string;
use crate::step::{HostStep, InitStep, Limit, Memory, NetDevice, Relay, Slot, TimeNamespace};
use crate::technique::Techniques;
use crate::{Error, ExecRequest, process};

/// Opens what is joined, then adds the clone. The PID namespace is joined by the host actor, since
/// setns(2) only changes where children are born; the rest by init, the user namespace first, so that
/// it may join the ones this one owns. With a joined user namespace, new ones must be made from
/// inside it: that takes an intermediate process.
pub fn compile(
    builder: &mut Builder,
    context: &Context<'_, '_>,
    limits: Vec<Limit>,
) -> Result<(), Error> {
    let Context { linux, namespaces, birth, .. } = context;
    let mut user = None;
    let mut pid = None;
    let mut time = None;
    let mut joins = Vec::new();
    for namespace in &linux.namespaces {
        let Some(path) = &namespace.path else { continue };
        let kind = flag(namespace.kind);
        let slot = builder.slot();
        // Kernel parameters of a namespace that is the host's would be changed for the host.
        let foreign = match spec::sysctl::refused_of_host(linux, namespace.kind) {
            Some(refusal) => {
                let own = format!("self/ns/{}", namespace.kind.proc_name());
                Some((c_string(own)?, refusal.to_string()))
            }
            None => None,
        };
        let path = c_string(path.as_str())?;
        builder.host(HostStep::OpenNamespace { slot, path, kind, foreign });
        match kind {
            CloneFlags::NEWUSER => user = Some(slot),
            CloneFlags::NEWPID => pid = Some(slot),
            CloneFlags::NEWTIME => time = Some(TimeNamespace::Joined(slot)),
            kind => joins.push((slot, kind)),
        }
    }
    // From namespaces of init's back to its own the host actor comes only with rights on the host.
    let confined = context.caller.is_confined();
    let relay_pid = pid.filter(|_| confined);
    if let Some(slot) = pid.filter(|_| !confined) {
        builder.host(HostStep::EnterPidNamespace { slot });
    }
    // The cgroup namespace is unshared later, from inside the container's cgroup; the mount namespace
    // too if it is a copy of the template's.
    let mut unshared = namespaces.new.intersection(CloneFlags::NEWCGROUP);
    if birth.from_template {
        unshared |= CloneFlags::NEWNS;
    }
    // The file system of message queues comes with its namespace and is whoever's that makes it: in a user
    // namespace only its root can own it, and set labels on it.
    if namespaces.user() {
        unshared |= namespaces.new.intersection(CloneFlags::NEWIPC);
    }
    let mut born_in = namespaces.new.difference(unshared);
    if born_in.contains(CloneFlags::NEWTIME) {
        born_in.remove(CloneFlags::NEWTIME);
        time = Some(TimeNamespace::New(offsets(linux)));
    }
    if birth.parallel_network {
        born_in.remove(CloneFlags::NEWNET);
    }
    let Birth { memory, into_cgroup, .. } = *birth;
    let relay_time = confined && time.is_some();
    let relay = (user.is_some() || relay_pid.is_some() || relay_time).then_some(Relay {
        user,
        pid: relay_pid,
        time: relay_time,
    });
    builder.host(HostStep::Clone { flags: born_in, relay, memory, time, into_cgroup });
    if let Some(location) = context.cgroup.filter(|location| location.unit.is_some()) {
        builder.host(HostStep::ReleaseScope { born_inside: into_cgroup && location.is_unified() });
    }
    let own_user = namespaces.new.contains(CloneFlags::NEWUSER);
    if own_user {
        builder.host(context.caller.map_ids(linux)?);
    }
    // Ids are mapped by whoever may trace init; and until then nobody else is in its namespaces.
    let was_dumpable = own_user && context.caller.is_rootless();
    if was_dumpable {
        builder.host(HostStep::Undumpable);
    }
    limit_resources(builder, namespaces.user(), limits);
    if !linux.net_devices.is_empty() {
        let network = joins.iter().find(|(_, kind)| *kind == CloneFlags::NEWNET);
        let namespace = network.map(|(slot, _)| *slot);
        builder.host(HostStep::MoveNetDevices { namespace, devices: net_devices(linux) });
    }
    // Id mappings, limits and devices come from outside.
    if namespaces.user() || !linux.net_devices.is_empty() {
        builder.host(HostStep::Admit);
        builder.init(InitStep::AwaitAdmission);
    }
    if was_dumpable {
        builder.init(InitStep::Undumpable);
    }
    builder.init(InitStep::JoinCgroups);
    // With --start-cpus as late as can be (compile.rs): what init mounts is what those are for.
    if !context.has_start_cpus {
        builder.init(InitStep::RunOnEveryCpu);
    }
    builder.init.append(&mut builder.taken);
    for (slot, kind) in joins {
        builder.init(InitStep::JoinNamespace { slot, kind });
    }
    if namespaces.user() {
        builder.init(InitStep::BecomeRoot);
    }
    if birth.from_template {
        builder.init(InitStep::JoinNamespace { slot: Slot::TEMPLATE, kind: CloneFlags::NEWNS });
    }
    if !unshared.is_empty() {
        builder.init(InitStep::Unshare(unshared));
    }
    if born_in.contains(CloneFlags::NEWNET) {
        builder.init(InitStep::LoopbackUp);
    }
    Ok(())
}

/// Adds the resource limits. In a user namespace root may not raise them, so the host actor sets them
/// and init has to wait for it; elsewhere init does it itself. Either way it happens before init changes
/// its user, after which neither may.
fn limit_resources(builder: &mut Builder, user_namespace: bool, limits: Vec<Limit>) {
    let some = !limits.is_empty();
    if user_namespace {
        if some {
            builder.host(HostStep::LimitResources(limits));
        }
    } else if some {
        builder.init(InitStep::LimitResources(limits));
    }
}

fn net_devices(linux: &Linux<'_>) -> Vec<NetDevice> {
    let device = |(name, device): (&Str<'_>, &spec::NetDevice<'_>)| NetDevice {
        name: name.to_string(),
        inside: device.name.as_ref().unwrap_or(name).to_string(),
    };
    linux.net_devices.iter().map(device).collect()
}

/// The text of timens_offsets.
fn offsets(linux: &Linux<'_>) -> String {
    let mut text = String::new();
    for (clock, offset) in &linux.time_offsets {
        let _ = writeln!(text, "{clock} {} {}", offset.secs, offset.nanosecs);
    }
    text
}

/// Joined by exec: every namespace of the container's init in one call. The CPUs to begin on are the
/// host actor's at the clone, since a process may be born in its cgroup; they are those to stay on, too,
/// where no others are named.
pub fn join_all(
    builder: &mut Builder,
    request: &ExecRequest<'_>,
    process: &Process<'_>,
) -> Result<(), Error> {
    let affinity = process.exec_cpu_affinity.as_ref().map(spec::CpuAffinity::sets).transpose()?;
    let [initial, settled] = affinity.unwrap_or_default();
    let kinds = request.namespaces;
    let rest = kinds.difference(CloneFlags::NEWPID | CloneFlags::NEWTIME);
    let joins_time = kinds.contains(CloneFlags::NEWTIME);
    // In the host's mount namespace the container's root is known by its init alone.
    let root = (!kinds.contains(CloneFlags::NEWNS)).then(|| builder.slot());
    if let Some(slot) = root {
        builder.host(HostStep::OpenRoot { slot, init: request.init });
    }
    let joins_pid = kinds.contains(CloneFlags::NEWPID);
    // Whoever has no rights on the host joins the user namespace first.
    let confined = request.caller.is_confined();
    let container = |is_so: bool| (confined && is_so).then_some(Slot::CONTAINER);
    let relay = Relay {
        user: container(kinds.contains(CloneFlags::NEWUSER)),
        pid: container(joins_pid),
        time: confined && joins_time,
    };
    let is_relayed = relay.user.is_some() || relay.pid.is_some() || relay.time;
    let rest = if relay.user.is_some() { rest.difference(CloneFlags::NEWUSER) } else { rest };
    let relay = is_relayed.then_some(relay);
    if joins_pid && !confined {
        builder.host(HostStep::EnterPidNamespace { slot: Slot::CONTAINER });
    }
    let settled = settled.or(initial);
    if let Some(cpus) = initial {
        builder.host(HostStep::RunOn(Box::new(cpus)));
    }
    // The PID namespace is the container's: whoever is in there could trace a process in our memory.
    builder.host(HostStep::Clone {
        flags: CloneFlags::empty(),
        relay,
        memory: Memory::Copied,
        time: joins_time.then_some(TimeNamespace::Joined(Slot::CONTAINER)),
        into_cgroup: request.techniques.contains(Techniques::CLONE_INTO_CGROUP),
    });
    limit_resources(builder, kinds.contains(CloneFlags::NEWUSER), process::limits(process)?);
    if kinds.contains(CloneFlags::NEWUSER) {
        builder.host(HostStep::Admit);
        builder.init(InitStep::AwaitAdmission);
    }
    builder.init(InitStep::JoinCgroups);
    builder.init(InitStep::RunOnEveryCpu);
    if let Some(cpus) = settled {
        builder.init(InitStep::RunOn(Box::new(cpus)));
    }
    if !rest.is_empty() {
        builder.init(InitStep::JoinProcess { slot: Slot::CONTAINER, kinds: rest });
    }
    if let Some(slot) = root {
        builder.init(InitStep::EnterRootOf { slot });
    }
    Ok(())
}
