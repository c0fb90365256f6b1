//! An existing container and its operations except `exec`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use cgroup::{Cgroup, resctrl};
use launch::{Start, Waiter};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::process::Pid;
use spec::resources::{Memory, Resources};
use sys::clone::CloneFlags;
use sys::{Context, Errno};
use trace::{PROGRAM, Phase};

use crate::directory::{self, START, path_in};
use crate::exit::EXIT_CODE;
use crate::notify::{self, Manager};
use crate::record::{self, Header, Record};
use crate::starting;
use crate::state::{State, Status};
use crate::time::Rfc3339;
use crate::{Error, Trace, Warn, hooks, owner, store};

/// Maximum time from the closing of a dying process's files to its exit, on a host whose CPUs are all busy.
const DYING: Duration = Duration::from_millis(200);
pub(crate) const SIGKILL: i32 = 9;

/// An existing container.
#[derive(Debug)]
pub struct Container {
    pub(crate) root: Rc<OwnedFd>,
    pub(crate) directory: OwnedFd,
    pub(crate) header: Header,
    pub(crate) record: Record,
    /// Whether the container was still being created when the record was read. In this case, the record contains no
    /// process.
    pub(crate) is_begun: bool,
    /// The seccomp program's bytes; empty if none.
    pub(crate) filter: Vec<u8>,
    /// The trace of the command that works on the container.
    pub(crate) trace: &'static Trace,
}

impl Container {
    /// Returns the container's id.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Returns the location of the container's cgroup, if the container has a cgroup of its own.
    pub fn cgroup_location(&self) -> Option<&cgroup::Location> {
        self.record.cgroup.as_ref()
    }

    /// Returns the container's group in the resctrl file system, if any.
    pub fn resctrl_group(&self) -> Option<&resctrl::Group> {
        self.record.resctrl.as_ref()
    }

    /// Returns the pid of init, even if init has exited. `None` if the container is still being created.
    pub fn pid(&self) -> Option<Pid> {
        self.header.process.map(|(pid, _)| pid)
    }

    /// Returns the pid and a pidfd of init, if init is alive and can be opened.
    pub(crate) fn init(&self) -> Option<(Pid, OwnedFd)> {
        self.living_init().ok().flatten()
    }

    /// Returns the pid and a pidfd of init, if init is alive. Decisions that follow from the death of init need this
    /// function: an init that cannot be opened is not dead.
    ///
    /// # Errors
    /// Those of pidfd_open(2), such as EMFILE.
    pub(crate) fn living_init(&self) -> Result<Option<(Pid, OwnedFd)>, sys::Error> {
        store::find_process(self.header.process)
    }

    /// Returns the error for a container that commands cannot see yet, because its creation is not complete.
    pub(crate) fn not_found(&self) -> Error {
        Error::NotFound(self.id().into())
    }

    /// Returns the container's status. The record is checked against the kernel at each call, so the status is right
    /// even if a process was killed meanwhile.
    ///
    /// # Errors
    /// [`Error::NotFound`] while the container is being created: as with runc and crun, a container does not exist
    /// before it is complete, so that any visible container can be started. Also fails if the freezer's state cannot be
    /// read.
    pub fn status(&self) -> Result<Status, Error> {
        match self.unfinished_status()? {
            Status::Creating => Err(self.not_found()),
            status => Ok(status),
        }
    }

    /// Returns the status; unlike `status`, returns `Status::Creating` for an incomplete container.
    pub(crate) fn unfinished_status(&self) -> Result<Status, Error> {
        if self.living_init()?.is_none() {
            return Ok(if self.is_begun { Status::Creating } else { Status::Stopped });
        }
        if directory::is_locked(self.directory.as_fd()) {
            return Ok(Status::Creating);
        }
        match launch::waiter(&path_in(self.directory.as_fd(), START)) {
            Waiter::Waiting if !self.is_frozen()? => return Ok(Status::Created),
            Waiter::Waiting => return Ok(Status::Paused),
            // A killed process closes its sockets before its exit is visible.
            Waiter::Gone if self.ends_within(DYING) => return Ok(Status::Stopped),
            Waiter::Gone | Waiter::None => {}
        }
        Ok(if self.is_frozen()? { Status::Paused } else { Status::Running })
    }

    /// Opens the network namespace of a running container.
    ///
    /// # Errors
    /// [`Error::NotRunning`] if the container is stopped.
    pub fn network(&self) -> Result<OwnedFd, Error> {
        self.open_of_init("ns/net", OFlags::RDONLY)
    }

