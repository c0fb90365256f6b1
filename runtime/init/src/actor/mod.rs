//! The init actor: runs its steps and becomes the container's process.
//!
//! Between clone and exec init only makes system calls: it does not parse the configuration, and makes no decision that
//! the plan can make. If a step fails, init reports the error to the parent and exits.

mod attributes;
mod confinement;
mod console;
mod copy_up;
pub(crate) mod devices;
mod fresh;
mod identity;
mod mounts;
mod old_tree;
pub(crate) mod program;
mod protect;
mod root;
mod stand_in;
mod start;

use core::ops::Range;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::MountAttrFlags;

use crate::channel::{self, Message, Word};
use crate::clock;
use crate::failure::{Failure, Op};
use crate::fault::{self, Place};
use crate::hooks::Manner;
use crate::job::Job;
use crate::network;
use crate::slots::Slots;
use crate::step::{Confined, Hooks, InitStep, Slot};
use crate::take::{self, Taken};
use fresh::Fresh;
use root::Root;

/// The reason why a kernel with `CONFIG_RT_GROUP_SCHED` returns EINVAL for a move into a v1 cgroup (cgroups(7),
/// sched(7)).
const REAL_TIME_IN_A_CGROUP: &[u8] =
    b"a process with a real-time policy (SCHED_FIFO, SCHED_RR) enters a cpu cgroup \
    only with linux.resources.cpu.realtimeRuntime; start dayfly with an ordinary policy";

/// Init's state between steps.
pub(crate) struct Init<'a> {
    job: &'a Job<'a>,
    slots: &'a Slots<'a>,
    /// The socket to the parent; closed before init waits for `start`.
    channel: Option<OwnedFd>,
    /// The socket to the parent, in an intermediate that runs the first steps; otherwise `None`.
    intermediate: Option<&'a OwnedFd>,
    /// New namespaces that an intermediate does not create, because init must create them later.
    left: CloneFlags,
    /// The connection of the `start` command, once accepted.
    starter: Option<OwnedFd>,
    /// The files for joining the cgroups in which init was not created: `tasks` or `cgroup.procs`.
    procs: &'a [BorrowedFd<'a>],
    /// Whether root could not enter the working directory. If so, init tries again later as the user.
    cwd_denied: bool,
    /// The tmpfs that init mounted last and is filling with files.
    fresh: Option<Fresh<'a>>,
    /// The mounts that cover masked files and directories, once attached.
    file_mask: Option<OwnedFd>,
    directory_mask: Option<OwnedFd>,
    /// Index of the program in the candidates of FindProgram.
    program: usize,
    /// `HOME=` and the user's home directory, if it must be added to the environment.
    home: [u8; program::LONGEST_HOME],
    /// The filter's listener, until the parent has a copy.
    listener: Option<OwnedFd>,
    /// The process that a template has forked to run as the program, if any.
    forked: Option<OwnedFd>,
}

/// Runs the plan's init list, except the steps that an intermediate has run. Never returns.
pub(crate) fn run(job: &Job<'_>, channel: OwnedFd) -> ! {
    let _ = sys::signal::set_mask(sys::signal::SignalSet::EMPTY);
    sys::signal::reset_dispositions();
    // With a umask of 0, modes given to mkdir(2) and mknod(2) apply unchanged. The step `SetUmask` sets the program's
    // umask later.
    rustix::process::umask(Mode::empty());
    if job.slots.get(Slot::STAND_IN).is_some() {
        stand_in::hide_arguments();
    }
    let done = job.intermediate.map_or(0, |intermediate| intermediate.steps);
    let mut init = Init::new(job, Some(channel));
    if init.catch_up(job) {
        init.take_steps(job, done..job.steps.len());
    }
    sys::start::exit(1)
}

/// Runs the first steps in an intermediate; init inherits their effect. Returns false if a step failed; the failure has
/// then been reported to the parent.
pub(crate) fn go_ahead(job: &Job<'_>, channel: &OwnedFd, steps: usize) -> bool {
    let mut init = Init::new(job, None);
    init.intermediate = Some(channel);
    if job.is_moved {
        init.left = CloneFlags::NEWCGROUP;
    }
    init.take_steps(job, 0..steps)
}

