//! Creates a container from a request: writes its record, launches its init, and announces init's pid to the caller.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;

use launch::{Given, Launched, Network, Pending, Turn};
use plan::step::ParentStep;
use plan::{Plan, Request};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, listen, send,
    socket_with,
};
use spec::Spec;
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::fs::c_path;
use trace::{PROGRAM, Phase};

use crate::announce::{announce, check_preserved};
use crate::cache::Missing;
use crate::console::Console;
use crate::create_context::CreateContext;
use crate::directory::{self, START, path_in};
use crate::host_cache::HostCache;
use crate::identity::Identity;
use crate::layered::Prepared;
use crate::layered::record::LayeredRecord;
use crate::notify;
use crate::options::CLAIMED;
use crate::output::Redirected;
use crate::record::{self, Header, Record};
use crate::store::Claim;
use crate::template::{self, Fork, Refusal, Requests, Template};
use crate::{Container, Error, TemplateUse, Trace, hooks, pid_file, time};

/// A container that was launched.
pub(crate) struct LaunchedContainer {
    pub container: Container,
    pub child: Child,
    pub pending: Option<Pending>,
    /// The time at which the program began, for the trace; 0 if the command is not traced.
    pub program_since: u64,
    /// The socket that receives the container's notifications, if this command forwards them to the service manager.
    pub notify: Option<OwnedFd>,
    /// Resources of the assembled root filesystem.
    pub _rootfs: Option<rootfs::Assembled>,
}

impl LaunchedContainer {
    /// Adds the period from the program's start until now to the trace's time line.
    pub(crate) fn program_ran(&self, trace: &Trace, spec: &Spec<'_>) {
        let args = spec.process.as_ref().map(|process| &process.args[..]).unwrap_or_default();
        let program = args.first().map_or("", |name| name);
        if self.program_since > 0 {
            let time = (self.program_since, trace.clock());
            trace.lived(PROGRAM, self.child.pid, Phase::Program, program, time);
        }
    }
}

/// A container's directory that this command has created and locked.
pub(crate) struct Claimed {
    pub directory: OwnedFd,
    /// A second descriptor of the directory, which holds the lock. It is used if init does not wait for `start`: the
    /// command closes the descriptor when init continues, and init's duplicate keeps the lock until execve(2). If
    /// `None`, `directory` holds the lock.
    pub lock: Option<OwnedFd>,
}

/// What is prepared before the container's directory exists.
struct LaunchInput<'a> {
    /// The socket of a container that becomes a template.
    requests: Option<Requests>,
    /// The fork of the program by a template.
    fork: Option<Fork<'a>>,
    given: Given,
}

