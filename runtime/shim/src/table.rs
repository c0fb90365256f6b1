//! The tables of the loop: containers, their processes, and starts.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::Starting;
use proto::messages::events::{TaskCreate, TaskIO};
use proto::messages::mount::Mount;
use proto::messages::options::Options;
use proto::messages::time::Timestamp;
use proto::ttrpc::Status;
use rustix::fd::OwnedFd;
use rustix::process::WaitStatus;
use rustix::time::{ClockId, clock_gettime};
use sys::wait::Deadline;

use crate::caller::Caller;
use crate::io::Streams;
use crate::oom;

/// A point in time: CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Time {
    seconds: i64,
    nanos: i32,
}

impl Time {
    /// Returns the current time.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self { seconds: now.tv_sec, nanos: i32::try_from(now.tv_nsec).unwrap_or_default() }
    }

    /// Converts nanoseconds since 1970.
    pub fn of_nanoseconds(count: u64) -> Self {
        let nanos = i32::try_from(count % 1_000_000_000).unwrap_or_default();
        Self { seconds: (count / 1_000_000_000).cast_signed(), nanos }
    }

    /// Returns nanoseconds since 1970.
    pub fn nanoseconds(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000) + u64::from(self.nanos.unsigned_abs())
    }

    /// Converts the time to containerd's message.
    pub fn to_message(self) -> Timestamp {
        Timestamp { seconds: self.seconds, nanos: self.nanos }
    }
}

/// The exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exit {
    /// The exit status of the process, or 128 plus the signal.
    pub status: u32,
    /// The time at which the process exited.
    pub at: Time,
}

impl Exit {
    /// Returns the exit of a process at the current time, from the status of waitpid(2).
    pub fn now(status: WaitStatus) -> Self {
        let code = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code.unsigned_abs() & 0xff,
            (None, Some(signal)) => 128 + signal.unsigned_abs(),
            (None, None) => 255,
        };
        Self { status: code, at: Time::now() }
    }
}

/// The state of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A worker is creating the process.
    #[default]
    Creating,
    /// The process waits for Start.
    Created,
    /// The process is being started.
    Starting,
    /// The process is running.
    Running,
    /// The process has exited, and the exit was reported.
    Stopped,
}

/// A container's first process, or one prepared by Exec.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// The key of the process, never reused.
    pub key: u32,
    /// The exec id; empty for the first process.
    pub exec_id: String,
    pub stage: Stage,
    /// The pid; 0 before the process exists.
    pub pid: u32,
    pub pidfd: Option<OwnedFd>,
    /// The exit, from the moment it is known until it is reported. The report may have to wait for a pending start, or
    /// for processes whose exits must be reported first.
    pub ended: Option<Exit>,
    /// The exit, after it was reported.
    pub exit: Option<Exit>,
    pub stdio: TaskIO,
    pub streams: Streams,
    /// The socket to which the process sends the master of its terminal.
    pub console: Option<OwnedFd>,
    /// The `process` object of the Exec call, in JSON; empty for the container's first process.
    pub document: Vec<u8>,
    /// The callers that wait for the exit of the process.
    pub waiters: Vec<Caller>,
}

impl Process {
    /// Returns a process that does not exist yet.
    pub fn new(key: u32, exec_id: &str, stdio: TaskIO) -> Self {
        Self { key, exec_id: exec_id.to_string(), stdio, ..Self::default() }
    }

    /// Returns whether the process exists and has not exited.
    pub fn is_alive(&self) -> bool {
        self.pid != 0 && self.ended.is_none() && self.exit.is_none()
    }
}

/// The location of a container's state.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The state root.
    pub root: String,
    /// The container's id.
    pub id: String,
}

/// A container.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub id: String,
    pub bundle: String,
    pub root: String,
    pub options: Options,
    /// The processes of the container; the first one is init.
    pub processes: Vec<Process>,
    /// Whether all processes of the container end with init, because the container has its own PID namespace. Known
    /// once the container is created.
    pub owns_pid_namespace: bool,
    /// Whether Start needs no worker: the container has no startContainer or poststart hooks, and no trace is
    /// requested. Known once the container is created.
    pub starts_plainly: bool,
    pub is_paused: bool,
    pub cgroup: Option<cgroup::Location>,
    pub oom: Option<oom::Watch>,
    /// The event to publish once the container is created.
    pub created: Option<TaskCreate>,
    /// The progress of killing the processes that the kernel does not kill when init exits.
    pub clearing: Clearing,
    /// The checkpoint from which Start restores the container; `None` for a container that Create
    /// creates.
    pub restoration: Option<Restoration>,
    /// Whether a killed worker has left parts of this container that were not removed.
    pub is_unswept: bool,
    /// The callers that have deleted the container before its creation has ended. They are answered when nothing is left
    /// of it.
    pub deleters: Vec<Caller>,
}

/// A checkpoint from which Start restores a container.
#[derive(Debug, Clone)]
pub(crate) struct Restoration {
    /// The directory of criu's images.
    pub images: String,
    /// The mounts of the root filesystem; empty if it is already mounted.
    pub rootfs: Vec<Mount>,
}

/// The progress of killing those processes of a container that the kernel does not kill when init
/// exits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Clearing {
    /// The killing has not begun.
    #[default]
    Due,
    /// A worker is killing the processes.
    UnderWay,
    /// The processes were killed.
    Done,
}

impl Task {
    /// Returns the container's first process, which always exists.
    pub fn init(&self) -> &Process {
        &self.processes[0]
    }

