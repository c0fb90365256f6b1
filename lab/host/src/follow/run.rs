//! The loop: waits for the next stop, reports its event, resumes the tracee.

use crate::follow::tracee::{Tracee, command_of, is_contained, process_of};
use crate::follow::{Command, End, Error, Event, Listener, Stop};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};
use sys::Context;
use sys::ptrace::{self, Report, Resume};

/// The kind of tracing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// System calls of the processes that the [`Listener`] selects.
    Syscalls,
    /// Every instruction in user space, by single-stepping: about 20 µs each in a virtual machine. Address space layout
    /// is not randomised, and only one processor is used.
    Instructions {
        /// The maximum number of counted instructions. After that number the processes run at full speed, and are not
        /// counted.
        bound: u64,
    },
}

/// Runs `command` and reports every event of the command and its descendants to `listener`. Returns
/// the way in which the command ended.
///
/// Descendants that still run when the command has ended, such as a container that the command leaves behind, are
/// followed until they are idle for 50 ms. Then they are detached.
///
/// While an event is reported, its process or thread is stopped. The exception is [`Event::Gone`]. So a clock that is
/// read at the start and at the end of [`Listener::hear`] shows how long the tracee was delayed.
///
/// The tracees are children of this process: do not wait for any of its children while this
/// function runs.
///
/// # Errors
/// [`Error::NotExecuted`]; [`Error::Deadline`] if anything still runs after `deadline`. In that case, and after any
/// other error, all followed processes are killed.
pub fn follow(
    command: &Command,
    mode: Mode,
    deadline: Duration,
    listener: &mut dyn Listener,
) -> Result<End, Error> {
    follow_until(command, mode, deadline, &Stop::default(), listener)
}