    /// Opens a file of init's directory in /proc.
    ///
    /// # Errors
    /// [`Error::NotRunning`] if the container is stopped.
    pub(crate) fn open_of_init(&self, file: &str, flags: OFlags) -> Result<OwnedFd, Error> {
        let (pid, pidfd) = match (self.status()?, self.init()) {
            (Status::Stopped, _) | (_, None) => return Err(Error::NotRunning),
            (_, Some(init)) => init,
        };
        let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
        let flags = flags | OFlags::CLOEXEC;
        let opened = openat(CWD, path.as_str(), flags, Mode::empty()).context("open", path)?;
        // If init exited before the file was opened, the pid in the file's path may already have belonged to another
        // process.
        match sys::signal::send(pidfd.as_fd(), 0) {
            Ok(()) => Ok(opened),
            Err(_) => Err(Error::NotRunning),
        }
    }

    /// Returns whether the root filesystem consists of layers, whose removal requires privileges.
    pub fn has_layers(&self) -> bool {
        self.record.layered.is_some()
    }

    fn is_frozen(&self) -> Result<bool, Error> {
        let Some(location) = &self.record.cgroup else { return Ok(false) };
        self.trace.point("read freezer of", self.id())?;
        starting::is_frozen(location)
    }

    /// Returns the container's state, as `state` and `list` print it.
    ///
    /// # Errors
    /// Those of [`Container::status`].
    pub fn state(&self) -> Result<State, Error> {
        let status = self.status()?;
        let record = &self.record;
        let pid = match (status, self.header.process) {
            (Status::Stopped, _) | (_, None) => 0,
            (_, Some((pid, _))) => pid.as_raw_nonzero().get(),
        };
        let mut annotations: BTreeMap<_, _> = record.annotations.iter().cloned().collect();
        if status == Status::Stopped
            && let Some(code) = self.exit_code()
        {
            annotations.insert(EXIT_CODE.into(), code);
        }
        Ok(State {
            oci_version: spec::VERSION.to_string(),
            id: record.id.clone(),
            pid,
            status,
            bundle: record.bundle.clone(),
            rootfs: record.rootfs.clone(),
            created: Rfc3339(record.created).to_string(),
            annotations,
            owner: owner::name(self.owner()),
        })
    }

    /// Returns the uid of the container's creator in the user namespace of this process. A creator without root's
    /// rights on the host may have recorded its uid in another user namespace, so for such a creator the owner of the
    /// container's directory is returned.
    fn owner(&self) -> u32 {
        match self.record.confined {
            true => fstat(&self.directory).map_or(self.record.owner, |stat| stat.st_uid),
            false => self.record.owner,
        }
    }

    /// Runs the program of a created container. If NOTIFY_SOCKET in `env` names a service manager, the service manager
    /// is notified of the container's readiness before this function returns.
    ///
    /// # Errors
    /// If the container's status is not `created` (with runc's message); if execve(2) fails; if the service manager is
    /// missing now, or was missing when the container was created. If a startContainer or poststart hook fails, the
    /// container is killed and removed (runtime-spec 1.3, runtime.md, "Lifecycle", steps 7, 9 and 12). Poststop hooks
    /// that fail during this removal cause warnings.
    pub fn start(self, env: sys::Args, warn: Warn<'_>) -> Result<(), Error> {
        match self.try_start(env) {
            Err(error) if error.is_of_hook() => {
                // An error of the removal is ignored: the hook's failure is reported.
                let _ = self.remove(true, warn);
                Err(error)
            }
            result => result,
        }
    }

    fn try_start(&self, env: sys::Args) -> Result<(), Error> {
        let Some(manager) = Manager::of(env) else { return self.start_program() };
        let init = match (self.status()?, self.init()) {
            (Status::Created, Some(init)) => init,
            _ => return self.start_program(),
        };
        let listener = notify::listen(self.directory.as_fd(), self.trace)?;
        self.start_program()?;
        let (pid, pidfd) = init;
        self.trace.wait(Phase::Sync, "await readiness", "", PROGRAM, || {
            Ok(manager.await_ready(&listener, pid, &pidfd)?)
        })
    }