impl CreateContext<'_> {
    /// Claims the id, writes the record, and runs the plan. If any of these steps fails, undoes all of them.
    pub(crate) fn make(
        &self,
        request: Request<'_>,
        console: Console<'_>,
    ) -> Result<LaunchedContainer, Error> {
        let (options, trace) = (self.options, self.trace);
        check_preserved(request.preserve_fds)?;
        let mut request = self.with_root(request);
        let network = self.begin_network(&request)?;
        let requests = match self.options.template {
            Some(TemplateUse::Become { .. }) => Some(Requests::open(&mut request)?),
            _ => None,
        };
        let (fork, stand_in) = self.template.as_ref().map(Fork::begin).transpose()?.unzip();
        let cache = HostCache::open(request.kernel.fast_paths, &request.caller);
        let (blank, missing) = self.look_up(&cache, &mut request)?;
        // The plan is leaked: an init that shares our memory reads the plan until its execve(2).
        let plan: &'static Plan = Box::leak(Box::new(trace.work(
            Phase::Configuration,
            "compile plan",
            "",
            || self.compile_plan(&request),
        )?));
        options.warn.all(&plan.warnings);
        let since = trace.clock();
        let devices = cache.devices(plan);
        trace.add(Phase::Cgroups, "find device program", "", (since, trace.clock()));
        let console = console.into_sender();
        let given = Given { console, blank, network, devices, stand_in, ..Given::default() };
        let (mut claimed, file) = self.claim(request.wait_for_start)?;
        let input = LaunchInput { requests, fork, given };
        let made = self.launch_in(&mut claimed, file, &request, plan, input);
        if let (Ok(_), Some(missing), Some(program)) = (&made, missing, &request.filter) {
            // Not earlier: a `run` does this while its program runs.
            let since = trace.clock();
            missing.keep(program);
            trace.add(Phase::Security, "cache seccomp filter", "", (since, trace.clock()));
        }
        if made.is_err() {
            self.take_back_pid_file();
            // Only the failure of the launch is reported; an error of the removal has the same cause.
            let _ = self.store.remove(claimed.directory.as_fd(), options.id);
        }
        self.finish(claimed.directory, made.map_err(|error| self.reason_of(error))?)
    }

    /// Starts a process that creates the container's network namespace, if the plan needs one.
    fn begin_network(&self, request: &Request<'_>) -> Result<Option<Network>, Error> {
        let (caller, fast_paths) = (&request.caller, request.kernel.fast_paths);
        if !plan::makes_network(&self.spec, caller, fast_paths) {
            return Ok(None);
        }
        let begin = || Network::begin(self.trace);
        Ok(Some(self.trace.work(Phase::Platform, "begin network", "", begin)?))
    }

    /// Compiles the plan of a container whose processes criu creates. Only the contents of the record, the cgroup and
    /// the hooks are taken from this plan.
    pub(crate) fn compile(&self, request: &mut Request<'_>) -> Result<&'static Plan, Error> {
        let cache = HostCache::open(request.kernel.fast_paths, &request.caller);
        let (_, missing) = self.look_up(&cache, request)?;
        if let (Some(missing), Some(program)) = (missing, &request.filter) {
            missing.keep(program);
        }
        let plan = self.compile_plan(request)?;
        self.options.warn.all(&plan.warnings);
        Ok(Box::leak(Box::new(plan)))
    }

    /// Completes the request with the seccomp program; returns the blank mount namespace, if any, and the
    /// program's place in the cache if the cache does not contain it.
    pub(crate) fn look_up<'a>(
        &'a self,
        cache: &'a HostCache,
        request: &mut Request<'_>,
    ) -> Result<(Option<OwnedFd>, Option<Missing<'a>>), Error> {
        let trace = self.trace;
        let mut missing = None;
        if let Some(profile) = self.spec.linux.as_ref().and_then(|linux| linux.seccomp) {
            let filter = trace.work(Phase::Security, "find seccomp filter", "", || {
                let filter = cache.filter(profile.get(), &request.kernel);
                filter.map_err(|error| self.bundle.syntax_error().unwrap_or(error))
            });
            let (program, place) = filter?;
            request.filter = Some(program);
            missing = place;
        }
        let since = trace.clock();
        let blank = cache.blank();
        trace.add(Phase::Mounts, "find blank namespace", "", (since, trace.clock()));
        request.blank = blank.is_some();
        Ok((blank, missing))
    }

    /// Creates and locks the container's directory; returns the directory, and the empty file of the record.
    pub(crate) fn claim(&self, wait_for_start: bool) -> Result<(Claimed, OwnedFd), Error> {
        let (store, id) = (self.store, self.options.id);
        let claim = match self.prepared.as_ref().and_then(Prepared::take_claim) {
            Some(claimed) => claimed,
            None => self.trace.work(Phase::Configuration, "claim", id, || store.claim(id))?,
        };
        let Claim { directory, record } = claim;
        let opened = self.tell_of_claim().and_then(|()| match wait_for_start {
            true => Ok(None),
            false => store.reopen(id).map(Some),
        });
        match opened {
            Ok(None) => Ok((Claimed { directory, lock: None }, record)),
            Ok(Some(own)) => Ok((Claimed { directory: own, lock: Some(directory) }, record)),
            Err(error) => {
                let _ = store.remove(directory.as_fd(), id);
                Err(error)
            }
        }
    }

    fn tell_of_claim(&self) -> Result<(), Error> {
        if let Some(socket) = self.options.claim_socket {
            send(socket, &[CLAIMED], SendFlags::NOSIGNAL).context("send", "claim")?;
        }
        Ok(())
    }

    /// Writes the record and runs the plan.
    fn launch_in(
        &self,
        claimed: &mut Claimed,
        file: OwnedFd,
        request: &Request<'_>,
        plan: &'static Plan,
        input: LaunchInput<'_>,
    ) -> Result<LaunchResult, Error> {
        let (options, trace) = (self.options, self.trace);
        let LaunchInput { requests, mut fork, mut given } = input;
        let Claimed { directory, lock } = claimed;
        let notify = self.listen_for_readiness(request, directory)?;
        let record = self.describe(request, plan)?;
        let linux = self.spec.linux.as_ref();
        let memory = linux.and_then(|linux| linux.resources.as_ref()?.memory.as_ref());
        let swap = memory.and_then(|memory| memory.swap).unwrap_or(0);
        let mut draft = trace.work(Phase::Configuration, "write record", "", || {
            record::write(file, &record, swap, plan.filter.as_ref())
        })?;
        if let Some(own) = self.record_of_rootfs() {
            let make = || own.make_directory();
            trace.work(Phase::Mounts, "make directory", options.id, make)?;
        }
        let redirected = self.keep_output(directory)?;
        if request.wait_for_start {
            trace.point("listen", START)?;
            given.start = Some(listen_for_start(directory)?);
        }
        if let Some(requests) = requests {
            given.requests = Some(requests.listen_in(directory.as_fd())?);
        }
        let bundle = c_path(self.bundle.path.as_str()).context("find", &self.bundle.path)?;
        let mut header = None;
        // Closed after the launch.
        let mut of_fork = None;
        let mut on_turn = |turn: Turn<'_>| match turn {
            Turn::Cloned => {
                if let Some(fork) = &mut fork {
                    let since = trace.clock();
                    // If this fails, it is tried again once init exists.
                    let _ = fork.prepare(plan, request.cgroup.as_ref());
                    trace.add(Phase::Bootstrap, "describe program", "", (since, trace.clock()));
                }
                Ok(())
            }
            Turn::Exists(child) => {
                // Not later: once init is admitted, this command may have to wait for a CPU.
                if let Some(fork) = &mut fork {
                    let since = trace.clock();
                    let asked = fork.ask(child, plan, request.cgroup.as_ref());
                    trace.add(Phase::Bootstrap, "ask for fork", "", (since, trace.clock()));
                    asked.map_err(|reason| self.give_up_template(reason, fork))?;
                }
                Ok(())
            }
            Turn::Born(child) => {
                trace.point("identify", "init")?;
                let identity = Identity::of(child.pid, &child.pidfd).context("fstat", "pidfd")?;
                trace.point("write", directory::RECORD)?;
                header = Some(draft.complete(child.pid, identity)?);
                if let Some(own) = self.record_of_rootfs() {
                    own.add_process(identity)?;
                }
                if let Some(TemplateUse::Become { .. }) = options.template
                    && let (Some(cgroup), Some(linux)) = (&request.cgroup, linux)
                {
                    template::grant(cgroup, &linux.uid_mappings);
                }
                announce(child, "standard", options.pid_file, options.pidfd_socket, trace)
            }
            // Closes this command's descriptor of the lock. Init holds a duplicate until its execve(2), so that other
            // commands see the container once its program begins.
            Turn::PreCommit(forked) => {
                if let Some(mut fork) = fork.take() {
                    let program = fork.complete(plan, trace);
                    let program = program.map_err(|reason| self.give_up_template(reason, &fork))?;
                    *forked.borrow_mut() = Some(program);
                    of_fork = fork.take_cgroup();
                }
                *lock = None;
                Ok(())
            }
        };
        let launched = launch::launch(plan, given, &bundle, trace, &mut on_turn)?;
        drop((redirected, of_fork));
        let header = header.ok_or_else(|| {
            let missing = sys::Error::new("record", "process", sys::Errno::CHILD);
            Error::Launch(launch::Error::from(missing).of_plan(plan))
        })?;
        Ok(LaunchResult { header, record, launched, notify, is_run: !request.wait_for_start })
    }

    /// Keeps the reason why the template does not fork the program; returns the error that ends the launch.
    #[cold]
    fn give_up_template(&self, reason: Refusal, fork: &Fork<'_>) -> sys::Error {
        // If another command has killed init, the container is to be gone, not to be made again.
        let is_killed = fork.has_lost_init();
        if !is_killed || self.template.as_ref().is_some_and(Template::has_ended) {
            *self.refusal.borrow_mut() = Some(reason);
        }
        let name = self.template.as_ref().map(|template| template.name.clone());
        sys::Error::new("fork", name.unwrap_or_default(), sys::Errno::CANCELED)
    }

    /// Returns the error of a failed launch. If the template is the reason, the caller may start the container without
    /// it, unless hooks have already run. If the template has ended, the kernel has killed init.
    #[cold]
    fn reason_of(&self, error: Error) -> Error {
        let Some(template) = &self.template else { return error };
        let reason = match self.refusal.take() {
            Some(reason) => reason,
            None if template.has_ended() => "has ended".into(),
            None => return error,
        };
        let now = self.trace.clock();
        self.trace.add(Phase::Bootstrap, "refused by template", &reason, (now, now));
        let name = template.name.clone();
        let hooks = &self.spec.hooks;
        let lists = [&hooks.prestart, &hooks.create_runtime, &hooks.create_container];
        match lists.iter().all(|list| list.is_empty()) {
            true => Error::NotForked { template: name, reason },
            false => Error::Text(format!(
                "template {name} {reason}; because hooks have run, the program is not executed \
                 instead: start the container again"
            )),
        }
    }

    /// Redirects the container's output to a log, if the options ask for it.
    fn keep_output(&self, directory: &OwnedFd) -> Result<Option<Redirected>, Error> {
        let image = self.options.layered.and_then(|layered| layered.image.as_ref());
        let Some(size) = image.and_then(|image| image.log) else { return Ok(None) };
        self.trace.point("keep output of", self.options.id)?;
        let owner = self.prepared.as_ref().and_then(|prepared| prepared.recipe.root);
        Ok(Some(Redirected::begin(directory.as_fd(), size, owner, self.options.warn)?))
    }

    /// Creates the directory of the notify socket, if there is a service manager. Creates the socket, too, unless
    /// `start` will listen on it.
    fn listen_for_readiness(
        &self,
        request: &Request<'_>,
        directory: &OwnedFd,
    ) -> Result<Option<OwnedFd>, Error> {
        if self.manager.is_none() {
            return Ok(None);
        }
        self.trace.point("mkdir", directory::NOTIFY_DIRECTORY)?;
        notify::make_directory(directory.as_fd())?;
        match request.wait_for_start {
            true => Ok(None),
            false => Ok(Some(notify::listen(directory.as_fd(), self.trace)?)),
        }
    }

    /// Returns the container after the launch. Destroys it if init does not release the lock.
    fn finish(&self, directory: OwnedFd, result: LaunchResult) -> Result<LaunchedContainer, Error> {
        let LaunchResult { header, record, launched, notify, is_run } = result;
        let Launched { child, program_since, pending, rootfs } = launched;
        let (root, trace) = (Rc::clone(self.store.root_fd()), self.trace);
        if let Some(prepared) = &self.prepared {
            prepared.keep();
            prepared.tell(trace, rootfs.as_ref().map(|rootfs| rootfs.counts).unwrap_or_default());
        }
        if let Some(snapshot) = &self.snapshot {
            snapshot.keep();
        }
        let (filter, is_begun) = (Vec::new(), false);
        let container = Container { root, directory, header, record, is_begun, filter, trace };
        if is_run
            && pending.is_none()
            && let Err(error) = await_release(&container)
        {
            self.take_back_pid_file();
            let _ = container.destroy(self.options.warn);
            return Err(error);
        }
        Ok(LaunchedContainer { container, child, pending, program_since, notify, _rootfs: rootfs })
    }

    fn take_back_pid_file(&self) {
        if let Some(path) = self.options.pid_file {
            pid_file::remove(path);
        }
    }
}

