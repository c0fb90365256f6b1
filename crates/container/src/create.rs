//! `create` and `run`: from a bundle to a container.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use cgroup::tier::Taken;
use launch::{Given, Launched, Network, Pending};
use plan::step::{HostStep, NumberSet};
use plan::{Caller, Kernel, Plan, Request, Techniques};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use spec::Spec;
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::defence::{Defence, is_off};
use trace::{PROGRAM, Phase};

use crate::console::{Console, Terminal};
use crate::host_cache::HostCache;
use crate::identity::Identity;
use crate::layered::{self, LayeredOptions, LayeredRecord, Prepared};
use crate::notify::{self, Manager, Relay};
use crate::record::{self, Header, Record};
use crate::start_cpus::StartCpus;
use crate::store::{self, START, TryClone, path_in};
use crate::{Container, Error, Store, Trace, foreground, hooks, pid_file, placement, time};

/// Who manages cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// dayfly, through the cgroup filesystems.
    #[default]
    Cgroupfs,
    /// systemd, over D-Bus.
    Systemd,
    /// Nobody: the container stays in the caller's cgroup.
    Disabled,
}

/// What `create` is given.
#[derive(Debug, Clone)]
pub struct CreateOptions<'a> {
    /// The container.
    pub id: &'a str,
    /// The bundle's directory; empty for the working directory.
    pub bundle: &'a str,
    /// Another file than the bundle's config.json.
    pub config: Option<&'a str>,
    /// Where to write init's pid.
    pub pid_file: Option<&'a str>,
    /// The socket that receives the terminal.
    pub console_socket: Option<&'a str>,
    /// The socket that receives init's pidfd.
    pub pidfd_socket: Option<&'a str>,
    /// Do without pivot_root(2).
    pub no_pivot: bool,
    /// Keep the caller's session keyring.
    pub no_new_keyring: bool,
    /// Descriptors after 2 that go on to the process.
    pub preserve_fds: u32,
    /// Who manages cgroups.
    pub cgroup_driver: CgroupDriver,
    /// Whether a container may be without a cgroup that the caller cannot make; by who that is, if `None`.
    pub rootless: Option<bool>,
    /// The environment of the command, for LISTEN_FDS.
    pub env: sys::Args,
    /// The CPUs to start from; the program runs where it would have otherwise.
    pub start_cpus: Option<NumberSet>,
    /// What the start makes use of.
    pub techniques: Techniques,
    /// Words for its CPUs.
    pub pin: Option<&'a str>,
    /// The pool that its cgroup is taken from.
    pub tier: Option<&'a str>,
    /// The root filesystem, where it comes in layers.
    pub layered: Option<&'a LayeredOptions<'a>>,
}

/// What `run` is given.
#[derive(Debug, Clone)]
pub struct RunOptions<'a> {
    /// As for `create`.
    pub create: CreateOptions<'a>,
    /// Return once the program runs.
    pub detach: bool,
    /// Leave the container when it has ended.
    pub keep: bool,
    /// Do not become the reaper of orphaned descendants.
    pub no_subreaper: bool,
}

/// Makes a container that waits for `start`.
///
/// # Errors
/// Whatever is wrong with id, bundle, configuration or host. Nothing is left then.
pub fn create(store: &Store, options: &CreateOptions<'_>) -> Result<(), Error> {
    let cpus = StartCpus::enter(options.start_cpus.as_ref())?;
    let bundle = Bundle::load(options, store.trace())?;
    let mut spec = bundle.parse(store.trace())?;
    let prepared = prepare_layers(store, options, &bundle, &mut spec)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let console = Console::prepare(terminal, options.console_socket, true)?;
    let tier = place(&mut spec, options)?;
    let mut request = request(options, &bundle, &spec, true, console.source(), tier.as_ref())?;
    request.own_cpus = cpus.own();
    if let Some(manager) = Manager::of(options.env) {
        manager.add(&mut spec, &mut request, store)?;
    }
    let made = make(store, options, &bundle, &spec, request, console, prepared.as_ref())?;
    if let Some(tier) = tier {
        tier.keep();
    }
    // The lock stays until this process has ended: until then its memory is init's as well, and nobody
    // must be let in who could trace that.
    core::mem::forget(made);
    Ok(())
}

