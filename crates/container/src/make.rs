//! From a request to a container: recorded, launched, announced.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;

use launch::{Given, Launched, Network, Pending};
use plan::step::HostStep;
use plan::{Plan, Request, Techniques};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use spec::Spec;
use sys::Context;
use sys::clone::{Child, CloneFlags};
use trace::{PROGRAM, Phase};

use crate::bundle::Bundle;
use crate::console::Console;
use crate::directory::{self, START, path_in};
use crate::host_cache::HostCache;
use crate::identity::Identity;
use crate::layered::Prepared;
use crate::layered::record::LayeredRecord;
use crate::notify::{self, Manager};
use crate::options::CreateOptions;
use crate::record::{self, Header, Record};
use crate::request::check_preserved;
use crate::{Container, Error, Store, Trace, hooks, pid_file, time};

/// A container that was launched.
pub(crate) struct Made {
    pub container: Container,
    pub child: Child,
    pub pending: Option<Pending>,
    /// When it became its program, if it is traced.
    pub program_since: u64,
    /// What it says to the service manager, where that is to be heard now.
    pub notify: Option<OwnedFd>,
    /// What is left of assembling its root filesystem.
    pub _rootfs: Option<rootfs::Assembled>,
}

impl Made {
    /// Puts the program on the time line, up to now.
    pub(crate) fn program_ran(&self, trace: &Trace, spec: &Spec<'_>) {
        let args = spec.process.as_ref().map(|process| &process.args[..]).unwrap_or_default();
        let program = args.first().map_or("", |name| name);
        if self.program_since > 0 {
            let time = (self.program_since, trace.clock());
            trace.lived(PROGRAM, self.child.pid, Phase::Program, program, time);
        }
    }
}

/// Claims the id, writes the record, runs the plan. Undone as a whole if any of it fails.
pub(crate) fn make(
    store: &Store,
    options: &CreateOptions<'_>,
    bundle: &Bundle,
    spec: &Spec<'_>,
    request: Request<'_>,
    console: Console<'_>,
    prepared: Option<&Prepared>,
) -> Result<Made, Error> {
    check_preserved(request.preserve_fds)?;
    let trace = store.trace();
    let mut request = Request { rootfs: prepared.map(Prepared::root), ..request };
    // A maker is worth its process only where a CPU is free for it.
    if plan::makes_network(spec, &request)
        && request.kernel.techniques.contains(Techniques::CROWD_CHECK)
        && launch::is_crowded()
    {
        request.kernel.techniques.remove(Techniques::PARALLEL_NETWORK);
    }
    let network = match plan::makes_network(spec, &request) {
        true => Some(trace.work(Phase::Platform, "begin network", "", || Network::begin(trace))?),
        false => None,
    };
    let cache = HostCache::open(request.kernel.techniques, &request.caller);
    if let Some(profile) = spec.linux.as_ref().and_then(|linux| linux.seccomp) {
        let filter = trace.work(Phase::Security, "find seccomp filter", "", || {
            let filter = cache.filter(profile.get(), &request.kernel);
            filter.map_err(|error| bundle.syntax_error().unwrap_or(error))
        });
        request.filter = Some(filter?);
    }
    let since = trace.clock();
    let template = cache.template();
    trace.add(Phase::Mounts, "find template", "", (since, trace.clock()));
    request.template = template.is_some();
    let request = &request;
    // Kept for good: an init in our memory reads it until its exec.
    let plan: &'static Plan =
        Box::leak(Box::new(trace.work(Phase::Configuration, "compile plan", "", || {
            Ok::<_, Error>(plan::compile(spec, request)?)
        })?));
    options.warn.all(&plan.warnings);
    let since = trace.clock();
    let devices = cache.devices(plan);
    trace.add(Phase::Cgroups, "find device program", "", (since, trace.clock()));
    let root = Rc::clone(store.root_fd());
    let console = console.into_sender();
    let given = Given { console, template, network, devices, ..Given::default() };
    let directory = match prepared.and_then(Prepared::take_directory) {
        Some(claimed) => claimed,
        None => {
            trace.work(Phase::Configuration, "claim", options.id, || store.claim(options.id))?
        }
    };
    let layered = prepared.map(|prepared| &*prepared.record);
    let result = listen_for_readiness(trace, options, request, &directory).and_then(|notify| {
        launch_claimed(trace, options, bundle, spec, request, plan, layered, &directory, given)
            .map(|recorded| (recorded, notify))
    });
    match result {
        Ok((Recorded { header, record, launched }, notify)) => {
            let Launched { child, program_since, pending, rootfs } = launched;
            if let Some(prepared) = prepared {
                prepared.keep();
                prepared
                    .tell(trace, rootfs.as_ref().map(|rootfs| rootfs.counts).unwrap_or_default());
            }
            let filter = Vec::new();
            let is_begun = false;
            let mut container =
                Container { root, directory, header, record, is_begun, filter, trace };
            if !request.wait_for_start
                && let Err(error) = release(&mut container, store, pending.is_some())
            {
                if let Some(path) = options.pid_file {
                    pid_file::remove(path);
                }
                let _ = container.destroy(options.warn);
                return Err(error);
            }
            Ok(Made { container, child, pending, program_since, notify, _rootfs: rootfs })
        }
        Err(error) => {
            if let Some(path) = options.pid_file {
                pid_file::remove(path);
            }
            // What failed counts; where this fails as well it is for the same reason.
            let _ = store.remove(directory.as_fd(), options.id);
            Err(error)
        }
    }
}