/// Waits until init has closed its duplicate of the lock's descriptor. Init's execve(2) closes descriptors one after
/// the other, so that the lock may still be held when this command learns of the execve(2).
fn await_release(container: &Container) -> Result<(), Error> {
    let id = container.id();
    container.trace.point("await unlock", id)?;
    Ok(directory::await_unlocked(container.directory.as_fd()).context("flock", id)?)
}

/// The results of a launch, from which `finish` creates the value `LaunchedContainer`.
struct LaunchResult {
    header: Header,
    record: Record,
    launched: Launched,
    notify: Option<OwnedFd>,
    /// Whether the container's program does not wait for `start`.
    is_run: bool,
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

impl CreateContext<'_> {
    /// Returns the record of the host resources that the container's root filesystem uses.
    fn record_of_rootfs(&self) -> Option<&LayeredRecord> {
        let layered = self.prepared.as_ref().map(|prepared| &*prepared.record);
        layered.or_else(|| self.snapshot.as_ref()?.record.as_deref())
    }

    /// Returns the container's record, which later commands read.
    pub(crate) fn describe(&self, request: &Request<'_>, plan: &Plan) -> Result<Record, Error> {
        let Self { spec, bundle, .. } = self;
        let linux = spec.linux.as_ref();
        let namespaces = linux.map(|linux| &linux.namespaces[..]).unwrap_or_default();
        let bits = |own: bool| {
            let chosen = namespaces.iter().filter(|namespace| !own || namespace.path.is_none());
            chosen.fold(CloneFlags::empty(), |bits, namespace| {
                bits | CloneFlags::from_bits_retain(namespace.kind.clone_flag())
            })
        };
        let root = spec.root.as_ref().map(|root| plan::absolute(&bundle.path, &root.path));
        Ok(Record {
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
            process: record::to_json("process", &spec.process)?,
            execution: plan.execution.clone(),
            poststart: hooks::to_json("poststart hooks", &spec.hooks.poststart)?,
            poststop: hooks::to_json("poststop hooks", &spec.hooks.poststop)?,
            keyring: !request.no_new_keyring,
            layered: self.record_of_rootfs().map(|record| Box::new(record.clone())),
            state_head: plan.state.head().to_string(),
            agent: plan.parent.iter().find_map(|step| match step {
                ParentStep::SendListener(agent) => {
                    let socket = agent.socket.to_string_lossy().into_owned();
                    Some(Box::new((socket, agent.metadata.clone())))
                }
                _ => None,
            }),
        })
    }
}