impl<'a> Init<'a> {
    fn new(job: &'a Job<'a>, channel: Option<OwnedFd>) -> Self {
        let Job { slots, procs, is_moved, .. } = job;
        Self {
            job,
            slots,
            channel,
            intermediate: None,
            left: CloneFlags::empty(),
            starter: None,
            procs: if *is_moved { &[] } else { procs },
            cwd_denied: false,
            fresh: None,
            file_mask: None,
            directory_mask: None,
            program: 0,
            home: [0; program::LONGEST_HOME],
            listener: None,
            forked: None,
        }
    }

    /// Runs the step that an intermediate has left to init, if any: the creation of the cgroup
    /// namespace, once the parent has moved init. Returns false on failure.
    fn catch_up(&mut self, job: &Job<'_>) -> bool {
        let Some(number) = job.late_cgroup_namespace() else { return true };
        let unshared = self
            .expect(Word::Moved)
            .and_then(|()| sys::ns::unshare(CloneFlags::NEWCGROUP).op("unshare"));
        unshared.inspect_err(|failure| self.report(number, failure)).is_ok()
    }

    /// Reports a failed step to the process that waits for init: the `start` command or the parent.
    fn report(&self, number: usize, failure: &Failure) {
        let listener = self.starter.as_ref().or(self.channel.as_ref()).or(self.intermediate);
        if let Some(listener) = listener {
            channel::report(listener, number, failure);
        }
    }

    /// Runs a range of the steps. If a step fails, reports the failure to the parent and stops.
    fn take_steps(&mut self, job: &'a Job<'a>, steps: Range<usize>) -> bool {
        for (number, step) in job.steps.iter().enumerate().take(steps.end).skip(steps.start) {
            if job.pause == Some(number) {
                sys::defence::pause();
            }
            let begun = job.recorder.as_ref().map(|recorder| recorder.begin(number));
            let result = match fault::strike(Place::Init, number) {
                Ok(()) => self.step(step),
                Err(errno) => Err(Failure::new("fault", errno)),
            };
            if let (Some(recorder), Some(begun)) = (&job.recorder, begun) {
                recorder.end(begun, result.as_ref().map_err(|failure| failure.errno).copied());
            }
            if let Err(failure) = result {
                self.report(number, &failure);
                return false;
            }
        }
        true
    }
}

