//! The host actor: prepares what init uses, makes init, and sees it through to its program.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use cgroup::Cgroup;
use plan::step::{
    Agent, HostStep, IdMaps, InitStep, Limit, Memory, NetDevice, NumberSet, Relay, SecurityModule,
    Slot, TimeNamespace,
};
use plan::{CgroupPlan, Plan, ResctrlPlan};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, openat, statfs};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, PidfdGetfdFlags, Rlimit, pidfd_getfd, prlimit, set_dumpable_behavior,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sys::Context;
use sys::clone::{Child, CloneFlags};
use trace::{Failed, Phase, Recorder, Tracer};

use crate::birth::Birth;
use crate::channel::{self, Message, Word};
use crate::clock::{self, Elsewhere};
use crate::fault::{self, Place};
use crate::holder::Holder;
use crate::network::Network;
use crate::slots::Slots;
use crate::{Error, birth, hooks, id_helper, init, net_devices, relay, take};

const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// What the caller does once init exists and before anything of the container runs.
pub type OnBirth<'a> = dyn FnMut(&Child) -> Result<(), sys::Error> + 'a;

/// A launch in progress.
pub(crate) struct Host<'a> {
    pub plan: &'static Plan,
    pub slots: &'static Slots,
    pub tracer: &'a Tracer,
    /// Where hooks run.
    pub bundle: &'a CStr,
    pub on_birth: &'a mut OnBirth<'a>,
    /// Removed again when dropped, unless the launch succeeds.
    pub cgroup: Option<Cgroup>,
    /// What keeps the cgroup's scope alive until init is in it.
    pub holder: Option<Holder>,
    pub channel: Option<OwnedFd>,
    pub child: Option<Child>,
    /// Init's network namespace.
    pub network: Option<Network>,
    /// The namespace that children are born in when a PID namespace was entered.
    pub own_pid_namespace: Option<OwnedFd>,
    /// The CPUs it ran on before it went to those that init begins on.
    pub own_cpus: Option<CpuSet>,
    /// What this process's score was before it went along with init's.
    pub own_oom_score: Option<(OwnedFd, Vec<u8>)>,
    /// When init was seen to have become its program.
    pub program_since: u64,
    /// The root filesystem, where it is assembled from layers.
    pub rootfs: Option<rootfs::Assembly<'static>>,
}

