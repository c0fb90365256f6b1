//! The init actor: runs its steps and becomes the container's process.
//!
//! Between clone and exec there are only system calls: no allocation (the memory may be the host
//! actor's, who allocates at the same time), no parsing of configuration, no decision that the plan
//! could have taken. A step that fails ends it; the host actor hears why.
#![allow(
    clippy::result_large_err,
    reason = "a failure carries its text, since init does not allocate; there is one at most"
)]

mod attributes;
mod confinement;
mod console;
mod copy_up;
mod devices;
mod identity;
mod mounts;
mod program;
mod protect;
mod root;

use plan::Plan;
use plan::step::{InitStep, Slot};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};

use crate::birth::Birth;
use crate::channel::{self, Message, Word};
use crate::failure::{Failure, Op};
use crate::fault::{self, Place};
use crate::network;
use crate::slots::Slots;
use crate::take;
use root::Root;

/// What init carries from step to step.
pub(crate) struct Init<'a> {
    plan: &'a Plan,
    slots: &'a Slots,
    /// The host actor; closed once `start` is awaited.
    channel: Option<OwnedFd>,
    /// The `start` command, once it came.
    starter: Option<OwnedFd>,
    /// cgroup.procs of the v1 hierarchies.
    procs: &'a [RawFd],
    /// A working directory that root may not enter, to be tried again as the user.
    cwd_denied: bool,
    /// Something that covers files, and something that covers directories, once attached.
    file_mask: Option<OwnedFd>,
    directory_mask: Option<OwnedFd>,
    /// Index into the candidates of FindProgram.
    program: usize,
    /// What the filter's load gave, until the host actor has it.
    listener: Option<OwnedFd>,
}

/// Runs the plan's init list. Never returns.
pub(crate) fn run(birth: &'static Birth, channel: OwnedFd) -> ! {
    let Birth { plan, slots, procs, recorder, .. } = birth;
    let _ = sys::signal::set_mask(sys::signal::SignalSet::EMPTY);
    sys::signal::reset_dispositions();
    // Modes given to mkdir and mknod are meant as they are; SetUmask comes before the program.
    rustix::process::umask(Mode::empty());
    let mut init = Init {
        plan,
        slots,
        channel: Some(channel),
        starter: None,
        procs,
        cwd_denied: false,
        file_mask: None,
        directory_mask: None,
        program: 0,
        listener: None,
    };
    for (number, step) in plan.init.iter().enumerate() {
        sys::defence::pause(|| step.label().name);
        let begun = recorder.as_ref().map(|recorder| recorder.begin(number));
        let result = match fault::strike(Place::Init, number) {
            Ok(()) => init.step(step),
            Err(errno) => Err(Failure::new("fault", errno)),
        };
        if let (Some(recorder), Some(begun)) = (recorder, begun) {
            recorder.end(begun, result.as_ref().map_err(|failure| failure.errno).copied());
        }
        if let Err(failure) = result {
            let listener = init.starter.as_ref().or(init.channel.as_ref());
            if let Some(listener) = listener {
                channel::report(listener, number, &failure);
            }
            break;
        }
    }
    sys::start::exit(1)
}