impl<'a> Init<'a> {
    fn step(&mut self, step: &'a InitStep<'a>) -> Result<(), Failure> {
        if !fills_fresh(step) {
            self.fresh = None;
        }
        match step {
            InitStep::OpenProc => self.open_own_proc(),
            InitStep::JoinCgroups => self.join_cgroups(),
            InitStep::RunOn(cpus) => attributes::run_on(cpus),
            InitStep::RunOnEveryCpu => {
                // If all CPUs of the cgroup are offline, the affinity cannot change; runc ignores this, too.
                let _ = sys::sched::run_on_every_cpu();
                Ok(())
            }
            InitStep::JoinNamespace { slot, kind } => {
                sys::ns::join(self.fd(*slot)?, *kind).op("setns")
            }
            InitStep::JoinProcess { slot, kinds } => {
                sys::ns::join_process(self.fd(*slot)?, *kinds).op("setns")
            }
            InitStep::AwaitAdmission => self.expect(Word::Admitted),
            InitStep::EnterTime { offsets, .. } => {
                clock::make_and_enter(offsets, self.fd(Slot::PROC)?)
            }
            InitStep::Undumpable => {
                set_dumpable_behavior(DumpableBehavior::NotDumpable).op("prctl PR_SET_DUMPABLE")
            }
            InitStep::CloneTree(tree) => self.take(tree.slot, take::tree(tree, self.slots)),
            InitStep::CloneDevice(device) => self.take(device.slot, take::device(device)),
            InitStep::BecomeRoot => identity::become_root(),
            InitStep::Unshare(kinds) => sys::ns::unshare(kinds.difference(self.left)).op("unshare"),
            InitStep::JoinNetwork => {
                let made = network::receive(self.fd(Slot::NETWORK)?).op("unshare, ioctl lo")?;
                sys::ns::join(made.as_fd(), CloneFlags::NEWNET).op("setns")
            }
            InitStep::LabelKeys(label) => confinement::label_keys(self.fd(Slot::PROC)?, label),
            InitStep::JoinKeyring { name } => identity::join_keyring(name),
            InitStep::NewSession => rustix::process::setsid().map(drop).op("setsid"),
            InitStep::LoopbackUp => sys::net::loopback_up().op("ioctl SIOCSIFFLAGS lo"),
            InitStep::SetHostname(name) => {
                rustix::system::sethostname(name.as_bytes()).op("sethostname")
            }
            InitStep::SetDomainname(name) => {
                rustix::system::setdomainname(name.as_bytes()).op("setdomainname")
            }
            InitStep::DetachPropagation => mounts::detach_propagation(),
            InitStep::AttachRoot { path } => mounts::attach_root(self.fd(Slot::ROOT)?, path),
            InitStep::AttachTree { slot, target } => {
                mounts::attach_tree(&self.root()?, self.fd(*slot)?, target)
            }
            InitStep::AttachBind(bind) => mounts::attach_bind(&self.root()?, bind, self.slots),
            InitStep::MakeTree { slot, filesystem } => {
                mounts::make(filesystem, None).map(|tree| self.slots.keep(*slot, tree))
            }
            InitStep::MountFs(mount) => {
                mounts::mount_fs(&self.root()?, mount, self.slots, &mut self.fresh)
            }
            InitStep::MakeDevices { directory, nodes } => {
                devices::make(&self.root()?, directory, self.opened(directory), nodes)
            }
            InitStep::MakeLinks { directory, links } => {
                let open = self.opened(directory);
                devices::link(&self.root()?, self.fd(Slot::PROC)?, directory, open, links)
            }
            InitStep::MakeDirectory { path } => self.root()?.make_directories(path).map(drop),
            InitStep::AwaitHooks => {
                self.announce(&Message::Hooks)?;
                self.expect(Word::HooksDone)
            }
            InitStep::RunHooks { hooks, home_of, confined } => {
                self.run_hooks(hooks, *home_of, confined.as_ref())
            }
            InitStep::PivotRoot => mounts::pivot_root(self.fd(Slot::ROOT)?),
            InitStep::EnterRoot => mounts::enter_root(self.fd(Slot::ROOT)?),
            InitStep::EnterRootOf { slot } => mounts::enter_root(self.fd(*slot)?),
            InitStep::ChangeRoot { locked } => {
                mounts::change_root(self.fd(Slot::ROOT)?, self.fd(Slot::PROC)?, *locked)
            }
            InitStep::OpenConsole { size, uid, bind, carried } => {
                let socket = self.fd(Slot::CONSOLE)?;
                console::open(&self.root()?, socket, *size, *uid, *bind, *carried)
            }
            InitStep::SetMountAttr { slot, path, recursive, attr } => {
                let place;
                let top = match (slot, self.opened(path)) {
                    (Some(slot), _) => self.fd(*slot)?,
                    (None, Some(top)) => top,
                    (None, None) => {
                        place = self.root()?.open(path, OFlags::PATH)?;
                        place.as_fd()
                    }
                };
                sys::mount::mount_setattr(top, *recursive, attr).op("mount_setattr")
            }
            InitStep::Reconfigure { path, parameters } => {
                mounts::reconfigure(&self.root()?, path, parameters)
            }
            InitStep::OpenMount { slot, path } => {
                self.slots.keep(*slot, self.root()?.open(path, OFlags::PATH)?);
                Ok(())
            }
            InitStep::FreezeTmpfs { slot, .. } => mounts::freeze_tmpfs(self.fd(*slot)?),
            InitStep::WriteSysctl { path, value } => self.write_sysctl(path, value),
            InitStep::MaskPath { path, shared, context } => self.mask(path, *shared, *context),
            InitStep::ReadonlyPath { path } => protect::make_readonly(&self.root()?, path),
            InitStep::LimitResources(limits) => identity::limit_resources(limits),
            InitStep::SetScheduler(attributes) => {
                sys::sched::set_attributes(attributes).op("sched_setattr")
            }
            InitStep::SetIoPriority(priority) => {
                sys::sched::set_io_priority(*priority).op("ioprio_set")
            }
            InitStep::SetPersonality(domain) => sys::personality::set(*domain).op("personality"),
            InitStep::SetMemoryPolicy { mode, nodes } => {
                sys::mempolicy::set(*mode, nodes).op("set_mempolicy")
            }
            InitStep::SetUmask(mask) => {
                rustix::process::umask(Mode::from_raw_mode(*mask));
                Ok(())
            }
            InitStep::LimitCapabilities { drop } => identity::limit_capabilities(*drop),
            InitStep::ChangeDirectory { path } => self.change_directory(path),
            InitStep::ChangeUser { uid, gid, groups, without_null } => {
                self.change_user(*uid, *gid, *groups, *without_null)
            }
            InitStep::VerifyDirectory if is_off(Defence::CwdCheck) => Ok(()),
            InitStep::VerifyDirectory => identity::verify_directory(),
            InitStep::SetCapabilities(sets) => identity::set_capabilities(sets),
            InitStep::NoNewPrivileges => {
                rustix::thread::set_no_new_privs(true).op("prctl PR_SET_NO_NEW_PRIVS")
            }
            InitStep::ApplyProfile(order) => {
                confinement::apply_profile(self.fd(Slot::PROC)?, order)
            }
            InitStep::LabelProcess(label) => {
                confinement::label_process(self.fd(Slot::PROC)?, label)
            }
            InitStep::FindProgram { candidates, searched, .. } => {
                self.program = program::find(candidates, *searched)?;
                // The filter, which is loaded later, may forbid the system calls used here.
                if let Some(uid) = self.home_of() {
                    program::home(uid, &mut self.home);
                }
                Ok(())
            }
            InitStep::CloseFds { .. } if is_off(Defence::CloseRange) => Ok(()),
            InitStep::CloseFds { from } => sys::exec::cloexec_from(*from).op("close_range"),
            InitStep::AnnounceReady => self.announce(&Message::Ready),
            InitStep::AwaitCommit if self.slots.get(Slot::STAND_IN).is_some() => {
                self.await_commit_or_fork()
            }
            InitStep::AwaitCommit => self.expect(Word::Commit),
            InitStep::ReleaseDescriptors { from } => self.release_descriptors(*from),
            InitStep::AwaitStart => self.await_start(),
            InitStep::LoadSeccomp { .. } => {
                self.listener = self.load_filter()?;
                Ok(())
            }
            InitStep::HandOverListener => self.hand_over_listener(),
            InitStep::BecomeReaper => self.become_reaper(),
            InitStep::PassRequests => self.pass_requests(),
            InitStep::StandIn => self.stand_in(),
            InitStep::Exec { argv, envp, home_of } => self.exec(argv, envp, *home_of),
        }
    }

