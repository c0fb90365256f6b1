//! The parent: prepares resources for init, creates init, and exchanges messages with init until exec.

mod attempt;
mod cgroups;
mod clone;
mod fallback;
mod hear;
mod namespaces;
mod nodes;
mod outside;
mod pins;

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::AtomicBool;

use cgroup::{Cgroup, ScopeJob, ScopeRequest};
use init::{filesystem, take};
use plan::step::{ParentStep, SecurityModule, Slot};
use plan::{Labelled, Plan, purpose};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, openat, statfs};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use sys::Context;
use sys::clone::{Child, CloneFlags};
use sys::sched::Affinity;
use trace::Tracer;

use crate::holder::Holder;
use crate::network::Network;
use crate::{Error, id_helper};
use init::OwnedSlots;
use init::channel::{self, Message, Word};
use init::take::OUT_OF_ORDER;

use crate::error::words;
use hear::unexpected;
pub(crate) use hear::{await_message, not_executed};

const PROC_SUPER_MAGIC: i64 = 0x9fa0;

/// A launch in progress.
#[derive(Debug)]
pub(crate) struct Parent<'a> {
    pub plan: &'static Plan,
    pub slots: OwnedSlots,
    pub tracer: &'a Tracer,
    /// The working directory of hooks.
    pub bundle: &'a CStr,
    /// The cgroup. It is removed when dropped, unless the launch succeeds.
    pub cgroup: Option<Cgroup>,
    /// The process for which systemd creates the cgroup's scope.
    pub holder: Option<Holder>,
    /// The cgroup's scope, if systemd was asked for it after its directory was made.
    pub scope: Option<ScopeJob>,
    /// The request for a user's early scope, until init exists.
    pub request: Option<ScopeRequest<'static>>,
    /// Whether init was created outside its cgroup, although the plan requires a clone into the cgroup.
    pub is_not_born_inside: bool,
    /// Whether init has begun to run; always false if it does not share this process's memory.
    pub begun: Option<&'static AtomicBool>,
    pub channel: Option<OwnedFd>,
    pub child: Option<Child>,
    /// Init's network namespace.
    pub network: Option<Network>,
    /// This process's own PID namespace, while its children are created in another one.
    pub own_pid_namespace: Option<OwnedFd>,
    /// The namespaces of other types that this process has left for the clone, and to which it returns.
    pub own_namespaces: Vec<(OwnedFd, CloneFlags)>,
    /// The file system of the device nodes. The kernel waits for an RCU grace period when its last descriptor is closed.
    /// Before the clone, nobody would do anything in that time, which is some 0.1 ms. Later, init has a descriptor, too.
    pub nodes: Option<OwnedFd>,
    /// Files through which init joins its cgroup, opened before the parent enters another cgroup namespace.
    pub entrances: Option<Vec<OwnedFd>>,
    /// This process's CPU affinity before it was set to init's initial CPUs.
    pub own_cpus: Option<Box<Affinity>>,
    /// The open file of this process's OOM score, and the score before it was set to init's.
    pub own_oom_score: Option<(OwnedFd, Vec<u8>)>,
    /// The process that a template has forked to run as the program.
    pub forked: Option<OwnedFd>,
    /// The time at which the parent noticed that init had executed its program, for the trace.
    pub program_since: u64,
    /// The root filesystem, if it is assembled from layers.
    pub rootfs: Option<rootfs::Assembly<'static>>,
    /// The copies of mount trees that may contain pinned mount namespaces.
    pub copies: pins::Copies,
}

impl<'a> Parent<'a> {
    /// Returns a launch that has not begun.
    pub(crate) fn new(
        plan: &'static Plan,
        slots: OwnedSlots,
        tracer: &'a Tracer,
        bundle: &'a CStr,
    ) -> Self {
        Self {
            plan,
            slots,
            tracer,
            bundle,
            cgroup: None,
            holder: None,
            scope: None,
            request: None,
            is_not_born_inside: false,
            begun: None,
            channel: None,
            child: None,
            network: None,
            own_pid_namespace: None,
            own_namespaces: Vec::new(),
            nodes: None,
            entrances: None,
            own_cpus: None,
            own_oom_score: None,
            forked: None,
            program_since: 0,
            rootfs: None,
            copies: pins::Copies::default(),
        }
    }
}

