//! The tables of the loop: containers, and the processes in them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proto::messages::events::TaskCreate;
use proto::messages::options::Options;
use proto::messages::time::Timestamp;
use proto::ttrpc::Status;
use rustix::fd::OwnedFd;
use rustix::process::WaitStatus;
use rustix::time::{ClockId, clock_gettime};

use crate::io::Streams;
use crate::oom;
use crate::task::Caller;

/// A point in time: CLOCK_REALTIME.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Time {
    seconds: i64,
    nanos: i32,
}

impl Time {
    /// Now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self { seconds: now.tv_sec, nanos: now.tv_nsec as i32 }
    }

    /// Nanoseconds since 1970.
    pub fn nanoseconds(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000) + u64::from(self.nanos.unsigned_abs())
    }

    /// As containerd has it.
    pub fn to_message(self) -> Timestamp {
        Timestamp { seconds: self.seconds, nanos: self.nanos }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exit {
    /// Its exit status, or 128 and the signal.
    pub status: u32,
    /// When.
    pub at: Time,
}

impl Exit {
    /// Of a process that ends now: by what waitpid(2) says.
    pub fn now(status: WaitStatus) -> Self {
        let code = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code.unsigned_abs() & 0xff,
            (None, Some(signal)) => 128 + signal.unsigned_abs(),
            (None, None) => 255,
        };
        Self { status: code, at: Time::now() }
    }
}

/// How far a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A worker makes it.
    Creating,
    /// It waits for Start.
    Created,
    /// A worker starts it.
    Starting,
    /// It runs.
    Running,
    /// It has ended, and those concerned were told.
    Stopped,
}

/// Where a process's streams lead, as containerd asked for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stdio {
    pub stdin: String,
    pub stdout: String,
    pub stderr: String,
    pub terminal: bool,
}

/// A container's first process, or one that Exec has prepared.
#[derive(Debug)]
pub(crate) struct Process {
    /// Never used for another one.
    pub key: u32,
    /// Empty for the first.
    pub exec_id: String,
    pub stage: Stage,
    /// 0 before it exists.
    pub pid: u32,
    pub pidfd: Option<OwnedFd>,
    /// How it ended, from when that was heard: a start under way, and those whose end is told before, may keep it from
    /// being told.
    pub ended: Option<Exit>,
    /// The same, once it was told.
    pub exit: Option<Exit>,
    pub stdio: Stdio,
    pub streams: Streams,
    /// Where the process sends the master of its terminal.
    pub console: Option<OwnedFd>,
    /// `process` in JSON, for Start; of the first process there is none.
    pub document: Vec<u8>,
    /// Who waits for its end.
    pub waiters: Vec<Caller>,
}

impl Process {
    /// One of which nothing exists yet.
    pub fn new(key: u32, exec_id: &str, stdio: Stdio) -> Self {
        Self {
            key,
            exec_id: exec_id.to_string(),
            stage: Stage::Creating,
            pid: 0,
            pidfd: None,
            ended: None,
            exit: None,
            stdio,
            streams: Streams::default(),
            console: None,
            document: Vec::new(),
            waiters: Vec::new(),
        }
    }

    /// Whether there is a process that has not ended.
    pub fn is_alive(&self) -> bool {
        self.pid != 0 && self.ended.is_none() && self.exit.is_none()
    }
}

/// Where a container's state is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The state root.
    pub root: String,
    /// The container.
    pub id: String,
}

/// A container.
#[derive(Debug)]
pub(crate) struct Task {
    /// Never used for another one.
    pub key: u32,
    pub id: String,
    pub bundle: String,
    pub root: String,
    pub options: Options,
    /// The first one is init.
    pub processes: Vec<Process>,
    /// Whether all of its processes end with init. Known once it is made.
    pub owns_pid_namespace: bool,
    pub is_paused: bool,
    pub cgroup: Option<cgroup::Location>,
    pub oom: Option<oom::Watch>,
    /// What is published once it is made.
    pub created: Option<TaskCreate>,
    /// How far what does not end with init was ended.
    pub clearing: Clearing,
}

/// How far those processes of a container were ended that do not end with init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clearing {
    /// Not at all.
    Due,
    /// A worker kills them.
    UnderWay,
    /// They were killed.
    Done,
}