    /// Returns the root of the last mounted tmpfs ([`Fresh`]) if `path` is its mount point.
    fn opened(&self, path: &core::ffi::CStr) -> Option<BorrowedFd<'_>> {
        self.fresh.as_ref().and_then(|fresh| fresh.at(path))
    }

    /// Returns the descriptor in a slot.
    fn fd(&self, slot: Slot) -> Result<BorrowedFd<'_>, Failure> {
        self.slots.get(slot).ok_or(Failure::new("slot", Errno::BADF))
    }

    /// Stores a descriptor opened on the host. Called only in a process that does not share the parent's memory.
    /// Otherwise the number would be stored in the parent's table as well, where it is invalid.
    fn take(&self, slot: Slot, taken: Result<Taken, take::Failed>) -> Result<(), Failure> {
        taken.map(|taken| self.slots.set(slot, taken.fd)).map_err(Failure::from)
    }

    /// Opens a new procfs, in which nothing can have been mounted. Like [`Init::take`], called only in a process that
    /// does not share the parent's memory.
    fn open_own_proc(&self) -> Result<(), Failure> {
        let context = fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC).op("fsopen")?;
        fsconfig_create(&context).op("fsconfig")?;
        let made = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        self.slots.set(Slot::PROC, made.op("fsmount")?);
        Ok(())
    }

    /// Returns the container's root: the tree being assembled, or `/` of a joined container.
    fn root(&self) -> Result<Root<'a>, Failure> {
        Ok(Root::new(self.slots.get(Slot::ROOT).unwrap_or(rustix::fs::CWD)))
    }

    fn announce(&self, message: &Message) -> Result<(), Failure> {
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?;
        channel::announce(channel, message).op("channel")
    }

    fn expect(&self, word: Word) -> Result<(), Failure> {
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?;
        channel::expect(channel, word).op("channel")
    }

    /// Sends the filter's listener to the parent, and then closes init's own copy. If the agent exits, the kernel fails
    /// the filtered system calls with ENOSYS only when no process holds the listener any more. Every system call of
    /// this function is already subject to the filter.
    fn hand_over_listener(&mut self) -> Result<(), Failure> {
        let listener = self.listener.take().ok_or(Failure::new("listener", Errno::BADF))?;
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?;
        channel::announce_listener(channel, listener.as_raw_fd()).op("channel")?;
        self.expect(Word::ListenerSent)
    }

    /// Joins the cgroups in which the clone did not create init: the cgroups of v1 hierarchies always, and the v2
    /// cgroup if CLONE_INTO_CGROUP was not used. Init moves itself before any other step. Init has one thread, so a
    /// move by `tasks` moves the whole process (`cgroup::Cgroup::entrances`).
    fn join_cgroups(&self) -> Result<(), Failure> {
        for &procs in self.procs {
            rustix::io::write(procs, b"0").map_err(|errno| {
                let failure = Failure::new("write tasks or cgroup.procs", errno);
                match errno {
                    Errno::INVAL => failure.with(REAL_TIME_IN_A_CGROUP),
                    Errno::NOSPC => {
                        failure.with(b"cpuset.cpus or cpuset.mems of the cgroup is empty")
                    }
                    _ => failure,
                }
            })?;
        }
        Ok(())
    }

    /// Runs hooks. If init loads the filter right after the hooks, the hooks run under the filter as well. Each hook's
    /// process loads the filter itself, so that the filter need not permit the system calls with which init runs a
    /// hook.
    fn run_hooks(
        &self,
        hooks: &Hooks<'_>,
        home_of: Option<u32>,
        confined: Option<&Confined>,
    ) -> Result<(), Failure> {
        let status = if hooks.kind == "startContainer" { "created" } else { "creating" };
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let home = home_of.and(program::found_home(&self.home));
        let confine = || {
            self.load_filter().map(drop)?;
            let capabilities = confined.and_then(|confined| confined.capabilities.as_ref());
            capabilities.map_or(Ok(()), identity::set_capabilities)
        };
        // Init's limit is the program's before it runs startContainer hooks (`low-nofile-last`).
        let limit = self.job.own_nofile.filter(|_| hooks.kind != "startContainer");
        let manner = Manner {
            home,
            limit,
            confine: confined.map(|_| &confine as &dyn Fn() -> Result<(), Failure>),
            ..Manner::default()
        };
        crate::hooks::run_all(hooks, &self.job.state, status, pid, &manner)
            .map_err(|failed| Failure::described(failed.describe(hooks), Errno::CANCELED))
    }

    /// Loads the filter; returns its listener, if it has one.
    fn load_filter(&self) -> Result<Option<OwnedFd>, Failure> {
        let filter = self.job.filter.ok_or(Failure::new("seccomp", Errno::INVAL))?;
        sys::seccomp::load(filter.instructions, filter.flags).op("seccomp")
    }

    /// Writes below /proc/sys through the procfs that the parent verified, never through the
    /// container's own (CVE-2025-52881).
    fn write_sysctl(&self, path: &core::ffi::CStr, value: &str) -> Result<(), Failure> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = if is_off(Defence::VerifyProc) {
            let proc = self.root()?.open(c"proc", OFlags::PATH)?;
            openat(proc, path, flags, Mode::empty()).op("openat")?
        } else {
            sys::inside::open_beneath(self.fd(Slot::PROC)?, path, flags).op("openat2")?
        };
        rustix::io::write(file, value.as_bytes()).map(drop).op("write")
    }

    /// Returns the user whose home directory becomes HOME.
    fn home_of(&self) -> Option<u32> {
        self.job.steps.iter().rev().find_map(|step| match step {
            InitStep::Exec { home_of, .. } => *home_of,
            _ => None,
        })
    }

    fn exec(
        &self,
        argv: &sys::exec::StringArray<'_>,
        envp: &sys::exec::StringArray<'_>,
        home_of: Option<u32>,
    ) -> Result<(), Failure> {
        let candidates = self.job.steps.iter().find_map(|step| match step {
            InitStep::FindProgram { candidates, .. } => Some(*candidates),
            _ => None,
        });
        let program = candidates.and_then(|candidates| candidates.get(self.program));
        let program = program.ok_or(Failure::new("exec", Errno::NOENT))?;
        let home = home_of.and(program::found_home(&self.home));
        let errno = sys::exec::execve(program, argv, envp, home);
        Err(program::not_executed(program, errno))
    }
}

/// Returns whether init keeps the last mounted tmpfs in `fresh` when it runs this step: the step mounts nothing, or
/// updates `fresh`.
fn fills_fresh(step: &InitStep<'_>) -> bool {
    matches!(
        step,
        InitStep::MountFs(_)
            | InitStep::MakeDevices { .. }
            | InitStep::MakeLinks { .. }
            | InitStep::SetMountAttr { .. }
    )
}