    fn start_program(&self) -> Result<(), Error> {
        if directory::is_locked(self.directory.as_fd()) {
            return Err(self.not_found());
        }
        // The status is not checked first: the attempt to start init shows whether init is waiting.
        let start = self.start_waiting().map_err(|error| self.explain_start(error))?;
        if start != Start::Runs {
            let status = if start == Start::Frozen { Status::Paused } else { self.status()? };
            return Err(Error::CannotStart(status));
        }
        let program_since = self.trace.clock();
        self.trace.work(Phase::Configuration, "unlink", START, || {
            starting::remove_socket(self.directory.as_fd())
        })?;
        hooks::after_start(self)?;
        if let Some((pid, _)) = self.header.process {
            self.trace.lived(
                PROGRAM,
                pid,
                Phase::Program,
                "goes on",
                (program_since, self.trace.clock()),
            );
        }
        Ok(())
    }

    /// Returns the error to report for a failed start. Waits a short time for the exit of an init that has reported a
    /// failure: it exits then, and a `delete` that follows must find the container stopped. If another call has started
    /// the container meanwhile, init has closed this call's connection unread, as it does when it is killed.
    pub fn explain_start(&self, error: Error) -> Error {
        match &error {
            Error::Launch(
                launch::Error::Init { .. }
                | launch::Error::Exec { .. }
                | launch::Error::Program { .. }
                | launch::Error::Hook(_),
            ) => {
                let _ = self.ends_within(DYING);
                error
            }
            Error::Launch(launch::Error::Died(_)) => match self.status() {
                Ok(status @ (Status::Running | Status::Paused)) => Error::CannotStart(status),
                _ => error,
            },
            _ => error,
        }
    }

    fn start_waiting(&self) -> Result<Start, Error> {
        let path = path_in(self.directory.as_fd(), START);
        self.trace.wait(Phase::Sync, "await exec", "", plan::INIT, || {
            launch::start_waiting(&path, || self.is_frozen())
        })
    }

    /// Sends a signal to init. In a container without a PID namespace of its own, SIGKILL goes to every process, since
    /// the other processes would survive init.
    ///
    /// # Errors
    /// [`Error::NotRunning`] if the container has no process; an error if the signal is invalid.
    pub fn kill(&self, signal: i32) -> Result<(), Error> {
        let everyone = signal == SIGKILL && !self.owns(CloneFlags::NEWPID);
        let whom = if everyone { "all" } else { "init" };
        self.trace.work(Phase::Shutdown, "signal", whom, || self.send(signal, everyone))
    }