/// Has others see the container as one that is whole. Init may hold the lock's descriptor as well, until its
/// exec, if that was not awaited.
fn release(container: &mut Container, store: &Store, init_has_lock: bool) -> Result<(), Error> {
    let id = &container.record.id;
    container.trace.point("unlock", id)?;
    match init_has_lock {
        true => container.directory = store.reopen(id)?,
        false => directory::unlock(container.directory.as_fd()).context("flock", id)?,
    }
    Ok(())
}

/// The directory of the notify socket, where there is a service manager; and the socket, unless it is
/// `start` that will listen.
fn listen_for_readiness(
    trace: &Trace,
    options: &CreateOptions<'_>,
    request: &Request<'_>,
    directory: &OwnedFd,
) -> Result<Option<OwnedFd>, Error> {
    if Manager::of(options.env).is_none() {
        return Ok(None);
    }
    trace.point("mkdir", directory::NOTIFY_DIRECTORY)?;
    notify::make_directory(directory.as_fd())?;
    match request.wait_for_start {
        true => Ok(None),
        false => Ok(Some(notify::listen(directory.as_fd(), trace)?)),
    }
}

/// What a launch leaves in memory.
struct Recorded {
    header: Header,
    record: Record,
    launched: Launched,
}

#[allow(clippy::too_many_arguments, reason = "all that a launch is made of, in one place")]
fn launch_claimed(
    trace: &Trace,
    options: &CreateOptions<'_>,
    bundle: &Bundle,
    spec: &Spec<'_>,
    request: &Request<'_>,
    plan: &'static Plan,
    layered: Option<&LayeredRecord>,
    directory: &OwnedFd,
    mut given: Given,
) -> Result<Recorded, Error> {
    let record = describe(bundle, spec, request, plan, layered);
    let memory = spec.linux.as_ref().and_then(|linux| linux.resources.as_ref()?.memory.as_ref());
    let swap = memory.and_then(|memory| memory.swap).unwrap_or(0);
    let mut draft = trace.work(Phase::Configuration, "write record", "", || {
        record::write(directory.as_fd(), &record, swap, plan.filter.as_ref())
    })?;
    if let Some(layered) = layered {
        trace.work(Phase::Mounts, "make directory", options.id, || layered.make_directory())?;
    }
    if request.wait_for_start {
        trace.point("listen", START)?;
        given.start = Some(listen_for_start(directory)?);
    }
    let bundle = CString::new(bundle.path.as_str()).unwrap_or_default();
    let mut header = None;
    let mut on_birth = |child: &Child| {
        trace.point("identify", "init")?;
        let identity = Identity::of(child.pid, &child.pidfd).context("fstat", "pidfd")?;
        trace.point("write", directory::RECORD)?;
        header = Some(draft.complete(child.pid, identity)?);
        announce(child, "standard", options.pid_file, options.pidfd_socket, trace)
    };
    let launched = launch::launch(plan, given, &bundle, trace, &mut on_birth)?;
    let header = header.ok_or_else(|| Error::text("the plan does not record the process"))?;
    Ok(Recorded { header, record, launched })
}