/// Makes a container and runs its program: to its end, or with `detach` only up to its start.
/// Returns the exit status.
///
/// # Errors
/// As [`create`].
pub fn run(store: &Store, options: &RunOptions<'_>) -> Result<i32, Error> {
    let (create, trace) = (&options.create, store.trace());
    let cpus = StartCpus::enter(create.start_cpus.as_ref())?;
    let bundle = Bundle::load(create, trace)?;
    let mut spec = bundle.parse(trace)?;
    let prepared = prepare_layers(store, create, &bundle, &mut spec)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let mut console = Console::prepare(terminal, create.console_socket, options.detach)?;
    let ours = console.take_receiver();
    let signals = match options.detach {
        true => None,
        false => Some(foreground::Signals::block(!options.no_subreaper)?),
    };
    let tier = place(&mut spec, create)?;
    let mut request = request(create, &bundle, &spec, false, console.source(), tier.as_ref())?;
    request.own_cpus = cpus.own();
    let manager = Manager::of(create.env);
    if let Some(manager) = manager {
        manager.add(&mut spec, &mut request, store)?;
    }
    // Whether the program began is then heard with its end, and nobody is woken in between.
    request.attended =
        !options.detach && !terminal && !trace.is_on() && spec.hooks.poststart.is_empty();
    let mut made = make(store, create, &bundle, &spec, request, console, prepared.as_ref())?;
    if let Some(tier) = tier {
        tier.keep();
    }
    cpus.leave()?;
    let started = hooks::after_start(&made.container);
    let notify = manager.zip(made.notify.take());
    let mut status = match (signals, started) {
        (_, Err(error)) => Err(error),
        (None, Ok(())) => {
            if let Some((manager, listener)) = notify {
                let Child { pid, pidfd } = &made.child;
                // That the manager has gone is no reason to end the container (runc ignores it too).
                let _ = trace.wait(Phase::Sync, "await readiness", "", PROGRAM, || {
                    manager.await_ready(&listener, *pid, pidfd)
                });
            }
            Ok(0)
        }
        (Some(signals), Ok(())) => {
            let terminal = ours.map(Terminal::receive).transpose()?;
            trace.wait(Phase::Program, "container runs", "", PROGRAM, || {
                let notify = notify.map(|(manager, listener)| Relay::new(manager, listener));
                signals.wait(&made.child, terminal.as_ref(), made.pending.as_mut(), notify)
            })
        }
    };
    made.program_ran(trace, &spec);
    if let Some(prepared) = prepared.filter(|_| create.layered.is_some_and(|layered| layered.stats))
    {
        let _ = core::fmt::Write::write_str(&mut sys::stdio::Stderr, &prepared.stats(trace));
    }
    if let (Some(pending), Ok(code)) = (made.pending, &status)
        && let Err(error) = pending.outcome(code.checked_sub(128))
    {
        if let Some(path) = create.pid_file {
            pid_file::remove(path);
        }
        status = Err(error.into());
    }
    if (!options.detach && !options.keep) || status.is_err() {
        made.container.destroy()?;
    }
    status
}

/// Decides about layers, where the command line names some.
fn prepare_layers<'a>(
    store: &Store,
    options: &CreateOptions<'a>,
    bundle: &Bundle,
    spec: &mut Spec<'a>,
) -> Result<Option<Prepared>, Error> {
    let Some(layered) = options.layered else { return Ok(None) };
    if layered.stats && !store.trace().is_on() {
        store.trace().turn_on();
    }
    if let Some(image) = &layered.image {
        image.apply(spec)?;
    }
    store
        .trace()
        .work(Phase::Configuration, "prepare layers", &layered.layers, || {
            let version = Kernel::probe().version;
            layered::prepare(store, options.id, &bundle.path, layered, spec, version)
        })
        .map(Some)
}