    /// Returns the location of the container's state.
    pub fn place(&self) -> Place {
        Place { root: self.root.clone(), id: self.id.clone() }
    }
}

/// All containers of the pod.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<Task>);

impl Tasks {
    /// Returns whether there are no containers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a container.
    ///
    /// # Errors
    /// AlreadyExists.
    pub fn add(&mut self, task: Task) -> Result<(), Status> {
        if self.task(&task.id).is_ok() {
            return Err(Status::already_exists(format!("task {}", task.id)));
        }
        self.0.push(task);
        Ok(())
    }

    /// Removes a container.
    pub fn remove(&mut self, key: u32) -> Option<Task> {
        let at = self.0.iter().position(|task| task.init().key == key)?;
        Some(self.0.remove(at))
    }

    /// Removes a process, unless it is the first process of a container.
    pub fn remove_process(&mut self, key: u32) -> Option<Process> {
        for task in &mut self.0 {
            let at = task.processes.iter().position(|process| process.key == key);
            if let Some(at) = at.filter(|at| *at > 0) {
                return Some(task.processes.remove(at));
            }
        }
        None
    }

    /// Iterates over all callers that wait for the exit of a process.
    pub fn waiters(&self) -> impl Iterator<Item = &Caller> {
        self.0.iter().flat_map(|task| &task.processes).flat_map(|process| &process.waiters)
    }

    /// Removes and returns the callers that wait for the exit of a process, if `is_such` returns
    /// true for them.
    pub fn take_waiters(&mut self, is_such: impl Fn(&Caller) -> bool) -> Vec<Caller> {
        let processes = self.0.iter_mut().flat_map(|task| &mut task.processes);
        let taken = processes.flat_map(|process| process.waiters.extract_if(.., |c| is_such(c)));
        taken.collect()
    }

    /// Returns a container by its id.
    ///
    /// # Errors
    /// NotFound.
    pub fn task(&self, id: &str) -> Result<&Task, Status> {
        self.0.iter().find(|task| task.id == id).ok_or_else(|| no_container(id))
    }

    /// Returns a container by its id, unless Start must still restore the container. Before the restore, the state root
    /// may contain another container with this id. `call` is the call that the error message names.
    ///
    /// # Errors
    /// NotFound, FailedPrecondition.
    pub fn made(&self, id: &str, call: &str) -> Result<&Task, Status> {
        let task = self.task(id)?;
        match task.restoration.is_some() && task.init().pid == 0 {
            true => Err(Status::failed_precondition(format!("cannot {call} in a created state"))),
            false => Ok(task),
        }
    }

    /// Returns a container by its id, mutably.
    ///
    /// # Errors
    /// NotFound.
    pub fn task_mut(&mut self, id: &str) -> Result<&mut Task, Status> {
        self.0.iter_mut().find(|task| task.id == id).ok_or_else(|| no_container(id))
    }

    /// Returns a process of a container. If the exec id is empty, returns the container's first process.
    ///
    /// # Errors
    /// NotFound.
    pub fn process(&self, id: &str, exec_id: &str) -> Result<(&Task, &Process), Status> {
        let task = self.task(id)?;
        let process = task.processes.iter().find(|process| process.exec_id == exec_id);
        Ok((task, process.ok_or_else(|| no_process(exec_id))?))
    }

    /// Returns a process of a container, mutably.
    ///
    /// # Errors
    /// NotFound.
    pub fn process_mut(&mut self, id: &str, exec_id: &str) -> Result<&mut Process, Status> {
        let mut processes = self.task_mut(id)?.processes.iter_mut();
        processes.find(|process| process.exec_id == exec_id).ok_or_else(|| no_process(exec_id))
    }

    /// Returns the container of the process with this key.
    pub fn of_process(&self, key: u32) -> Option<&Task> {
        let has = |task: &&Task| task.processes.iter().any(|process| process.key == key);
        self.0.iter().find(has)
    }

    /// Returns the container of the process with this key, mutably.
    pub fn task_of_process_mut(&mut self, key: u32) -> Option<&mut Task> {
        let has = |task: &&mut Task| task.processes.iter().any(|process| process.key == key);
        self.0.iter_mut().find(has)
    }

    /// Returns a process by its key, mutably.
    pub fn by_key_mut(&mut self, key: u32) -> Option<&mut Process> {
        let mut all = self.0.iter_mut().flat_map(|task| task.processes.iter_mut());
        all.find(|process| process.key == key)
    }

    /// Returns the process with this pid that has not exited, mutably.
    pub fn by_pid_mut(&mut self, pid: u32) -> Option<&mut Process> {
        let mut all = self.0.iter_mut().flat_map(|task| task.processes.iter_mut());
        all.find(|process| process.pid == pid && process.is_alive())
    }
}

/// A start that has not ended yet.
#[derive(Debug)]
pub(crate) struct PendingStart {
    /// The key of the init.
    pub process: u32,
    pub caller: Caller,
    pub place: Place,
    pub starting: Starting,
    /// The time at which the freezer is checked; `None` after the check.
    pub prompt: Option<Deadline>,
}

impl PendingStart {
    /// Returns the next time at which the loop must check this start.
    pub fn deadline(&self) -> Option<Deadline> {
        self.prompt.into_iter().chain(self.caller.deadline).min()
    }
}

fn no_container(id: &str) -> Status {
    Status::not_found(format!("container {id}: not found"))
}

fn no_process(exec_id: &str) -> Status {
    Status::not_found(format!("process {exec_id}: not found"))
}