impl Parent<'_> {
    /// Returns the reason of a failure: that which init has reported, if any, or else `error`.
    #[cold]
    pub(crate) fn reason_of(&self, error: Error) -> Error {
        let heard = match (&error, &self.channel) {
            (Error::Parent(_) | Error::Cgroup(_) | Error::Resctrl(_), Some(channel)) => {
                channel::heard_failure(channel)
            }
            _ => None,
        };
        match heard {
            Some(failed) => {
                unexpected(self.plan, failed, &Message::Ready, || Error::death(self.plan, None))
            }
            None => error,
        }
    }

    /// Adds to the error of a step the mount that it was for.
    #[cold]
    pub(crate) fn told_of_step(&self, step: &ParentStep, error: Error) -> Error {
        match error {
            Error::Parent(error) if error.op != OUT_OF_ORDER => {
                match purpose::of_parent(self.plan, step) {
                    Some(mount) => Error::Mount { mount, error },
                    None => error.into(),
                }
            }
            error => error,
        }
    }

    /// Runs one step.
    pub(crate) fn step(&mut self, step: &'static ParentStep) -> Result<(), Error> {
        match step {
            ParentStep::Undumpable => set_dumpable_behavior(DumpableBehavior::NotDumpable)
                .context("prctl", "PR_SET_DUMPABLE")?,
            ParentStep::OpenProc => self.slots.set(Slot::PROC, open_proc()?),
            ParentStep::RequireModule(module) => require(*module)?,
            ParentStep::MakeUserNamespace { slot, maps } => {
                let proc = self.slots.get(Slot::PROC).ok_or_else(no_child)?;
                let made = sys::user_namespace::make(proc, &maps.uid_map, &maps.gid_map)?;
                self.slots.set(*slot, made);
            }
            ParentStep::CloneTree(tree) => {
                let taken = self.take_tree(tree)?;
                self.keep_taken(tree.slot, Some(tree), taken);
            }
            ParentStep::LeaveOutPins => self.leave_out_pins()?,
            ParentStep::MakeTree { slot, filesystem, user_namespace } => {
                let made = filesystem::make(filesystem, None).map_err(|failure| {
                    let object = format!("{}: {}", step.label().object, words(&failure));
                    sys::Error::new("mount", object, failure.errno)
                })?;
                if let Some(slot) = user_namespace {
                    let user_namespace = self.slots.get(*slot).ok_or_else(no_child)?;
                    rootfs::map_ids(made.as_fd(), user_namespace, false)
                        .context("map ids of", step.label().object)?;
                }
                self.slots.set(*slot, made);
            }
            ParentStep::MapLayers { user_namespace } => {
                let user_namespace = match user_namespace {
                    Some(slot) => Some(self.slots.get(*slot).ok_or_else(no_child)?),
                    None => None,
                };
                assembly(self.plan, &mut self.rootfs)?.map_layers(user_namespace)?;
            }
            ParentStep::OpenLayers => self.rootfs()?.open_layers()?,
            ParentStep::MakeUpper => self.rootfs()?.make_upper()?,
            ParentStep::AssembleRootfs => {
                let tree = self.rootfs()?.assemble()?;
                self.slots.set(Slot::ROOT, tree);
            }
            ParentStep::DetachLayers => self.rootfs()?.detach_layers()?,
            ParentStep::CopyLayers => {
                let tree = self.rootfs()?.copy_layers()?;
                self.slots.set(Slot::ROOT, tree);
            }
            ParentStep::CloneDevice(device) => {
                let taken = take::device(device).map_err(taken_from(device.path))?;
                self.keep_taken(device.slot, None, taken);
            }
            ParentStep::MakeNodes(nodes) => self.make_nodes(nodes)?,
            ParentStep::OpenNamespace { slot, path, foreign, .. } => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let fd = openat(CWD, path, flags, Mode::empty())
                    .context("open namespace", path.to_string_lossy())?;
                if let Some((own, refusal)) = foreign {
                    self.refuse_own(&fd, own, refusal)?;
                }
                self.slots.set(*slot, fd);
            }
            ParentStep::OpenRoot { slot, init } => {
                self.slots.set(*slot, self.open_root_of(*init)?);
            }
            ParentStep::ConnectConsole { path } => {
                // The caller may have passed a connection from an earlier attempt.
                if self.slots.get(Slot::CONSOLE).is_none() {
                    let socket = sys::fdpass::dial(path.as_c_str());
                    let socket = socket.context("connect", path.to_string_lossy())?;
                    self.slots.set(Slot::CONSOLE, socket);
                }
            }
            ParentStep::CreateCgroup => self.enter_cgroup()?,
            ParentStep::EnterPidNamespace { slot } => self.enter_pid_namespace(*slot)?,
            ParentStep::EnterNamespace { slot, kind } => self.enter_namespace(*slot, *kind)?,
            ParentStep::RunOn(cpus) => self.run_on(cpus)?,
            ParentStep::Clone { .. } => self.clone_init()?,
            ParentStep::ReleaseScope { born_inside } => self.release_scope(*born_inside)?,
            ParentStep::AwaitScope(state) => self.await_scope(*state)?,
            ParentStep::MakeNetwork => self.make_network()?,
            ParentStep::MoveNetDevices { namespace, devices } => {
                self.move_net_devices(*namespace, devices)?;
            }
            ParentStep::MapIds(maps) => self.map_ids(maps)?,
            ParentStep::MapOwnId(maps) => {
                self.write_proc("setgroups", "deny")?;
                self.map_ids(maps)?;
            }
            ParentStep::MapIdsThrough(helpers) => {
                let child = self.child.as_ref().ok_or_else(no_child)?;
                id_helper::map_ids(child.pid, helpers)?;
            }
            ParentStep::VerifyIds(maps) => self.verify_ids(maps)?,
            ParentStep::LimitResources(limits) => self.limit_resources(limits)?,
            ParentStep::Admit => self.say(Word::Admitted)?,
            ParentStep::AdjustOomScore(score) => self.adjust_oom_score(*score)?,
            ParentStep::InheritOomScore(score) => self.take_on_oom_score(*score)?,
            ParentStep::RestoreOomScore => self.restore_oom_score()?,
            ParentStep::EnterResctrl => self.enter_resctrl()?,
            // The caller does it: `Born::record`.
            ParentStep::RecordBirth => {}
            ParentStep::RunHooks => self.run_hooks()?,
            ParentStep::SendListener(agent) => self.send_listener(agent)?,
            ParentStep::AwaitReady => self.await_message(&Message::Ready)?,
            ParentStep::Commit => match self.forked.take() {
                None => self.say(Word::Commit)?,
                Some(program) => self.say_forked(&program)?,
            },
            ParentStep::AwaitExec => {
                self.await_message(&Message::Closed)?;
                self.program_since = self.tracer.clock();
            }
        }
        Ok(())
    }

    /// Returns the root filesystem being assembled.
    fn rootfs(&mut self) -> Result<&mut rootfs::Assembly<'static>, Error> {
        assembly(self.plan, &mut self.rootfs)
    }

    /// Returns a duplicate of the connection to the console socket, if a step of the plan made this connection.
    #[cold]
    pub(crate) fn connected_console(&self) -> Option<OwnedFd> {
        let mut steps = self.plan.parent.iter();
        let connects = steps.any(|step| matches!(step, ParentStep::ConnectConsole { .. }));
        let console = self.slots.get(Slot::CONSOLE).filter(|_| connects)?;
        rustix::io::fcntl_dupfd_cloexec(console, 3).ok()
    }
}