/// Compiles a bundle's configuration without running it: `dayfly plan`.
///
/// # Errors
/// As [`create`].
pub fn compile(options: &CreateOptions<'_>) -> Result<Plan, Error> {
    let bundle = Bundle::read(options)?;
    let mut spec = bundle.spec()?;
    placement::pin(&mut spec, options)?;
    let terminal = spec.process.as_ref().is_some_and(|process| process.terminal);
    let console = terminal.then_some(plan::Console::Given);
    let mut request = request(options, &bundle, &spec, true, console, None)?;
    // A start of root's would have it.
    request.template = !request.caller.is_confined();
    Ok(plan::compile(&spec, &request)?)
}

/// A bundle's directory and the text of its configuration.
pub(crate) struct Bundle {
    path: String,
    config: String,
    text: Vec<u8>,
}

impl Bundle {
    fn load(options: &CreateOptions<'_>, trace: &Trace) -> Result<Self, Error> {
        trace.work(Phase::Configuration, "read config", options.bundle, || Self::read(options))
    }

    /// The configuration, and the trace it may ask for.
    fn parse(&self, trace: &Trace) -> Result<Spec<'_>, Error> {
        let spec = trace.work(Phase::Configuration, "parse config", "", || self.spec())?;
        trace.heed(spec.annotations.iter().map(|(key, value)| (&**key, &**value)));
        Ok(spec)
    }

    fn read(options: &CreateOptions<'_>) -> Result<Self, Error> {
        store::check_id(options.id)?;
        let path = absolute(options.bundle)?;
        let config = match options.config {
            Some(config) => absolute(config)?,
            None => format!("{path}/config.json"),
        };
        let text = match sys::fs::read_at(CWD, config.as_str()) {
            Ok(text) => text,
            Err(sys::Errno::NOENT) => {
                rustix::fs::access(path.as_str(), rustix::fs::Access::EXISTS)
                    .context("chdir", &path)?;
                return Err(Error::Text(format!("JSON specification file {config} not found")));
            }
            Err(errno) => return Err(sys::Error::new("open", config, errno).into()),
        };
        Ok(Self { path, config, text })
    }

    fn spec(&self) -> Result<Spec<'_>, Error> {
        let spec = Spec::parse(&self.text)
            .map_err(|error| Error::Parse { path: self.config.clone(), error })?;
        match spec::validate(&spec) {
            Err(spec::Invalid::NetDeviceName(_)) if is_off(Defence::Lengths) => {}
            result => result?,
        }
        Ok(spec)
    }

    /// What is wrong with the text where that was not looked into before.
    #[cold]
    fn syntax_error(&self) -> Option<Error> {
        let error = Spec::parse_whole(&self.text).err()?;
        Some(Error::Parse { path: self.config.clone(), error })
    }
}

/// A path of the command line, made absolute.
pub(crate) fn absolute(path: &str) -> Result<String, Error> {
    if path.starts_with('/') {
        return Ok(plan::clean(path).into_owned());
    }
    let here = rustix::process::getcwd(Vec::new()).context("getcwd", "")?;
    Ok(plan::absolute(&here.to_string_lossy(), path))
}

/// Heeds what is asked of the container's place.
fn place(spec: &mut Spec<'_>, options: &CreateOptions<'_>) -> Result<Option<Taken>, Error> {
    placement::pin(spec, options)?;
    placement::tier(spec, options)
}