/// Tells the caller of the new process in the ways it asked for. `kind` is what runc calls such a process:
/// the word goes with the pidfd.
pub(crate) fn announce(
    child: &Child,
    kind: &str,
    pid_file: Option<&str>,
    pidfd_socket: Option<&str>,
    trace: &Trace,
) -> Result<(), sys::Error> {
    if let Some(path) = pid_file {
        trace.point("write pid file", path)?;
        pid_file::write(path, child.pid)?;
    }
    if let Some(path) = pidfd_socket {
        trace.point("send pidfd", path)?;
        let sent = sys::fdpass::dial(path)
            .and_then(|socket| sys::fdpass::send(socket, kind.as_bytes(), child.pidfd.as_fd()));
        sent.context("send pidfd", path)?;
    }
    Ok(())
}

fn listen_for_start(directory: &OwnedFd) -> Result<OwnedFd, sys::Error> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .context("socket", START)?;
    let address = SocketAddrUnix::new(path_in(directory.as_fd(), START)).context("bind", START)?;
    bind(&socket, &address).context("bind", START)?;
    listen(&socket, 8).context("listen", START)?;
    Ok(socket)
}

fn describe(
    bundle: &Bundle,
    spec: &Spec<'_>,
    request: &Request<'_>,
    plan: &Plan,
    layered: Option<&LayeredRecord>,
) -> Record {
    let linux = spec.linux.as_ref();
    let namespaces = linux.map(|linux| &linux.namespaces[..]).unwrap_or_default();
    let bits = |own: bool| {
        let chosen = namespaces.iter().filter(|namespace| !own || namespace.path.is_none());
        chosen.fold(CloneFlags::empty(), |bits, namespace| {
            bits | CloneFlags::from_bits_retain(namespace.kind.clone_flag())
        })
    };
    let root = spec.root.as_ref().map(|root| plan::absolute(&bundle.path, &root.path));
    Record {
        id: request.id.to_string(),
        bundle: bundle.path.clone(),
        rootfs: root.unwrap_or_default(),
        created: time::now(),
        owner: request.caller.uid,
        confined: request.caller.is_confined(),
        annotations: spec
            .annotations
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        cgroup: request.cgroup.clone(),
        resctrl: request.resctrl.clone(),
        namespaces: bits(false).bits(),
        own_namespaces: bits(true).bits(),
        process: serde_json::to_string(&spec.process).unwrap_or_default(),
        execution: plan.execution.clone(),
        poststart: hooks::to_json(&spec.hooks.poststart),
        poststop: hooks::to_json(&spec.hooks.poststop),
        keyring: !request.no_new_keyring,
        layered: layered.cloned().map(Box::new),
        state_head: plan.state.head().to_string(),
        agent: plan.host.iter().find_map(|step| match step {
            HostStep::SendListener(agent) => {
                let socket = agent.socket.to_string_lossy().into_owned();
                Some(Box::new((socket, agent.metadata.clone())))
            }
            _ => None,
        }),
    }
}