impl Host<'_> {
    /// Runs the plan's host list.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        for (number, step) in plan.host.iter().enumerate() {
            let start = self.tracer.clock();
            let result = match fault::strike(Place::Host, number) {
                Ok(()) => self.step(step),
                Err(errno) => {
                    let label = step.label();
                    Err(sys::Error::new(label.name, label.object, errno).into())
                }
            };
            self.tracer.step(plan, number, start, result.as_ref().err().map_or(0, Failed::errno));
            result.map_err(|error| self.reason_of(error))?;
        }
        Ok(())
    }

    /// Why a step failed: where init had said that it failed, nothing could be done with it any more.
    #[cold]
    fn reason_of(&self, error: Error) -> Error {
        let heard = match (&error, &self.channel) {
            (Error::Host(_) | Error::Cgroup(_), Some(channel)) => channel::heard_failure(channel),
            _ => None,
        };
        match heard {
            Some(failed) => unexpected(self.plan, failed, &Message::Ready, || Error::death(None)),
            None => error,
        }
    }

    fn step(&mut self, step: &'static HostStep) -> Result<(), Error> {
        match step {
            HostStep::Undumpable => set_dumpable_behavior(DumpableBehavior::NotDumpable)
                .context("prctl", "PR_SET_DUMPABLE")?,
            HostStep::OpenProc => self.slots.set(Slot::PROC, open_proc()?),
            HostStep::RequireModule(module) => require(*module)?,
            HostStep::MakeUserNamespace { slot, maps } => {
                let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
                let made = sys::user_namespace::make(proc, &maps.uid_map, &maps.gid_map)?;
                self.slots.set(*slot, made);
            }
            HostStep::CloneTree(tree) => {
                self.slots.set(
                    tree.slot,
                    take::tree(tree, self.slots).map_err(taken_from(&tree.source))?,
                );
            }
            HostStep::MapLayers { user_namespace } => {
                let slots = self.slots;
                let user_namespace = match user_namespace {
                    Some(slot) => Some(slots.get(*slot).ok_or_else(no_child)?),
                    None => None,
                };
                self.rootfs()?.map_layers(user_namespace)?;
            }
            HostStep::OpenLayers => self.rootfs()?.open_layers()?,
            HostStep::MakeUpper => self.rootfs()?.make_upper()?,
            HostStep::AssembleRootfs => {
                let tree = self.rootfs()?.assemble()?;
                self.slots.set(Slot::ROOT, tree);
            }
            HostStep::DetachLayers => self.rootfs()?.detach_layers()?,
            HostStep::CopyLayers => {
                let tree = self.rootfs()?.copy_layers()?;
                self.slots.set(Slot::ROOT, tree);
            }
            HostStep::CloneDevice(device) => {
                self.slots
                    .set(device.slot, take::device(device).map_err(taken_from(&device.path))?);
            }
            HostStep::OpenNamespace { slot, path, .. } => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let fd = openat(CWD, path, flags, Mode::empty())
                    .context("open namespace", path.to_string_lossy())?;
                self.slots.set(*slot, fd);
            }
            HostStep::OpenRoot { slot, init } => {
                self.slots.set(*slot, self.open_root_of(*init)?);
            }
            HostStep::ConnectConsole { path } => {
                let socket = sys::fdpass::dial(path.as_c_str());
                self.slots.set(Slot::CONSOLE, socket.context("connect", path.to_string_lossy())?);
            }
            HostStep::CreateCgroup => self.enter_cgroup()?,
            HostStep::EnterPidNamespace { slot } => self.enter_pid_namespace(*slot)?,
            HostStep::RunOn(cpus) => self.run_on(cpus)?,
            HostStep::Clone { flags, relay, memory, time, into_cgroup } => {
                self.clone_init(*flags, *relay, *memory, time.as_ref(), *into_cgroup)?;
            }
            HostStep::ReleaseScope { born_inside } => self.release_scope(*born_inside)?,
            HostStep::MakeNetwork => self.make_network()?,
            HostStep::MoveNetDevices { namespace, devices } => {
                self.move_net_devices(*namespace, devices)?;
            }
            HostStep::MapIds(maps) => self.map_ids(maps)?,
            HostStep::MapOwnId(maps) => {
                self.write_proc("setgroups", "deny")?;
                self.map_ids(maps)?;
            }
            HostStep::MapIdsThrough(helpers) => {
                let child = self.child.as_ref().ok_or_else(no_child)?;
                id_helper::map_ids(child.pid, helpers)?;
            }
            HostStep::LimitResources(limits) => self.limit_resources(limits)?,
            HostStep::Admit => self.say(Word::Admitted)?,
            HostStep::AdjustOomScore(score) => self.adjust_oom_score(*score)?,
            HostStep::InheritOomScore(score) => self.take_on_oom_score(*score)?,
            HostStep::RestoreOomScore => self.restore_oom_score()?,
            HostStep::EnterResctrl => self.enter_resctrl()?,
            HostStep::RecordBirth => {
                let child = self.child.as_ref().ok_or_else(no_child)?;
                (self.on_birth)(child)?;
            }
            HostStep::RunHooks => self.run_hooks()?,
            HostStep::SendListener(agent) => self.send_listener(agent)?,
            HostStep::AwaitReady => self.await_message(&Message::Ready)?,
            HostStep::Commit => self.say(Word::Commit)?,
            HostStep::AwaitExec => {
                self.await_message(&Message::Closed)?;
                self.program_since = self.tracer.clock();
            }
        }
        Ok(())
    }

    /// The root filesystem that is being assembled.
    fn rootfs(&mut self) -> Result<&mut rootfs::Assembly<'static>, Error> {
        let recipe = self.plan.rootfs.as_deref().ok_or_else(no_child)?;
        Ok(self.rootfs.get_or_insert_with(|| rootfs::Assembly::new(recipe)))
    }

    fn enter_cgroup(&mut self) -> Result<(), Error> {
        self.cgroup = match &self.plan.cgroup {
            None => None,
            Some(CgroupPlan::Create { location, resources, as_user: true }) => {
                Some(Cgroup::create_as_user(location, resources)?)
            }
            Some(CgroupPlan::Create { location, resources, as_user: false }) => {
                let program = self.slots.get(Slot::DEVICES);
                Some(Cgroup::create(location, resources, program)?)
            }
            Some(CgroupPlan::Scope { location, resources, properties }) => {
                let program = self.slots.get(Slot::DEVICES);
                let holder = self.holder.insert(Holder::start()?).pid();
                Some(Cgroup::create_scope(location, resources, program, properties, holder)?)
            }
            Some(CgroupPlan::Join { location, .. }) => Some(match Cgroup::open(location) {
                Err(error) if error.is_gone() => match self.cgroup_of_init() {
                    Some(cgroup) => cgroup,
                    None => return Err(error.into()),
                },
                result => result?,
            }),
        };
        Ok(())
    }

    /// The root of the container's init, in the verified procfs.
    fn open_root_of(&self, init: i32) -> Result<OwnedFd, Error> {
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = format!("{init}/root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(proc, path.as_str(), flags, Mode::empty())
            .context("open", format!("/proc/{path}"))?;
        // The number was init's if init lives still.
        let container = self.slots.get(Slot::CONTAINER).ok_or_else(no_child)?;
        sys::signal::send(container, 0).context("kill", "container init")?;
        Ok(root)
    }

    /// The cgroup that the container's init has moved to, for an exec that asks for none in particular.
    fn cgroup_of_init(&self) -> Option<Cgroup> {
        let Some(CgroupPlan::Join { location, or_that_of: Some(init) }) = &self.plan.cgroup else {
            return None;
        };
        Cgroup::open(&location.moved_to_by(*init)?).ok()
    }

    fn enter_resctrl(&self) -> Result<(), Error> {
        let pid = self.child.as_ref().ok_or_else(no_child)?.pid;
        match &self.plan.resctrl {
            None => {}
            Some(ResctrlPlan::Create { group, schemata }) => group.enter(schemata, pid)?,
            Some(ResctrlPlan::Join { group }) => group.join(pid)?,
        }
        Ok(())
    }

    /// Lets go of what kept the scope alive, once init is in all of the cgroup. That init would move
    /// there itself is not enough: it may not have come to that.
    fn release_scope(&mut self, born_inside: bool) -> Result<(), Error> {
        let Some(CgroupPlan::Scope { resources, .. }) = &self.plan.cgroup else { return Ok(()) };
        let cgroup = self.cgroup.as_ref().ok_or_else(no_child)?;
        let child = self.child.as_ref().ok_or_else(no_child)?;
        if !born_inside {
            cgroup.add(child.pid.as_raw_nonzero().get())?;
        }
        self.holder = None;
        Ok(cgroup.without_holder(resources)?)
    }

    /// setns(2) of a PID namespace changes where the caller's children are born, not the caller.
    fn enter_pid_namespace(&mut self, slot: Slot) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let own = openat(CWD, c"/proc/self/ns/pid", flags, Mode::empty())
            .context("open", "/proc/self/ns/pid")?;
        let target = self.slots.get(slot).ok_or_else(no_child)?;
        let result = match slot {
            Slot::CONTAINER => sys::ns::join_process(target, CloneFlags::NEWPID),
            _ => sys::ns::join(target, CloneFlags::NEWPID),
        };
        result.context("setns", "pid namespace")?;
        self.own_pid_namespace = Some(own);
        Ok(())
    }

    /// Children run where their parent does.
    fn run_on(&mut self, cpus: &NumberSet) -> Result<(), Error> {
        let own = sched_getaffinity(None).context("sched_getaffinity", "")?;
        sched_setaffinity(None, &init::cpu_set(cpus)).context("sched_setaffinity", cpus)?;
        self.own_cpus = Some(own);
        Ok(())
    }

    fn clone_init(
        &mut self,
        flags: CloneFlags,
        relay: Option<Relay>,
        memory: Memory,
        time: Option<&'static TimeNamespace>,
        into_cgroup: bool,
    ) -> Result<(), Error> {
        let (ours, theirs) = channel::pair().context("socketpair", "")?;
        let mut procs = Vec::new();
        let mut born_in = None;
        if let Some(cgroup) = &self.cgroup {
            procs = cgroup.procs_fds()?;
            match into_cgroup {
                true => born_in = cgroup.dir_fd(),
                false => procs.extend(cgroup.unified_procs_fd()?),
            }
        }
        let steps = self.plan.init.len();
        let mut recorder = match (self.tracer.is_on(), memory) {
            (false, _) => None,
            (true, Memory::Shared) => Some(Recorder::new(steps)),
            (true, Memory::Copied) => Some(Recorder::shared(steps).context("mmap", "trace")?),
        };
        let birth = || Birth {
            plan: self.plan,
            slots: self.slots,
            procs: procs.iter().map(AsRawFd::as_raw_fd).collect(),
            channel: theirs.as_raw_fd(),
            host_end: ours.as_raw_fd(),
            recorder: recorder.clone(),
            flags,
            relay,
            time,
        };
        let at_birth = if relay.is_some() { CloneFlags::empty() } else { flags };
        let elsewhere = match time.filter(|_| !relay.is_some_and(|relay| relay.time)) {
            Some(time) => Some(Elsewhere::enter(time, self.slots)?),
            None => None,
        };
        let mut child = birth::give(birth(), at_birth, born_in, memory);
        // The cgroup hands controllers down to those below it and so has no processes itself, or is gone.
        if let (Err(Errno::BUSY | Errno::OPNOTSUPP | Errno::NODEV), Some(_)) = (&child, born_in)
            && let Some(cgroup) = self.cgroup_of_init()
        {
            child = birth::give(birth(), at_birth, cgroup.dir_fd(), memory);
        }
        let child = child.map_err(|errno| {
            let hint = match errno {
                Errno::ACCESS if born_in.is_some() => {
                    " into its cgroup (which takes the right to write to cgroup.procs of the \
                         nearest cgroup above both it and the caller's)"
                }
                _ => "",
            };
            sys::Error::new("clone3", format!("{at_birth:?}{hint}"), errno)
        });
        let back = elsewhere.map_or(Ok(()), Elsewhere::leave);
        let child = child?;
        drop(theirs);
        let child = match relay {
            None => child,
            Some(_) => self.receive_init(child, &ours)?,
        };
        if let Some(recorder) = &mut recorder {
            if time.is_some() {
                recorder.set_ahead(clock::ahead(child.pid, self.slots).unwrap_or(0));
            }
            self.tracer.joined(plan::INIT, child.pid, recorder, self.plan, self.plan.host.len());
        }
        self.child = Some(child);
        self.channel = Some(ours);
        back?;
        if let Some(own) = self.own_cpus.take() {
            sched_setaffinity(None, &own).context("sched_setaffinity", "own cpus")?;
        }
        if let Some(own) = self.own_pid_namespace.take() {
            sys::ns::join(own.as_fd(), CloneFlags::NEWPID).context("setns", "own pid namespace")?;
        }
        Ok(())
    }

    /// Takes init from the relay, which then ends.
    fn receive_init(&self, relay: Child, channel: &OwnedFd) -> Result<Child, Error> {
        let received = relay::receive(channel, self.slots.get(Slot::PROC));
        let _ = hooks::wait(&relay.pidfd);
        match received {
            Ok(child) => Ok(child),
            Err(relay::Refused::Failed(step, errno)) => {
                Err(Error::Init { step: step.into(), detail: String::new(), errno })
            }
            Err(relay::Refused::Init(failed)) => {
                Err(unexpected(self.plan, failed, &Message::Relayed, || Error::death(None)))
            }
            Err(relay::Refused::System(error)) => Err(error.into()),
        }
    }

    fn make_network(&mut self) -> Result<(), Error> {
        let network = match &mut self.network {
            Some(begun) => begun,
            None => self.network.insert(Network::begin(self.tracer)?),
        };
        if let Some(socket) = network.take_socket() {
            self.slots.set(Slot::NETWORK, socket);
        }
        Ok(())
    }

    /// Sets init's score if it has another one than this process, from which it has its own.
    fn adjust_oom_score(&mut self, score: i32) -> Result<(), Error> {
        let score = score.to_string();
        let own = self.open_oom_score(&score)?;
        if own.is_none() {
            return Ok(());
        }
        self.own_oom_score = own;
        self.write_proc("oom_score_adj", &score)
    }

    /// Takes on the score that init is to have.
    fn take_on_oom_score(&mut self, score: i32) -> Result<(), Error> {
        let score = score.to_string();
        let Some((file, own)) = self.open_oom_score(&score)? else { return Ok(()) };
        rustix::io::pwrite(&file, score.as_bytes(), 0).map_err(|errno| {
            let hint = match errno {
                Errno::ACCESS => " (below the caller's own, which takes CAP_SYS_RESOURCE)",
                _ => "",
            };
            sys::Error::new("set", format!("oom_score_adj {score}{hint}"), errno)
        })?;
        self.own_oom_score = Some((file, own));
        Ok(())
    }

    /// The file of this process's score and what that is, if it is not `score`.
    fn open_oom_score(&self, score: &str) -> Result<Option<(OwnedFd, Vec<u8>)>, sys::Error> {
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = c"self/oom_score_adj";
        let mut own = [0; 8];
        let file = openat(proc, path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let file = file.context("open", "/proc/self/oom_score_adj")?;
        let length =
            rustix::io::read(&file, &mut own).context("read", "/proc/self/oom_score_adj")?;
        let own = own.get(..length).unwrap_or_default().trim_ascii();
        Ok((own != score.as_bytes()).then(|| (file, own.to_vec())))
    }

    fn restore_oom_score(&mut self) -> Result<(), Error> {
        let Some((file, own)) = self.own_oom_score.take() else { return Ok(()) };
        if self.plan.host.iter().all(|step| !matches!(step, HostStep::AwaitExec)) {
            self.await_message(&Message::Closed)?;
        }
        // Best effort: a lower score than init's may be forbidden, and the container runs by now.
        let _ = rustix::io::pwrite(&file, &own, 0);
        Ok(())
    }

    fn move_net_devices(
        &self,
        namespace: Option<Slot>,
        devices: &[NetDevice],
    ) -> Result<(), Error> {
        let own;
        let namespace = match namespace {
            Some(slot) => self.slots.get(slot).ok_or_else(no_child)?,
            None => {
                let child = self.child.as_ref().ok_or_else(no_child)?;
                let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
                let path = format!("{}/ns/net", child.pid.as_raw_nonzero());
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                own = openat(proc, path.as_str(), flags, Mode::empty())
                    .context("open", format!("/proc/{path}"))?;
                own.as_fd()
            }
        };
        Ok(net_devices::move_all(devices, namespace)?)
    }

    fn map_ids(&self, maps: &IdMaps) -> Result<(), Error> {
        self.write_proc("uid_map", &maps.uid_map)?;
        self.write_proc("gid_map", &maps.gid_map)
    }

    /// Writes a file of init's directory in the verified procfs.
    fn write_proc(&self, name: &str, text: &str) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
        let path = format!("{}/{name}", child.pid.as_raw_nonzero());
        sys::fs::write_at(proc, path.as_str(), text.as_bytes())
            .context("write", format!("/proc/{path} ({})", text.trim_end()))?;
        Ok(())
    }

    fn limit_resources(&self, limits: &[Limit]) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        for limit in limits {
            let value = Rlimit { current: limit.soft, maximum: limit.hard };
            prlimit(Some(child.pid), limit.resource, value)
                .map(drop)
                .context("error setting rlimit", format!("{:?}", limit.resource))?;
        }
        Ok(())
    }

    fn run_hooks(&self) -> Result<(), Error> {
        self.tracer.wait(Phase::Sync, "await hooks", "", plan::INIT, || {
            self.await_message(&Message::Hooks)
        })?;
        let pid = self.child.as_ref().map_or(0, |child| child.pid.as_raw_nonzero().get());
        for kind in &self.plan.runtime_hooks {
            let (bundle, tracer) = (Some(self.bundle), Some(self.tracer));
            // prestart is from a time when create was done by then, and callers look for that word.
            let status = if kind.kind == "prestart" { "created" } else { "creating" };
            hooks::run_all(kind, &self.plan.state, status, pid, bundle, tracer)
                .map_err(|failed| Error::Hook(failed.describe(kind)))?;
        }
        self.say(Word::HooksDone)
    }

    /// Sends the filter's listener to its agent, on a connection of its own that is then closed.
    fn send_listener(&self, agent: &Agent) -> Result<(), Error> {
        let child = self.child.as_ref().ok_or_else(no_child)?;
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        let number = match channel::listen(channel).context("read", "init")? {
            Message::Listener(number) => number,
            other => {
                return Err(unexpected(self.plan, other, &Message::Listener(-1), || self.death()));
            }
        };
        let pid = child.pid.as_raw_nonzero().get();
        let listener = pidfd_getfd(&child.pidfd, number, PidfdGetfdFlags::empty())
            .context("pidfd_getfd", format!("seccomp listener of {pid}"))?;
        let path = || agent.socket.to_string_lossy();
        let socket = sys::fdpass::dial(agent.socket.as_c_str()).context(
            "failed to connect with seccomp agent specified in the seccomp profile",
            path(),
        )?;
        let message = agent.message(&self.plan.state, pid);
        sys::fdpass::send_whole(&socket, message.as_bytes(), listener.as_fd())
            .context("cannot send seccomp fd to", path())?;
        self.say(Word::ListenerSent)
    }

    fn say(&self, word: Word) -> Result<(), Error> {
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        match channel::say(channel, word) {
            Ok(()) => Ok(()),
            // Init is gone; it may have said why.
            Err(Errno::PIPE) => self.await_message(&Message::Closed).and(Err(self.death())),
            Err(errno) => Err(sys::Error::new("send", "init", errno).into()),
        }
    }

    fn await_message(&self, expected: &Message) -> Result<(), Error> {
        let channel = self.channel.as_ref().ok_or_else(no_child)?;
        await_message(self.plan, channel, expected, || self.death())
    }

    /// How init ended, when it did not say.
    fn death(&self) -> Error {
        let status = self.child.as_ref().and_then(|child| hooks::wait(&child.pidfd).ok());
        Error::death(status.and_then(|status| status.terminating_signal()))
    }
}