fn request<'a>(
    options: &CreateOptions<'a>,
    bundle: &'a Bundle,
    spec: &Spec<'_>,
    wait_for_start: bool,
    console: Option<plan::Console<'a>>,
    tier: Option<&Taken>,
) -> Result<Request<'a>, Error> {
    let caller = Caller::probe(options.env.env("PATH"));
    let rootless = options.rootless.unwrap_or(caller.is_confined());
    let mut shown_cgroup = None;
    let cgroup = match options.cgroup_driver {
        CgroupDriver::Cgroupfs if tier.is_some() => tier.map(|taken| taken.location.clone()),
        CgroupDriver::Cgroupfs => {
            let path = spec.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref());
            let host = cgroup::Host::detect()?;
            let location = cgroup::Location::resolve(&host, path, options.id)?;
            match rootless && path.is_none_or(str::is_empty) && !location.is_permitted() {
                false => Some(location),
                true => {
                    shown_cgroup = Some(without_cgroup(spec, &host, &location)?);
                    None
                }
            }
        }
        CgroupDriver::Systemd if caller.is_rootless() => {
            return Err(Error::text(
                "the systemd cgroup driver is for root: the systemd instance of a user is not supported \
                 (use --cgroup-manager cgroupfs in a delegated cgroup)",
            ));
        }
        CgroupDriver::Systemd => {
            cgroup::systemd::check_running()?;
            let path = spec.linux.as_ref().and_then(|linux| linux.cgroups_path.as_deref());
            let bus = options.env.env("DBUS_SYSTEM_BUS_ADDRESS");
            let unit = cgroup::systemd::Unit::parse(path, options.id, bus)?;
            Some(cgroup::Location::of_unit(&cgroup::Host::detect()?, unit))
        }
        CgroupDriver::Disabled => None,
    };
    let rdt = spec.linux.as_ref().and_then(|linux| linux.intel_rdt.as_ref());
    let resctrl = rdt.map(|rdt| cgroup::resctrl::Group::resolve(rdt, options.id)).transpose()?;
    let listen_fds = listen_fds(options.env);
    let mut extra_env = Vec::new();
    if listen_fds > 0 {
        extra_env.push(format!("LISTEN_FDS={listen_fds}"));
        extra_env.push("LISTEN_PID=1".to_string());
    }
    Ok(Request {
        id: options.id,
        bundle: &bundle.path,
        rootfs: None,
        wait_for_start,
        attended: false,
        no_pivot: options.no_pivot,
        no_new_keyring: options.no_new_keyring,
        preserve_fds: options.preserve_fds.saturating_add(listen_fds),
        console,
        extra_env,
        cgroup,
        resctrl,
        filter: None,
        own_cpus: None,
        template: false,
        rootless,
        shown_cgroup,
        caller,
        kernel: Kernel { techniques: options.techniques, ..Kernel::probe() },
    })
}

/// The caller's own cgroup, for a container that asks for no limits and so may stay in it, where the
/// caller may not make another one.
fn without_cgroup(
    spec: &Spec<'_>,
    host: &cgroup::Host,
    wanted: &cgroup::Location,
) -> Result<cgroup::Location, Error> {
    let resources = spec.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    if resources.is_some_and(|resources| resources.has_limits()) {
        return Err(Error::Text(format!(
            "rootless needs no limits + no cgrouppath when no permission is granted for cgroups: mkdir \
             {}: permission denied",
            wanted.directory()
        )));
    }
    Ok(cgroup::Location::own(host)?)
}

/// How many descriptors a service manager has opened for this process, and not for one that it came from
/// (sd_listen_fds(3)).
fn listen_fds(env: sys::Args) -> u32 {
    let number = |name| env.env(name).and_then(|text| text.parse::<u32>().ok());
    let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
    match number("LISTEN_FDS") {
        Some(count) if number("LISTEN_PID") == Some(own) => count,
        _ => 0,
    }
}

/// A container that was launched.
struct Made {
    container: Container,
    child: Child,
    pending: Option<Pending>,
    /// When it became its program, if it is traced.
    program_since: u64,
    /// What it says to the service manager, where that is to be heard now.
    notify: Option<OwnedFd>,
    /// What is left of assembling its root filesystem.
    _rootfs: Option<rootfs::Assembled>,
}