impl Task {
    /// Its first process. There is one from the beginning.
    pub fn init(&self) -> &Process {
        &self.processes[0]
    }

    /// Where its state is.
    pub fn place(&self) -> Place {
        Place { root: self.root.clone(), id: self.id.clone() }
    }
}

/// All containers of the pod.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<Task>);

impl Tasks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one.
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

    /// Removes one.
    pub fn remove(&mut self, key: u32) -> Option<Task> {
        let at = self.0.iter().position(|task| task.key == key)?;
        Some(self.0.remove(at))
    }

    /// Removes a process, unless it is a container's first.
    pub fn remove_process(&mut self, key: u32) -> Option<Process> {
        for task in &mut self.0 {
            let at = task.processes.iter().position(|process| process.key == key);
            if let Some(at) = at.filter(|at| *at > 0) {
                return Some(task.processes.remove(at));
            }
        }
        None
    }

    /// Whoever waits for the end of a process.
    pub fn waiters(&self) -> impl Iterator<Item = &Caller> {
        self.0.iter().flat_map(|task| &task.processes).flat_map(|process| &process.waiters)
    }

    /// Takes out those who wait for the end of a process and are such.
    pub fn take_waiters(&mut self, is_such: impl Fn(&Caller) -> bool) -> Vec<Caller> {
        let processes = self.0.iter_mut().flat_map(|task| &mut task.processes);
        let taken = processes.flat_map(|process| process.waiters.extract_if(.., |c| is_such(c)));
        taken.collect()
    }

    /// A container by its id.
    ///
    /// # Errors
    /// NotFound.
    pub fn task(&self, id: &str) -> Result<&Task, Status> {
        self.0.iter().find(|task| task.id == id).ok_or_else(|| no_container(id))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// NotFound.
    pub fn task_mut(&mut self, id: &str) -> Result<&mut Task, Status> {
        self.0.iter_mut().find(|task| task.id == id).ok_or_else(|| no_container(id))
    }

    /// A process of a container, the first one for no exec id.
    ///
    /// # Errors
    /// NotFound.
    pub fn process(&self, id: &str, exec_id: &str) -> Result<(&Task, &Process), Status> {
        let task = self.task(id)?;
        let process = task.processes.iter().find(|process| process.exec_id == exec_id);
        Ok((task, process.ok_or_else(|| no_process(exec_id))?))
    }

    /// The same, to change it.
    ///
    /// # Errors
    /// NotFound.
    pub fn process_mut(&mut self, id: &str, exec_id: &str) -> Result<&mut Process, Status> {
        let mut processes = self.task_mut(id)?.processes.iter_mut();
        processes.find(|process| process.exec_id == exec_id).ok_or_else(|| no_process(exec_id))
    }

    /// A container by its key.
    pub fn by_key(&self, key: u32) -> Option<&Task> {
        self.0.iter().find(|task| task.key == key)
    }

    /// The same, to change it.
    pub fn task_by_key_mut(&mut self, key: u32) -> Option<&mut Task> {
        self.0.iter_mut().find(|task| task.key == key)
    }

    /// The container of the process of that key.
    pub fn of_process(&self, key: u32) -> Option<&Task> {
        let has = |task: &&Task| task.processes.iter().any(|process| process.key == key);
        self.0.iter().find(has)
    }

    /// The same, to change it.
    pub fn task_of_process_mut(&mut self, key: u32) -> Option<&mut Task> {
        let has = |task: &&mut Task| task.processes.iter().any(|process| process.key == key);
        self.0.iter_mut().find(has)
    }

    /// A process by its key.
    pub fn by_key_mut(&mut self, key: u32) -> Option<&mut Process> {
        let mut all = self.0.iter_mut().flat_map(|task| task.processes.iter_mut());
        all.find(|process| process.key == key)
    }

    /// The process of that number which has not ended.
    pub fn by_pid_mut(&mut self, pid: u32) -> Option<&mut Process> {
        let mut all = self.0.iter_mut().flat_map(|task| task.processes.iter_mut());
        all.find(|process| process.pid == pid && process.is_alive())
    }
}

fn no_container(id: &str) -> Status {
    Status::not_found(format!("container {id}: not found"))
}

fn no_process(exec_id: &str) -> Status {
    Status::not_found(format!("process {exec_id}: not found"))
}