/// Follows `command` like [`follow`], but kills all followed processes when another thread calls [`Stop::stop`].
/// Following then fails with [`Error::Deadline`].
///
/// # Errors
/// As [`follow`].
pub fn follow_until(
    command: &Command,
    mode: Mode,
    deadline: Duration,
    stop: &Stop,
    listener: &mut dyn Listener,
) -> Result<End, Error> {
    stop.begin();
    thread::scope(|scope| {
        scope.spawn(|| stop.guard(deadline));
        // A separate thread waits only for its own children and tracees, and if it dies, the kernel kills its tracees.
        let result = scope.spawn(|| Follower::run(command, mode, stop, listener)).join();
        let expired = stop.expired();
        if !matches!(result, Ok(Ok(_))) {
            stop.kill();
        }
        stop.finish();
        match result {
            Ok(_) if expired => {
                Err(Error::Deadline { program: command.program.clone(), after: deadline })
            }
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The idle time after which remaining processes are detached.
const QUIET: Duration = Duration::from_millis(50);
const SIGTRAP: i32 = 5;

struct Follower<'a> {
    mode: Mode,
    stop: &'a Stop,
    listener: &'a mut dyn Listener,
    /// The command.
    root: Pid,
    /// Whether the command has been executed; before that, the child runs a copy of this process.
    executed: bool,
    /// The way in which the command ended; `None` while it runs.
    end: Option<End>,
    tracees: HashMap<Pid, Tracee>,
    /// New processes that stopped before their parent's clone event.
    early: HashMap<Pid, Report>,
    /// The number of instructions of all processes.
    steps: u64,
    /// The CPU affinity to restore on detached processes, if they were confined to one CPU.
    cpus: Option<CpuSet>,
}

impl<'a> Follower<'a> {
    fn run(
        command: &Command,
        mode: Mode,
        stop: &'a Stop,
        listener: &'a mut dyn Listener,
    ) -> Result<End, Error> {
        let stepped = mode != Mode::Syscalls;
        let cpus = if stepped { stay_here() } else { None };
        let child = command.spawn(stepped, |child| {
            ptrace::seize(child.pid).context("ptrace", "PTRACE_SEIZE")?;
            stop.add(child.pid);
            Ok(())
        })?;
        let mut follower = Self {
            mode,
            stop,
            listener,
            root: child.pid,
            executed: false,
            end: None,
            tracees: HashMap::new(),
            early: HashMap::new(),
            steps: 0,
            cpus,
        };
        follower.adopt(child.pid, child.pid, None)?;
        while let Some((pid, report)) = follower.next()? {
            follower.handle(pid, report)?;
        }
        match follower.end {
            Some(End::Exited(errno)) if !follower.executed => Err(Error::NotExecuted {
                program: command.program.clone(),
                errno: Errno::from_raw_os_error(errno),
            }),
            end => Ok(end.unwrap_or(End::Left)),
        }
    }

    /// Returns the next stop or end of any tracee, or `None` if none is left.
    fn next(&mut self) -> Result<Option<(Pid, Report)>, Error> {
        if self.tracees.is_empty() {
            // The new process's parent died before the clone event.
            let Some(pid) = self.early.keys().next().copied() else { return Ok(None) };
            self.adopt(pid, process_of(pid), None)?;
            return self.next();
        }
        if self.end.is_none() {
            return wait(true);
        }
        let start = Instant::now();
        while start.elapsed() < QUIET {
            if let Some(report) = wait(false)? {
                return Ok(Some(report));
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.release()?;
        Ok(None)
    }

    fn handle(&mut self, pid: Pid, report: Report) -> Result<(), Error> {
        if !self.tracees.contains_key(&pid) {
            if !self.stop.expired() {
                self.early.insert(pid, report);
                return Ok(());
            }
            self.adopt(pid, process_of(pid), None)?;
        }
        match report {
            Report::Exited(status) => self.lose(pid, End::Exited(status)),
            Report::Killed(signal) => self.lose(pid, End::Killed(signal)),
            Report::Call => self.cross(pid)?,
            Report::Signal(SIGTRAP) if self.has_stepped(pid) => self.step(pid)?,
            Report::Signal(signal) => {
                self.listener.hear(pid, Event::Signalled(signal));
                self.resume(pid, signal)?;
            }
            Report::Event(event) => self.happen(pid, event)?,
        }
        Ok(())
    }

    fn happen(&mut self, pid: Pid, event: ptrace::Event) -> Result<(), Error> {
        match event {
            ptrace::Event::Child | ptrace::Event::Clone => {
                if let Some(child) = ask(ptrace::message(pid))?.flatten() {
                    let thread = event == ptrace::Event::Clone;
                    let process = if thread { process_of(child) } else { child };
                    self.adopt(child, process, Some(pid))?;
                }
                self.resume(pid, 0)
            }
            ptrace::Event::Exec => self.execute(pid),
            ptrace::Event::Group(_) => ask(ptrace::listen(pid)).map(drop),
            ptrace::Event::Pause => self.resume(pid, 0),
        }
    }

    /// Adds a new process, and handles the event that it has already reported.
    fn adopt(&mut self, pid: Pid, process: Pid, parent: Option<Pid>) -> Result<(), Error> {
        let process = self.tracees.get(&process).map_or(process, |leader| leader.process);
        self.tracees.insert(pid, Tracee::new(process));
        if process == pid && pid != self.root {
            self.stop.add(pid);
        }
        self.listener.hear(pid, Event::Born { parent, process });
        match self.early.remove(&pid) {
            Some(report) => self.handle(pid, report),
            None => Ok(()),
        }
    }

    fn lose(&mut self, pid: Pid, end: End) {
        let Some(tracee) = self.tracees.remove(&pid) else { return };
        if matches!(end, End::Exited(_) | End::Killed(_)) && tracee.process == pid {
            self.stop.remove(pid);
        }
        if pid == self.root {
            self.end = Some(end);
        }
        self.listener.hear(pid, Event::Gone { end, instructions: tracee.instructions });
    }

    fn cross(&mut self, pid: Pid) -> Result<(), Error> {
        let call = ask(ptrace::place(pid))?.and_then(|place| place.call);
        let tracee = self.tracees.get_mut(&pid);
        if let Some(event) = tracee.zip(call).and_then(|(tracee, call)| tracee.cross(call)) {
            self.listener.hear(pid, event);
        }
        self.resume(pid, 0)
    }

    fn step(&mut self, pid: Pid) -> Result<(), Error> {
        if let Some(place) = ask(ptrace::place(pid))?
            && let Some(tracee) = self.tracees.get_mut(&pid)
            && tracee.step(place)
        {
            self.steps += 1;
            self.listener.hear(pid, Event::Stepped { next: place.instruction });
        }
        self.resume(pid, 0)
    }

    fn execute(&mut self, pid: Pid) -> Result<(), Error> {
        // A thread that calls execve(2) gets the pid of its process.
        if let Some(former) = ask(ptrace::message(pid))?.flatten()
            && former != pid
        {
            self.lose(former, End::Replaced);
        }
        self.executed = true;
        let container = pid != self.root && is_contained(pid);
        let instructions = self.tracees.get_mut(&pid).map_or(0, Tracee::execute);
        let command = command_of(pid);
        self.listener.hear(pid, Event::Executed { command, container, instructions });
        if container && !self.listener.follows_containers() {
            self.detach(pid, 0)?;
            self.lose(pid, End::Container);
            return Ok(());
        }
        self.resume(pid, 0)
    }

    /// Returns whether a SIGTRAP of this tracee is the end of a single step.
    fn has_stepped(&self, pid: Pid) -> bool {
        self.tracees.get(&pid).is_some_and(|tracee| tracee.steps)
    }

    fn resume(&mut self, pid: Pid, signal: i32) -> Result<(), Error> {
        let how = match self.mode {
            _ if !self.executed || !self.listener.hears_calls_of(pid) => Resume::Freely,
            Mode::Syscalls => Resume::ToCall,
            Mode::Instructions { bound } if self.steps < bound => Resume::ByStep,
            Mode::Instructions { .. } => Resume::Freely,
        };
        if let Some(tracee) = self.tracees.get_mut(&pid) {
            tracee.steps = how == Resume::ByStep;
        }
        ask(ptrace::resume(pid, how, signal)).map(drop)
    }

    /// Detaches all remaining tracees: stops each tracee, and detaches it once it has stopped.
    fn release(&mut self) -> Result<(), Error> {
        let pids: Vec<Pid> = self.tracees.keys().copied().collect();
        for pid in pids {
            if ask(ptrace::interrupt(pid))?.is_none() {
                self.lose(pid, End::Left);
            }
        }
        while !self.tracees.is_empty() {
            let Some((pid, report)) = wait(true)? else { break };
            match report {
                Report::Exited(status) => self.lose(pid, End::Exited(status)),
                Report::Killed(signal) => self.lose(pid, End::Killed(signal)),
                stop => self.let_go(pid, stop)?,
            }
        }
        Ok(())
    }

    fn let_go(&mut self, pid: Pid, stop: Report) -> Result<(), Error> {
        let signal = match stop {
            Report::Signal(SIGTRAP) if self.has_stepped(pid) => 0,
            Report::Signal(signal) => signal,
            Report::Event(ptrace::Event::Child | ptrace::Event::Clone) => {
                // The child was just created, and stops by itself before it runs.
                if let Some(child) = ask(ptrace::message(pid))?.flatten() {
                    self.adopt(child, process_of(child), Some(pid))?;
                }
                0
            }
            _ => 0,
        };
        self.detach(pid, signal)?;
        self.lose(pid, End::Left);
        Ok(())
    }

    fn detach(&self, pid: Pid, signal: i32) -> Result<(), Error> {
        if let Some(cpus) = &self.cpus {
            let _ = sched_setaffinity(Some(pid), cpus);
        }
        ask(ptrace::detach(pid, signal)).map(drop)
    }
}

/// Waits for this thread's tracees; returns `None` if there are no tracees, or, without `block`, if none has stopped.
fn wait(block: bool) -> Result<Option<(Pid, Report)>, Error> {
    loop {
        match ptrace::wait(block) {
            Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(None),
            answer => return Ok(answer.context("wait4", "")?),
        }
    }
}

/// Confines this thread and its children to the current CPU: a switch between tracer and tracee on one CPU takes a
/// third of the time of a switch between CPUs. Returns the previous affinity.
fn stay_here() -> Option<CpuSet> {
    let before = sched_getaffinity(None).ok()?;
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).ok().map(|()| before)
}

/// Turns ESRCH into `None`: a tracee may be killed at any moment, and its end is reported separately.
fn ask<T>(answer: Result<T, Errno>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(sys::Error::new("ptrace", "", errno).into()),
    }
}
