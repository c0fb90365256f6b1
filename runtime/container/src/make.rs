//! Creates a container: looks at the host, writes the record, launches init, and announces init's pid to the caller.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;

use cgroup::systemd::Manager;
use launch::{Born, Launched, Network};
use plan::step::{ParentStep, Slot};
use plan::{Caller, FastPaths, Kernel, Plan, Request};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{SendFlags, send};
use spec::ProfileText;
use sys::Context;
use sys::clone::CloneFlags;
use sys::fs::c_path;
use trace::Phase;

use crate::announce::{announce, check_preserved};
use crate::cache::Missing;
use crate::console::Console;
use crate::create_context::CreateContext;
use crate::directory::{self, START};
use crate::host_cache::HostCache;
use crate::identity::Identity;
use crate::layered::Prepared;
use crate::layered::record::LayeredRecord;
use crate::notify;
use crate::options::{CLAIMED, CgroupDriver};
use crate::output::Redirected;
use crate::record::{self, Header, Record};
use crate::request::StartMode;
use crate::store::Claim;
use crate::template::{self, Fork, REQUESTS, Refusal};
use crate::{Container, Error, TemplateUse, hooks, pid_file, time};

/// A container that was launched, its launch, and the socket that receives its notifications, if this command forwards
/// them to the service manager.
pub(crate) type LaunchedContainer = (Container, Launched, Option<OwnedFd>);

impl<'a> CreateContext<'a> {
    /// Looks at the host, compiles the plan, claims the id, and launches the container. If any of these steps fails,
    /// undoes all of them.
    pub(crate) fn make(
        &self,
        mode: StartMode<'a>,
        console: Console<'a>,
    ) -> Result<LaunchedContainer, Error> {
        let (options, trace) = (self.options, self.trace);
        check_preserved(self.passed_fds())?;
        let (caller, kernel) = self.probe();
        let bus = self.dial(&caller);
        let network = self.begin_network(&caller, &kernel)?;
        let requests = match options.template {
            Some(TemplateUse::Become { .. }) => Some(directory::socket_for(REQUESTS)?),
            Some(TemplateUse::Save { socket }) => {
                Some(fcntl_dupfd_cloexec(socket, 3).context("dup", "socket of a template")?)
            }
            _ => None,
        };
        let (fork, stand_in) = self.template.as_ref().map(Fork::begin).transpose()?.unzip();
        let cache = HostCache::open(kernel.fast_paths, &caller);
        let (filter, missing) = self.find_filter(&cache, &kernel)?.unzip();
        let since = trace.clock();
        let blank = cache.blank();
        trace.add(Phase::Mounts, "find blank namespace", "", (since, trace.clock()));
        let number = requests.as_ref().map(AsRawFd::as_raw_fd);
        let request = self.request(mode, caller, kernel, filter, blank.is_some(), number)?;
        let plan = self.compile_to_run(&request)?;
        let since = trace.clock();
        let devices = cache.devices(plan);
        trace.add(Phase::Cgroups, "find device program", "", (since, trace.clock()));
        let given = [
            (Slot::CONSOLE, console.into_sender()),
            (Slot::STAND_IN, stand_in),
            (Slot::REQUESTS, requests),
            (Slot::BLANK, blank),
            (Slot::DEVICES, devices),
            (Slot::BUS, bus),
        ];
        let given = given.into_iter().filter_map(|(slot, fd)| Some((slot, fd?))).collect();
        let mut claim = self.claim(mode.wait_for_start)?;
        let made = self.launch_in(&mut claim, &request, plan, (given, network), fork);
        if let (Ok(_), Some(Some(missing)), Some(program)) = (&made, missing, &request.filter) {
            // Not earlier: a `run` does this while its program runs.
            let since = trace.clock();
            missing.keep(program);
            trace.add(Phase::Security, "cache seccomp filter", "", (since, trace.clock()));
        }
        let Claim { directory, lock, .. } = claim;
        let (header, record, launched, notify) = made.map_err(|error| {
            pid_file::remove(self.options.pid_file);
            // A `delete` that has killed an init without a lock removes the directory. Two removals at once would fail.
            if lock.is_none() && !mode.wait_for_start {
                let _ = directory::lock_again(directory.as_fd());
            }
            // Only the failure of the launch is reported; an error of the removal has the same cause.
            let _ = self.store.remove(directory.as_fd(), options.id);
            self.reason_of(error)
        })?;
        self.keep();
        if let Some(prepared) = &self.prepared {
            let counts = launched.rootfs.as_ref().map(|rootfs| rootfs.counts);
            prepared.tell(trace, counts.unwrap_or_default());
        }
        let (root, filter, is_begun) = (Rc::clone(self.store.root_fd()), Vec::new(), false);
        let container = Container { root, directory, header, record, is_begun, filter, trace };
        if !mode.wait_for_start
            && launched.pending.is_none()
            && let Err(error) = await_release(&container)
        {
            pid_file::remove(self.options.pid_file);
            let _ = container.destroy(options.warn);
            return Err(error);
        }
        Ok((container, launched, notify))
    }