impl Init<'_> {
    fn step(&mut self, step: &InitStep) -> Result<(), Failure> {
        match step {
            InitStep::JoinCgroups => self.join_cgroups(),
            InitStep::RunOn(cpus) => attributes::run_on(cpus),
            InitStep::RunOnEveryCpu => {
                // A cgroup whose CPUs are all offline lets nobody run anywhere else; so does runc.
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
            InitStep::Undumpable => {
                set_dumpable_behavior(DumpableBehavior::NotDumpable).op("prctl PR_SET_DUMPABLE")
            }
            InitStep::CloneTree(tree) => self.take(tree.slot, take::tree(tree, self.slots)),
            InitStep::CloneDevice(device) => self.take(device.slot, take::device(device)),
            InitStep::BecomeRoot => identity::become_root(),
            InitStep::Unshare(kinds) => sys::ns::unshare(*kinds).op("unshare"),
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
            InitStep::MountFs(mount) => mounts::mount_fs(&self.root()?, mount),
            InitStep::MakeDevices { directory, nodes } => {
                devices::make(&self.root()?, directory, nodes)
            }
            InitStep::MakeLinks { directory, links } => {
                devices::link(&self.root()?, self.fd(Slot::PROC)?, directory, links)
            }
            InitStep::MakeDirectory { path } => self.root()?.make_directories(path).map(drop),
            InitStep::AwaitHooks => {
                self.announce(&Message::Hooks)?;
                self.expect(Word::HooksDone)
            }
            InitStep::RunHooks(hooks) => self.run_hooks(hooks),
            InitStep::PivotRoot => mounts::pivot_root(self.fd(Slot::ROOT)?),
            InitStep::EnterRoot => mounts::enter_root(self.fd(Slot::ROOT)?),
            InitStep::EnterRootOf { slot } => mounts::enter_root(self.fd(*slot)?),
            InitStep::ChangeRoot => mounts::change_root(self.fd(Slot::ROOT)?),
            InitStep::OpenConsole { size, uid, bind, carried } => {
                let socket = self.fd(Slot::CONSOLE)?;
                console::open(&self.root()?, socket, *size, *uid, *bind, *carried)
            }
            InitStep::SetMountAttr { path, recursive, attr } => {
                let place = self.root()?.open(path, OFlags::PATH)?;
                sys::mount::mount_setattr(place.as_fd(), *recursive, attr).op("mount_setattr")
            }
            InitStep::Reconfigure { path, parameters } => {
                mounts::reconfigure(&self.root()?, path, parameters)
            }
            InitStep::FreezeTmpfs { path } => mounts::freeze_tmpfs(&self.root()?, path),
            InitStep::WriteSysctl { path, value } => self.write_sysctl(path, value),
            InitStep::MaskPath { path, shared, context } => {
                self.mask(path, *shared, context.as_deref())
            }
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
                sys::mempolicy::set(*mode, nodes.words()).op("set_mempolicy")
            }
            InitStep::SetUmask(mask) => {
                rustix::process::umask(Mode::from_raw_mode(*mask));
                Ok(())
            }
            InitStep::LimitCapabilities { drop } => identity::limit_capabilities(*drop),
            InitStep::ChangeDirectory { path } => self.change_directory(path),
            InitStep::ChangeUser { uid, gid, groups } => {
                self.change_user(*uid, *gid, groups.as_deref())
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
            InitStep::FindProgram { candidates, .. } => {
                self.program = program::find(candidates)?;
                Ok(())
            }
            InitStep::CloseFds { .. } if is_off(Defence::CloseRange) => Ok(()),
            InitStep::CloseFds { from } => sys::exec::cloexec_from(*from).op("close_range"),
            InitStep::AnnounceReady => self.announce(&Message::Ready),
            InitStep::AwaitCommit => self.expect(Word::Commit),
            InitStep::ReleaseDescriptors { from } => self.release_descriptors(*from),
            InitStep::AwaitStart => self.await_start(),
            InitStep::LoadSeccomp { .. } => {
                let filter =
                    self.plan.filter.as_ref().ok_or(Failure::new("seccomp", Errno::INVAL))?;
                self.listener = sys::seccomp::load(&filter.filter, filter.flags).op("seccomp")?;
                Ok(())
            }
            InitStep::HandOverListener => self.hand_over_listener(),
            InitStep::Exec { argv, envp, home_of } => self.exec(argv, envp, *home_of),
        }
    }

    /// The descriptor in a slot.
    fn fd(&self, slot: Slot) -> Result<BorrowedFd<'_>, Failure> {
        self.slots.get(slot).ok_or(Failure::new("slot", Errno::BADF))
    }

    /// Keeps what was taken from the host. In memory of its own: the host actor's table would else have
    /// numbers that mean nothing there.
    fn take(&self, slot: Slot, taken: Result<OwnedFd, take::Failed>) -> Result<(), Failure> {
        let take::Failed { op, hint, errno } = match taken {
            Ok(fd) => {
                self.slots.set(slot, fd);
                return Ok(());
            }
            Err(failed) => failed,
        };
        let failure = Failure::new(op, errno);
        Err(if hint.is_empty() { failure } else { failure.with(hint.trim_start().as_bytes()) })
    }

    /// The container's root: the tree being assembled, or `/` where an existing container was joined.
    fn root(&self) -> Result<Root<'_>, Failure> {
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

    /// Each call here is under the filter. Our own copy has to go before anything else is asked about: a
    /// filter whose agent is gone answers ENOSYS only once nobody has the listener any more.
    fn hand_over_listener(&mut self) -> Result<(), Failure> {
        let listener = self.listener.take().ok_or(Failure::new("listener", Errno::BADF))?;
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?;
        channel::announce_listener(channel, listener.as_raw_fd()).op("channel")?;
        self.expect(Word::ListenerSent)
    }

    /// v1 has no birth into a cgroup: init moves itself, before it does anything that counts. The CPUs that
    /// whoever called dayfly was tied to are no business of the container's; as with runc, it is no error
    /// if they stay.
    fn join_cgroups(&self) -> Result<(), Failure> {
        for &procs in self.procs {
            // SAFETY: open in this process, which is still to execute its program.
            let procs = unsafe { BorrowedFd::borrow_raw(procs) };
            rustix::io::write(procs, b"0").map(drop).op("write cgroup.procs")?;
        }
        Ok(())
    }

    /// Leaves the channel open, and what `start` connects to. Slots and masks are not used from here on.
    fn release_descriptors(&mut self, from: u32) -> Result<(), Failure> {
        let channel = self.channel.as_ref().ok_or(Failure::new("channel", Errno::BADF))?.as_fd();
        let listener = self.slots.get(Slot::START).unwrap_or(channel);
        sys::exec::close_all_but(from, &[channel, listener]).op("close_range")?;
        core::mem::forget((self.file_mask.take(), self.directory_mask.take()));
        Ok(())
    }

    /// Waits for the `start` command. A connection alone is no start: `state` probes so whether
    /// someone waits here.
    fn await_start(&mut self) -> Result<(), Failure> {
        self.channel = None;
        loop {
            let listener = self.fd(Slot::START)?;
            let starter = match accept_with(listener, SocketFlags::CLOEXEC) {
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                result => result.op("accept")?,
            };
            // A `start` that was killed after its word has not started anything: whoever asks for
            // the state next must not be told "created" and then see it run.
            if channel::expect(&starter, Word::Start).is_ok() && channel::is_open(&starter) {
                let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
                self.starter = Some(starter);
                return Ok(());
            }
        }
    }

    fn run_hooks(&self, hooks: &plan::step::Hooks) -> Result<(), Failure> {
        let status = if hooks.kind == "startContainer" { "created" } else { "creating" };
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        crate::hooks::run_all(hooks, &self.plan.state, status, pid, None, None)
            .map_err(|failed| Failure::of_hook(hooks, &failed))
    }

    /// Writes below /proc/sys through the procfs that the host actor verified, never through the
    /// container's own (CVE-2025-52881).
    fn write_sysctl(&self, path: &core::ffi::CStr, value: &str) -> Result<(), Failure> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = if is_off(Defence::VerifyProc) {
            let proc = self.root()?.open(c"proc", OFlags::PATH)?;
            openat(proc, path, flags, Mode::empty()).op("openat")?
        } else {
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
            openat2(self.fd(Slot::PROC)?, path, flags, Mode::empty(), beneath).op("openat2")?
        };
        rustix::io::write(file, value.as_bytes()).map(drop).op("write")
    }

    fn exec(
        &self,
        argv: &sys::exec::StringArray,
        envp: &sys::exec::StringArray,
        home_of: Option<u32>,
    ) -> Result<(), Failure> {
        let candidates = self.plan.init.iter().find_map(|step| match step {
            InitStep::FindProgram { candidates, .. } => Some(candidates),
            _ => None,
        });
        let program = candidates.and_then(|candidates| candidates.get(self.program));
        let program = program.ok_or(Failure::new("exec", Errno::NOENT))?;
        let mut buffer = [0u8; program::LONGEST_HOME];
        let home = home_of.map(|uid| program::home(uid, &mut buffer));
        Err(Failure::new("exec", sys::exec::execve(program, argv, envp, home)))
    }
}