/// Waits for what init says, and puts into words what it was not expected to say. `death` tells of an
/// init that ended without a word.
pub(crate) fn await_message(
    plan: &Plan,
    channel: &OwnedFd,
    expected: &Message,
    death: impl FnOnce() -> Error,
) -> Result<(), Error> {
    match channel::listen(channel).context("read", "init")? {
        message if message == *expected => Ok(()),
        other => Err(unexpected(plan, other, expected, death)),
    }
}

fn unexpected(
    plan: &Plan,
    message: Message,
    expected: &Message,
    death: impl FnOnce() -> Error,
) -> Error {
    match message {
        Message::Failed { step, errno, text } => describe_failure(plan, step, errno, text),
        Message::Closed | Message::Died => death(),
        other => {
            let object = format!("{other:?} instead of {expected:?}");
            sys::Error::new("read", object, Errno::PROTO).into()
        }
    }
}

/// Puts a failure of init into words.
fn describe_failure(plan: &Plan, step: usize, errno: Errno, detail: String) -> Error {
    let reason = sys::errno::describe(errno);
    match plan.init.get(step) {
        Some(InitStep::FindProgram { name, searched, .. }) => {
            let text = match (searched, errno) {
                (true, Errno::NOENT | Errno::NOTDIR) => {
                    format!("exec: {name:?}: executable file not found in $PATH")
                }
                (false, Errno::NOENT | Errno::NOTDIR) => {
                    format!("exec: {name:?}: stat {name}: {reason}")
                }
                _ => format!("exec: {name:?}: {reason}"),
            };
            Error::Program { text, errno }
        }
        Some(InitStep::Exec { argv, .. }) => {
            let program = argv.iter().next().map(CStr::to_string_lossy).unwrap_or_default();
            Error::Program { text: format!("exec {program}: {reason}"), errno }
        }
        Some(InitStep::RunHooks(_)) => Error::Hook(detail),
        // SCHED_DEADLINE may not be kept to a part of the CPUs: sched_setattr(2).
        Some(InitStep::SetScheduler(_)) if errno == Errno::PERM && names_cpus(plan) => {
            Error::Init {
                step: "process scheduler can't be used together with AllowedCPUs".into(),
                detail,
                errno,
            }
        }
        Some(InitStep::LimitResources(_)) if errno == Errno::PERM => Error::Init {
            step: "error setting rlimits".into(),
            detail: format!("{detail} (raising a hard limit takes CAP_SYS_RESOURCE)"),
            errno,
        },
        Some(InitStep::ChangeUser { uid, gid, .. }) if errno == Errno::INVAL => {
            let step = match detail.as_str() {
                "setresgid" => format!("cannot setgid to unmapped gid {gid} in user namespace"),
                "setresuid" => format!("cannot setuid to unmapped uid {uid} in user namespace"),
                _ => format!("change user {uid}:{gid}"),
            };
            Error::Init { step, detail, errno }
        }
        Some(step @ InitStep::MountFs(mount)) if errno == Errno::PERM => {
            let hint = match mount.kind.as_bytes() {
                b"sysfs" => {
                    " (a user namespace may mount sysfs only with a network namespace of its own: bind \
                     the host's /sys, or add the namespace)"
                }
                b"proc" => {
                    " (a user namespace may mount proc only with a PID namespace of its own, and where \
                     it sees one that nothing is mounted over)"
                }
                _ => "",
            };
            let step = format!("mount {}", step.label().object);
            Error::Init { step, detail: format!("{detail}{hint}"), errno }
        }
        Some(step) => {
            let label = step.label();
            let object = label.object;
            let step = if object.is_empty() {
                label.name.to_string()
            } else {
                format!("{} {object}", label.name)
            };
            Error::Init { step, detail, errno }
        }
        None => Error::Init { step: "unknown step".into(), detail, errno },
    }
}