    /// Returns the plan of a start, without making anything. Of what a start finds on the host, the plan assumes that
    /// there is a blank mount namespace.
    pub(crate) fn plan(&self, mode: StartMode<'a>) -> Result<Plan, Error> {
        let (caller, kernel) = self.probe();
        let filter = self.find_filter(&HostCache::unused(), &kernel)?.map(|(filter, _)| filter);
        let blank = kernel.fast_paths.contains(FastPaths::BLANK_NAMESPACE) && !caller.is_confined();
        self.compile(&self.request(mode, caller, kernel, filter, blank, None)?)
    }

    /// Returns the plan of a container whose processes criu creates, and its record. Only the cgroup, the hooks and the
    /// root filesystem are taken from this plan.
    pub(crate) fn plan_of_restore(
        &self,
        mode: StartMode<'a>,
    ) -> Result<(&'static Plan, Record), Error> {
        let (caller, kernel) = self.probe();
        let cache = HostCache::open(kernel.fast_paths, &caller);
        let (filter, missing) = self.find_filter(&cache, &kernel)?.unzip();
        if let (Some(Some(missing)), Some(program)) = (missing, &filter) {
            missing.keep(program);
        }
        let request = self.request(mode, caller, kernel, filter, false, None)?;
        let plan = self.compile_to_run(&request)?;
        Ok((plan, self.describe(&request, plan)?))
    }

    fn probe(&self) -> (Caller, Kernel) {
        let caller = Caller::probe(self.options.env.env("PATH"));
        (caller, Kernel { fast_paths: self.fast_paths(), ..Kernel::probe() })
    }