impl Made {
    /// Puts the program on the time line, up to now.
    fn program_ran(&self, trace: &Trace, spec: &Spec<'_>) {
        let args = spec.process.as_ref().map(|process| &process.args[..]).unwrap_or_default();
        let program = args.first().map_or("", |name| name);
        if self.program_since > 0 {
            let time = (self.program_since, trace.clock());
            trace.lived(PROGRAM, self.child.pid, Phase::Program, program, time);
        }
    }
}

/// Claims the id, writes the record, runs the plan. Undone as a whole if any of it fails.
fn make(
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
    let since = trace.clock();
    let devices = cache.devices(plan);
    trace.add(Phase::Cgroups, "find device program", "", (since, trace.clock()));
    let console = console.into_sender();
    let given = Given { console, template, network, devices, ..Given::default() };
    let directory = match prepared.and_then(Prepared::take_directory) {
        Some(claimed) => claimed,
        None => {
            trace.work(Phase::Configuration, "claim", options.id, || store.claim(options.id))?
        }
    };
    let layered = prepared.map(|prepared| &*prepared.record);
    let result = listen_for_readiness(options, request, &directory).and_then(|notify| {
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
            let directory = match pending {
                // Init holds the lock as well, until its exec.
                Some(_) => store.reopen(directory, options.id)?,
                None if request.wait_for_start => directory,
                None => {
                    store::unlock(directory.as_fd()).context("flock", options.id)?;
                    directory
                }
            };
            let root = store.root_fd().try_clone_fd()?;
            let filter = Vec::new();
            let container = Container { root, directory, header, record, filter, trace };
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

/// The directory of the notify socket, where there is a service manager; and the socket, unless it is
/// `start` that will listen.
fn listen_for_readiness(
    options: &CreateOptions<'_>,
    request: &Request<'_>,
    directory: &OwnedFd,
) -> Result<Option<OwnedFd>, Error> {
    if Manager::of(options.env).is_none() {
        return Ok(None);
    }
    notify::make_directory(directory.as_fd())?;
    match request.wait_for_start {
        true => Ok(None),
        false => Ok(Some(notify::listen(directory.as_fd())?)),
    }
}

/// Descriptors that are promised to the process must be there, as in runc.
pub(crate) fn check_preserved(count: u32) -> Result<(), Error> {
    for fd in (3..).take(count as usize) {
        let path = format!("/proc/self/fd/{fd}");
        if rustix::fs::access(path.as_str(), rustix::fs::Access::EXISTS).is_err() {
            return Err(Error::Text(format!(
                "unable to stat preserved-fd {} (of {count}): file descriptor {fd} is not open",
                fd - 2
            )));
        }
    }
    Ok(())
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
        given.start = Some(listen_for_start(directory)?);
    }
    let bundle = CString::new(bundle.path.as_str()).unwrap_or_default();
    let mut header = None;
    let mut on_birth = |child: &Child| {
        let identity = Identity::of(child.pid, &child.pidfd).context("fstat", "pidfd")?;
        header = Some(draft.complete(child.pid, identity)?);
        announce(child, options.pid_file, options.pidfd_socket)
    };
    let launched = launch::launch(plan, given, &bundle, trace, &mut on_birth)?;
    let header = header.ok_or_else(|| Error::text("the plan does not record the process"))?;
    Ok(Recorded { header, record, launched })
}

/// Tells the caller of the new process in the ways it asked for.
pub(crate) fn announce(
    child: &Child,
    pid_file: Option<&str>,
    pidfd_socket: Option<&str>,
) -> Result<(), sys::Error> {
    if let Some(path) = pid_file {
        pid_file::write(path, child.pid)?;
    }
    if let Some(path) = pidfd_socket {
        let sent = sys::fdpass::dial(path)
            .and_then(|socket| sys::fdpass::send(socket, b"pidfd", child.pidfd.as_fd()));
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