/// Whether the container is kept to some CPUs.
fn names_cpus(plan: &Plan) -> bool {
    let (Some(CgroupPlan::Create { resources, .. }) | Some(CgroupPlan::Scope { resources, .. })) =
        &plan.cgroup
    else {
        return false;
    };
    resources.cpu.as_ref().is_some_and(|cpu| !cpu.cpus.is_empty())
}

/// Whether the kernel has a security module, by what the module itself shows.
fn require(module: SecurityModule) -> Result<(), Error> {
    const SELINUX_MAGIC: i64 = 0xf97c_ff8c;
    let present = match module {
        SecurityModule::AppArmor => sys::fs::read_text(c"/sys/module/apparmor/parameters/enabled")
            .is_ok_and(|enabled| enabled.starts_with('Y')),
        SecurityModule::SeLinux => {
            statfs(c"/sys/fs/selinux").is_ok_and(|fs| fs.f_type == SELINUX_MAGIC)
        }
    };
    if present { Ok(()) } else { Err(Error::NoModule(module)) }
}

fn no_child() -> sys::Error {
    sys::Error::new("launch", "steps out of order", Errno::CHILD)
}

/// The host's procfs, verified: type of the filesystem and inode of its root, so that a bind over
/// /proc cannot catch our writes.
fn open_proc() -> Result<OwnedFd, sys::Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, c"/proc", flags, Mode::empty()).context("open", "/proc")?;
    let kind = fstatfs(&fd).context("fstatfs", "/proc")?.f_type as i64;
    let inode = fstat(&fd).context("fstat", "/proc")?.st_ino;
    if kind == PROC_SUPER_MAGIC && inode == 1 {
        return Ok(fd);
    }
    Err(sys::Error::new("open", "/proc (not the root of a procfs)", Errno::NODEV))
}

/// Names the object of what could not be taken.
fn taken_from(source: &CStr) -> impl FnOnce(take::Failed) -> sys::Error {
    move |take::Failed { op, hint, errno }| {
        sys::Error::new(op, format!("{}{hint}", source.to_string_lossy()), errno)
    }
}