    /// Compiles the plan that is run. It is leaked: an init that shares our memory reads it until its execve(2).
    fn compile_to_run(&self, request: &Request<'_>) -> Result<&'static Plan, Error> {
        let compile = || self.compile(request);
        let plan = self.trace.work(Phase::Configuration, "compile plan", "", compile)?;
        self.options.warn.all(&plan.warnings);
        Ok(Box::leak(Box::new(plan)))
    }

    /// Connects to the bus of the host's systemd, if a scope of it is to be the cgroup. The bus needs as long to accept a
    /// connection as this process until its first call. If this fails, that call says why.
    fn dial(&self, caller: &Caller) -> Option<OwnedFd> {
        let options = self.options;
        let is_asked = options.cgroup_driver == CgroupDriver::Systemd
            && !options.rootless.unwrap_or(caller.is_rootless())
            && options.env.env("DBUS_SYSTEM_BUS_ADDRESS").is_none();
        is_asked.then(Manager::dial)?
    }

    /// Starts a process that creates the container's network namespace, if the plan is to have one.
    fn begin_network(&self, caller: &Caller, kernel: &Kernel) -> Result<Option<Network>, Error> {
        if !plan::makes_network(&self.spec, caller, kernel.fast_paths) {
            return Ok(None);
        }
        let begin = || Network::begin(self.trace);
        Ok(Some(self.trace.work(Phase::Platform, "begin network", "", begin)?))
    }

    /// Returns the seccomp program, if there is a profile, with its place in the cache if it is not there.
    fn find_filter<'c>(
        &'c self,
        cache: &'c HostCache,
        kernel: &Kernel,
    ) -> Result<Option<(seccomp::Program, Option<Missing<'c>>)>, Error> {
        let profile = self.spec.linux.as_ref().and_then(|linux| linux.seccomp);
        let find = |profile: ProfileText<'c>| {
            self.trace.work(Phase::Security, "find seccomp filter", "", || {
                let filter = cache.filter(profile.get(), kernel);
                filter.map_err(|error| self.bundle.syntax_error().unwrap_or(error))
            })
        };
        profile.map(find).transpose()
    }

    /// Returns the configured limit on the sum of memory and swap.
    pub(crate) fn swap(&self) -> i64 {
        let linux = self.spec.linux.as_ref();
        let memory = linux.and_then(|linux| linux.resources.as_ref()?.memory.as_ref());
        memory.and_then(|memory| memory.swap).unwrap_or(0)
    }

    /// Creates and locks the container's directory. If init does not wait for `start`, a second descriptor holds the
    /// lock.
    pub(crate) fn claim(&self, wait_for_start: bool) -> Result<Claim, Error> {
        let (store, id) = (self.store, self.options.id);
        let claim = match self.prepared.as_ref().and_then(Prepared::take_claim) {
            Some(claim) => claim,
            None => self.trace.work(Phase::Configuration, "claim", id, || store.claim(id))?,
        };
        let opened = self.tell_of_claim().and_then(|()| match wait_for_start {
            true => Ok(None),
            false => store.reopen(id).map(Some),
        });
        match opened {
            Ok(None) => Ok(claim),
            Ok(Some(own)) => Ok(Claim { directory: own, lock: Some(claim.directory), ..claim }),
            Err(error) => {
                let _ = store.remove(claim.directory.as_fd(), id);
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

    /// Writes the record, and runs the plan: start, record, commit.
    fn launch_in(
        &self,
        claim: &mut Claim,
        request: &Request<'_>,
        plan: &'static Plan,
        (mut given, network): (Vec<(Slot, OwnedFd)>, Option<Network>),
        mut fork: Option<Fork<'_>>,
    ) -> Result<(Header, Record, Launched, Option<OwnedFd>), Error> {
        let (options, trace) = (self.options, self.trace);
        let Claim { directory, record: file, lock } = claim;
        let notify = self.listen_for_readiness(request, directory)?;
        let record = self.describe(request, plan)?;
        let mut draft = trace.work(Phase::Configuration, "write record", "", || {
            record::write(file, &record, self.swap(), plan.filter.as_ref())
        })?;
        if let Some(own) = self.record_of_rootfs() {
            let make = || own.make_directory();
            trace.work(Phase::Mounts, "make directory", options.id, make)?;
        }
        let _redirected = self.keep_output(directory)?;
        if request.wait_for_start {
            trace.point("listen", START)?;
            let socket = directory::socket_for(START)?;
            directory::listen_in(directory.as_fd(), &socket, START, 8)?;
            given.push((Slot::START, socket));
        }
        if let Some((_, requests)) = given.iter().find(|(slot, _)| *slot == Slot::REQUESTS)
            && let Some(TemplateUse::Become { .. }) = options.template
        {
            directory::listen_in(directory.as_fd(), requests, REQUESTS, template::BACKLOG)?;
        }
        let bundle = c_path(self.bundle.path.as_str()).context("find", &self.bundle.path)?;

        let mut born = launch::start(plan, given, network, &bundle, trace)?;
        if let Some(fork) = &mut fork {
            // Not later: once init is admitted, this command may have to wait for a CPU.
            let since = trace.clock();
            let asked = fork.ask(born.init()?, plan, request.cgroup.as_ref());
            trace.add(Phase::Bootstrap, "ask for fork", "", (since, trace.clock()));
            asked.map_err(|reason| self.refused_by_template(reason, fork, &mut born))?;
        }
        let header = born.record(|init| {
            trace.point("identify", "init")?;
            let identity = Identity::of(init.pid, &init.pidfd).context("fstat", "pidfd")?;
            trace.point("write", directory::RECORD)?;
            let header = draft.complete(init.pid, identity)?;
            if let Some(own) = self.record_of_rootfs() {
                own.add_process(identity)?;
            }
            if let Some(TemplateUse::Become { .. }) = options.template
                && let (Some(cgroup), Some(linux)) = (&request.cgroup, &self.spec.linux)
            {
                template::grant(cgroup, &linux.uid_mappings);
            }
            announce(init, "standard", options.pid_file, options.pidfd_socket, trace)?;
            Ok(header)
        })?;
        born.prepare()?;
        // The cgroup's directory is closed after the launch.
        let (forked, _cgroup) = match fork {
            None => (None, None),
            Some(mut fork) => match fork.complete(plan, trace) {
                Ok(program) => (Some(program), fork.take_cgroup()),
                Err(reason) => return Err(self.refused_by_template(reason, &fork, &mut born)),
            },
        };
        // Init holds a duplicate of the lock's descriptor until its execve(2), so that other commands see the container
        // once its program begins.
        *lock = None;
        let launched = born.commit(forked)?;
        Ok((header, record, launched, notify))
    }

    /// Ends the launch because the template does not fork the program; returns the error.
    #[cold]
    fn refused_by_template(&self, reason: Refusal, fork: &Fork<'_>, born: &mut Born<'_>) -> Error {
        // If another command has killed init, the container is to be gone, not to be made again.
        let is_killed = fork.has_lost_init() && !fork.template.has_ended();
        let name = fork.template.name.as_str();
        let error = born.fail(sys::Error::new("fork", name, sys::Errno::CANCELED));
        match is_killed {
            true => Error::Launch(error),
            false => self.not_forked(reason),
        }
    }

    /// Returns the error of a failed launch: if the template has ended, the kernel has killed init.
    #[cold]
    pub(crate) fn reason_of(&self, error: Error) -> Error {
        match (&self.template, error) {
            (_, error @ Error::NotForked { .. }) => error,
            (Some(template), _) if template.has_ended() => self.not_forked("has ended".into()),
            (_, error) => error,
        }
    }

    /// Returns the error of a launch that failed because of the template. The caller may start the container without it,
    /// unless hooks have already run.
    #[cold]
    fn not_forked(&self, reason: Refusal) -> Error {
        let now = self.trace.clock();
        self.trace.add(Phase::Bootstrap, "refused by template", &reason, (now, now));
        let template = self.template.as_ref().map(|template| template.name.clone());
        let template = template.unwrap_or_default();
        let hooks = &self.spec.hooks;
        let lists = [&hooks.prestart, &hooks.create_runtime, &hooks.create_container];
        match lists.iter().all(|list| list.is_empty()) {
            true => Error::NotForked { template, reason },
            false => Error::Text(format!(
                "template {template} {reason}; because hooks have run, the program is not executed \
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
}

/// Waits until init has closed its duplicate of the lock's descriptor. Init's execve(2) closes descriptors one after
/// the other, so that the lock may still be held when this command learns of the execve(2).
fn await_release(container: &Container) -> Result<(), Error> {
    let id = container.id();
    container.trace.point("await unlock", id)?;
    Ok(directory::await_unlocked(container.directory.as_fd()).context("flock", id)?)
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