fn assembly<'r>(
    plan: &'static Plan,
    rootfs: &'r mut Option<rootfs::Assembly<'static>>,
) -> Result<&'r mut rootfs::Assembly<'static>, Error> {
    let recipe = plan.rootfs.as_deref().ok_or_else(no_child)?;
    Ok(rootfs.get_or_insert_with(|| rootfs::Assembly::new(recipe)))
}

/// Checks that the host uses a security module, by runc's rules. AppArmor must be enabled. For SELinux, selinuxfs must
/// be mounted read-write and a policy must be loaded; without a policy, this process's label is `kernel`.
fn require(module: SecurityModule) -> Result<(), Error> {
    const SELINUX_MAGIC: i64 = 0xf97c_ff8c;
    const ST_RDONLY: i64 = 1;
    let present = match module {
        SecurityModule::AppArmor => sys::fs::read_text(c"/sys/module/apparmor/parameters/enabled")
            .is_ok_and(|enabled| enabled.starts_with('Y')),
        SecurityModule::SeLinux => {
            let is_there =
                |fs: rustix::fs::StatFs| fs.f_type == SELINUX_MAGIC && fs.f_flags & ST_RDONLY == 0;
            let has_policy = || {
                sys::fs::read_text(c"/proc/self/attr/current")
                    .is_ok_and(|own| own.trim_end_matches(['\0', '\n']) != "kernel")
            };
            statfs(c"/sys/fs/selinux").is_ok_and(is_there) && has_policy()
        }
    };
    if present { Ok(()) } else { Err(Error::NoModule(module)) }
}

/// Returns the error of a step that needs a process or descriptor which no earlier step has created. [`Error::of_plan`]
/// then finds the rule that the plan breaks.
pub(crate) fn no_child() -> sys::Error {
    sys::Error::new(OUT_OF_ORDER, "launch", Errno::CHILD)
}

/// Opens the host's procfs, verified by filesystem type and the inode of its root, so that a bind mount over /proc
/// cannot redirect our writes.
fn open_proc() -> Result<OwnedFd, sys::Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, c"/proc", flags, Mode::empty()).context("open", "/proc")?;
    let kind = fstatfs(&fd).context("fstatfs", "/proc")?.f_type;
    let inode = fstat(&fd).context("fstat", "/proc")?.st_ino;
    if kind == PROC_SUPER_MAGIC && inode == 1 {
        return Ok(fd);
    }
    Err(sys::Error::new("open", "/proc (not the root of a procfs)", Errno::NODEV))
}

/// Returns a function that converts an error of `init::take`, and adds the path `source` to it.
fn taken_from(source: &CStr) -> impl FnOnce(take::Failed) -> sys::Error {
    move |take::Failed { op, hint, errno }| {
        sys::Error::new(op, format!("{}{hint}", source.to_string_lossy()), errno)
    }
}