    fn send(&self, signal: i32, everyone: bool) -> Result<(), Error> {
        match &self.record.cgroup {
            Some(location) if everyone => match Cgroup::open(location) {
                Ok(cgroup) => return Ok(cgroup.kill_all(signal)?),
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error.into()),
            },
            _ => {}
        }
        let none = || if self.is_begun { self.not_found() } else { Error::NotRunning };
        let (pid, pidfd) = self.init().ok_or_else(none)?;
        match sys::signal::send(pidfd.as_fd(), signal) {
            Err(Errno::SRCH) => return Err(Error::NotRunning),
            Err(errno) => {
                let object = format!("signal {signal} to {}", pid.as_raw_nonzero());
                return Err(sys::Error::new("kill", object, errno).into());
            }
            Ok(()) => {}
        }
        // A frozen v1 cgroup delays even SIGKILL.
        if signal == SIGKILL && self.is_frozen()? {
            self.resume_quietly();
        }
        Ok(())
    }

    /// Returns the error to report if init exited without a message: `Stillborn` if the kernel may have killed init
    /// because init was created in a cgroup after a write to cgroup.kill, otherwise `error` unchanged.
    #[cold]
    pub(crate) fn reason_of(
        &self,
        error: launch::Error,
        fast_paths: plan::FastPaths,
    ) -> launch::Error {
        let suspect = matches!(error, launch::Error::Died(_))
            && fast_paths.contains(plan::FastPaths::CLONE_INTO_CGROUP);
        let cgroup = self.record.cgroup.as_ref().filter(|_| suspect);
        let cgroup = cgroup.and_then(|location| Cgroup::open(location).ok());
        match cgroup.as_ref().and_then(Cgroup::dir_fd) {
            Some(directory) if launch::kills_newborn(directory) => launch::Error::Stillborn(None),
            _ => error,
        }
    }

    pub(crate) fn owns(&self, kind: CloneFlags) -> bool {
        CloneFlags::from_bits_retain(self.record.own_namespaces).contains(kind)
    }

    /// Returns whether init has exited or exits within `limit`.
    pub fn ends_within(&self, limit: Duration) -> bool {
        self.living_init().is_ok_and(|init| {
            init.is_none_or(|(_, pidfd)| sys::pidfd::wait_for_exit(&pidfd, limit))
        })
    }

    /// Thaws the container if it may be frozen.
    pub(crate) fn resume_quietly(&self) {
        if let Some(cgroup) = self.record.cgroup.as_ref().and_then(|l| Cgroup::open(l).ok()) {
            let _ = cgroup.thaw_all();
        }
    }

    /// Opens the container's cgroup.
    ///
    /// # Errors
    /// If the container has none of its own; if it is gone.
    pub fn cgroup(&self) -> Result<Cgroup, Error> {
        match &self.record.cgroup {
            Some(location) => Ok(Cgroup::open(location)?),
            None => Err(Error::text("the container has no cgroup of its own")),
        }
    }

    /// Freezes all processes.
    ///
    /// # Errors
    /// If the container is not running or already paused; runc has one message for both.
    pub fn pause(&self) -> Result<(), Error> {
        match self.status()? {
            Status::Running | Status::Created => {
                crate::checkpoint::await_pages(self)?;
                Ok(self.cgroup()?.freeze()?)
            }
            _ => Err(Error::NotRunning),
        }
    }

    /// Thaws a paused container.
    ///
    /// # Errors
    /// If the container is not paused.
    pub fn resume(&self) -> Result<(), Error> {
        match self.status()? {
            Status::Paused => Ok(self.cgroup()?.thaw()?),
            _ => Err(Error::text("container not paused")),
        }
    }

    /// Changes limits; limits that `resources` omits stay unchanged.
    ///
    /// # Errors
    /// If the container has no process; if a value is invalid.
    pub fn update(&self, resources: &Resources) -> Result<(), Error> {
        if self.status()? == Status::Stopped {
            return Err(Error::NotRunning);
        }
        // Engines send all resources of a configuration, including the device rules. The device rules are ignored,
        // because they lack the default rules of every container, and the rules that hooks have added since.
        let mut resources = Resources { devices: Vec::new(), ..resources.clone() };
        let asked = resources.memory.as_mut().and_then(|memory| self.recall_swap(memory));
        self.cgroup()?.set(&resources)?;
        match asked {
            Some(swap) => Ok(record::note_swap(self.directory.as_fd(), self.header, swap)?),
            None => Ok(()),
        }
    }

    /// On cgroup v2, memory.swap.max is the limit on the sum of memory and swap, minus the memory limit. So if an
    /// update changes only the memory limit, this function adds to `memory` the limit on the sum that was requested
    /// last. If the update changes the limit on the sum, returns the new limit, for the record.
    fn recall_swap(&self, memory: &mut Memory) -> Option<i64> {
        match (memory.limit.unwrap_or(0), memory.swap.unwrap_or(0)) {
            // No memory limit implies no swap limit.
            (-1, 0) => Some(0),
            (0, 0) => None,
            (_, 0) => {
                let is_unified =
                    self.record.cgroup.as_ref().is_some_and(|place| place.is_unified());
                memory.swap = Some(self.header.swap).filter(|swap| is_unified && *swap != 0);
                None
            }
            (_, swap) => Some(swap),
        }
    }

    /// Changes cache (`L3:…`) and memory bandwidth (`MB:…`) limits of `linux.intelRdt`.
    ///
    /// # Errors
    /// If the host or the container does not support such limits (with runc's message); if the kernel refuses them.
    pub fn update_rdt(&self, cache: Option<&str>, bandwidth: Option<&str>) -> Result<(), Error> {
        let is_missing = |resource| !resctrl::is_enabled(resource);
        if cache.is_some() && is_missing("L3") {
            return Err(Error::text("Intel RDT/CAT: l3 cache schema is not enabled"));
        }
        if bandwidth.is_some() && is_missing("MB") {
            return Err(Error::text("Intel RDT/MBA: memory bandwidth schema is not enabled"));
        }
        let lines: Vec<&str> = cache.into_iter().chain(bandwidth).collect();
        match &self.record.resctrl {
            _ if lines.is_empty() => Ok(()),
            Some(group) => Ok(group.update(&lines)?),
            None => {
                Err(Error::text("updating a non-existent Intel RDT configuration is not supported"))
            }
        }
    }

    /// Returns the pids of all processes in the container, as seen in the caller's PID namespace.
    ///
    /// # Errors
    /// If the container has no cgroup, through which its processes are found; the errors of [`Container::status`].
    pub fn pids(&self) -> Result<Vec<i32>, Error> {
        self.status()?;
        let pids = self.cgroup()?.all_pids()?;
        Ok(pids.iter().map(|pid| pid.as_raw_nonzero().get()).collect())
    }
}
