//! Builds rows from the events of [`follow`](host::follow::follow()).

use super::classify::{Class, Layout, NETLINK, classify};
use super::fold::{Thread, fold};
use super::look::{self, Look};
use super::{Held, Observed, wakers};
use crate::base::*;
use host::follow::{End, Event, call_name, memory};
use rustix::event::{Timespec, poll};
use std::sync::mpsc::{Receiver, sync_channel};
use trace::{Awaited, PARENT, PROGRAM, Phase, Row, Span, Timeline, now};

/// The events so far, gathered by process.
#[derive(Debug)]
pub struct Gather<'a> {
    layout: &'a Layout,
    deadline: Duration,
    look: Look,
    processes: Vec<Process>,
    /// For each thread, the index of its process, and its own index among the threads of that process.
    places: HashMap<Pid, (usize, usize)>,
    held: Held,
    /// The time of the last event.
    last: u64,
}

#[derive(Debug, Default)]
struct Process {
    pid: i32,
    parent: Option<usize>,
    threads: Vec<Thread>,
    /// The command line of the program that the process executed last.
    command: Vec<String>,
    /// Whether the process was still running when the command ended.
    left: bool,
    /// The container's program, if the process has executed it.
    contained: Option<Contained>,
}

#[derive(Debug)]
struct Contained {
    start: u64,
    ending: Ending,
    /// The time at which the tracer saw the end of another process's wait for this process.
    reaped: Option<u64>,
}

impl<'a> Gather<'a> {
    pub fn new(layout: &'a Layout, deadline: Duration) -> Self {
        Self {
            layout,
            deadline,
            look: Look::default(),
            processes: Vec::new(),
            places: HashMap::new(),
            held: Held::default(),
            last: 0,
        }
    }

    /// Records an event that the tracer saw at the time `seen`.
    pub fn take(&mut self, pid: Pid, event: Event, seen: u64) {
        self.last = seen;
        match event {
            Event::Born { parent, process } => self.born(pid, parent, process, seen),
            Event::Executed { command, container, .. } => {
                self.executed(pid, command, container, seen);
            }
            Event::Entered { number, args, .. } => self.entered(pid, call_name(number), args, seen),
            Event::Left { result, .. } => self.left(pid, result, seen),
            Event::Stepped { .. } | Event::Signalled(_) => {}
            Event::Gone { end, .. } => self.gone(pid, end, seen),
        }
    }

    /// Records that the tracee, which stopped at the time `seen`, continues at the time `at`.
    pub fn resumed(&mut self, pid: Pid, seen: u64, at: u64) {
        self.held += Held { stops: 1, time: at - seen };
        // A call that the tracee has just entered begins only when the tracee continues.
        if let Some(call) = self.thread(pid).and_then(|thread| thread.call.as_mut())
            && call.start == seen
        {
            call.start = at;
        }
    }

    fn born(&mut self, pid: Pid, parent: Option<Pid>, process: Pid, seen: u64) {
        let thread = Thread { start: seen, ..Thread::default() };
        if let Some(&(at, _)) = self.places.get(&process).filter(|_| process != pid) {
            self.places.insert(pid, (at, self.processes[at].threads.len()));
            self.processes[at].threads.push(thread);
            return;
        }
        let child = self.processes.len();
        let at = parent.and_then(|parent| self.places.get(&parent)).map(|place| place.0);
        if let Some(parent) = parent.and_then(|parent| self.thread(parent))
            && let Some(call) = parent.call.as_mut().filter(|_| parent.lends)
        {
            call.wait = Some(Awaited::Row(child));
        }
        self.places.insert(pid, (child, 0));
        self.processes.push(Process {
            pid: pid.as_raw_pid(),
            parent: at,
            threads: vec![thread],
            command: at.map(|at| self.processes[at].command.clone()).unwrap_or_default(),
            ..Process::default()
        });
    }

    fn executed(&mut self, pid: Pid, command: Vec<String>, container: bool, seen: u64) {
        let ending = container.then(|| Ending::of(pid, self.deadline));
        // Until now, the command was a forked copy of this program. That time is not recorded.
        if let Some(thread) = self.thread(pid)
            && thread.spans.is_empty()
        {
            let object = command.first().cloned().unwrap_or_default();
            let (phase, name, start) = (Phase::Bootstrap, "exec".to_owned(), thread.start);
            let exec = Span { phase, name, object, start, ..Span::default() };
            thread.call.get_or_insert(exec);
        }
        self.close(pid, seen);
        if let Some(process) = self.process(pid) {
            process.command = command;
            process.contained =
                ending.map(|ending| Contained { start: seen, ending, reaped: None });
        }
    }

    fn gone(&mut self, pid: Pid, end: End, seen: u64) {
        let left = end == End::Left;
        let waiting = self.thread(pid).and_then(|thread| {
            Some(thread.call.take_if(|call| left && call.wait.is_some())?.start)
        });
        self.close(pid, seen);
        if let Some(thread) = self.thread(pid) {
            // A process that is left running counts as done with the command from the beginning of its last wait for
            // another process.
            thread.end = waiting.unwrap_or(seen);
        }
        if let Some(process) = self.process(pid) {
            process.left |= left;
        }
    }

    fn entered(&mut self, pid: Pid, name: &'static str, args: [u64; 6], seen: u64) {
        let object = self.look.object(pid, name, &args);
        let Class { phase, waits } = classify(name, &args, &object, self.layout);
        let wait =
            waits.then(|| self.awaited(pid, name, &args).map_or(Awaited::Other, Awaited::Row));
        let span = Span { phase, name: name.into(), object, start: seen, wait, ..Span::default() };
        let lends = clone_flags(pid, name, &args) & CLONE_VFORK != 0;
        if let Some(thread) = self.thread(pid) {
            (thread.call, thread.lends) = (Some(span), lends);
        }
    }

    /// Returns the row of the process that a call explicitly waits for.
    fn awaited(&self, pid: Pid, name: &str, args: &[u64; 6]) -> Option<usize> {
        const P_PID: u64 = 1;
        const P_PIDFD: u64 = 3;
        let number = args.first().copied().unwrap_or(0) as i32;
        let awaited = match (name, args[0]) {
            ("wait4", _) => Pid::from_raw(number.max(0)),
            ("waitid", P_PID) => Pid::from_raw((args[1] as i32).max(0)),
            ("waitid", P_PIDFD) => look::behind_pidfd(pid, args[1] as i32),
            _ => None,
        };
        self.places.get(&awaited?).map(|place| place.0)
    }

    fn left(&mut self, pid: Pid, result: Result<u64, Errno>, seen: u64) {
        let Some(mut call) = self.thread(pid).and_then(|thread| thread.call.take()) else { return };
        match result {
            Ok(file) if call.name == "socket" && call.phase == Phase::Platform => {
                self.look.is_netlink(pid, file as i32);
                call.object = NETLINK.to_owned();
            }
            Ok(child) if call.name == "wait4" && child > 0 => {
                let child = Pid::from_raw(child as i32);
                if let Some(&(row, _)) = child.and_then(|child| self.places.get(&child)) {
                    call.wait = Some(Awaited::Row(row));
                    if let Some(contained) = &mut self.processes[row].contained {
                        contained.reaped = Some(seen);
                    }
                }
            }
            Ok(_) => {}
            Err(errno) => call.errno = errno.raw_os_error() as u16,
        }
        if let Some(thread) = self.thread(pid) {
            thread.call = Some(call);
        }
        self.close(pid, seen);
    }

    /// Ends `pid`'s current call.
    fn close(&mut self, pid: Pid, seen: u64) {
        if let Some(thread) = self.thread(pid)
            && let Some(call) = thread.call.take()
        {
            thread.spans.push(Span { end: seen.max(call.start), ..call });
        }
    }

    fn process(&mut self, pid: Pid) -> Option<&mut Process> {
        self.processes.get_mut(self.places.get(&pid)?.0)
    }

    fn thread(&mut self, pid: Pid) -> Option<&mut Thread> {
        let &(process, thread) = self.places.get(&pid)?;
        self.processes.get_mut(process)?.threads.get_mut(thread)
    }

    /// Returns the time line of the command `command` for the container `id`.
    pub fn finish(self, command: String, id: &str) -> Observed {
        let last = self.last;
        let mut rows: Vec<Row> = Vec::new();
        let mut programs: Vec<Row> = Vec::new();
        for (at, mut process) in self.processes.into_iter().enumerate() {
            let contained = process.contained.take();
            let row = process.row(at, contained.is_some() || process.left, last);
            if let Some(contained) = contained {
                programs.push(contained.row(at, process.pid, &process.command, last));
            }
            rows.push(row);
        }
        let ended = programs.iter().map(|program| program.end).max();
        adopt(&mut rows, programs);
        let removes = command.ends_with(" delete") || command.ends_with(" kill");
        for span in rows.iter_mut().flat_map(|row| &mut row.spans) {
            let after = ended.is_some_and(|ended| span.start >= ended);
            if after || removes && undoes(span) {
                span.phase = Phase::Shutdown;
            }
        }
        let notes = vec![
            "followed by ptrace, which makes each system call longer".to_owned(),
            "the process that ended a wait is inferred: it wrote, executed or ended just before"
                .to_owned(),
        ];
        let mut timeline = Timeline { command, id: id.to_owned(), rows, notes };
        wakers::name(&mut timeline);
        Observed { timeline, held: self.held }
    }
}

/// Returns whether a step does the work of `kill` or `delete`: it kills a process, or removes a
/// resource of the container.
fn undoes(span: &Span) -> bool {
    let by_phase = [Phase::Security, Phase::Mounts, Phase::Platform, Phase::Cgroups];
    let by_name = ["unlink", "unlinkat", "rmdir", "kill", "tgkill", "pidfd_send_signal"];
    by_phase.contains(&span.phase) || by_name.contains(&span.name.as_str())
}

/// Adds the rows of containers' programs. Waits for a process that executed a container's program are redirected to the
/// program's row.
fn adopt(rows: &mut Vec<Row>, programs: Vec<Row>) {
    for program in programs {
        let at = rows.len();
        let Some(former) = program.parent else { continue };
        for span in rows.iter_mut().flat_map(|row| &mut row.spans) {
            if span.wait == Some(Awaited::Row(former)) && span.end >= program.end {
                span.wait = Some(Awaited::Row(at));
            }
        }
        rows.push(program);
    }
}

impl Contained {
    /// Returns the row of a container's program, which the process of row `former` has executed.
    fn row(self, former: usize, pid: i32, command: &[String], last: u64) -> Row {
        let seen = self.ending.time();
        let end = [seen, self.reaped].into_iter().flatten().min().unwrap_or(last).max(self.start);
        let (phase, name, start) = (Phase::Program, PROGRAM.to_owned(), self.start);
        let object = command.join(" ");
        let span = Span { phase, name: name.clone(), object, start, end, ..Span::default() };
        let (parent, spans) = (Some(former), vec![span]);
        Row { name, pid, parent, start, end, spans, ..Row::default() }
    }
}

impl Process {
    fn row(&mut self, at: usize, is_init: bool, last: u64) -> Row {
        for thread in self.threads.iter_mut().filter(|thread| thread.end == 0) {
            thread.end = last;
        }
        let threads = &self.threads;
        let program =
            self.command.first().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
        let name = match (at, is_init) {
            (0, _) => PARENT,
            (_, true) => "init",
            (_, false) => program,
        };
        Row {
            name: name.to_owned(),
            pid: self.pid,
            parent: self.parent,
            start: threads.iter().map(|thread| thread.start).min().unwrap_or(last),
            end: threads.iter().map(|thread| thread.end).max().unwrap_or(last),
            spans: fold(threads),
            ..Row::default()
        }
    }
}

const CLONE_VFORK: u64 = 0x4000;

/// Returns the flags of a call that creates a process.
fn clone_flags(pid: Pid, name: &str, args: &[u64; 6]) -> u64 {
    match name {
        "vfork" => CLONE_VFORK,
        "clone" => args[0],
        "clone3" => {
            let mut flags = [0; 8];
            memory::read(pid, args[0], &mut flags).map_or(0, |_| u64::from_ne_bytes(flags))
        }
        _ => 0,
    }
}

/// The maximum time to wait for the thread of [`Ending`] to report the end, once tracing is over.
const GRACE: Duration = Duration::from_millis(100);

/// A thread that waits for one process by a pidfd.
#[derive(Debug)]
pub struct Ending(Option<Receiver<u64>>);

impl Ending {
    /// Waits for the end of the process `pid`, which must still exist, at most for the time `deadline`.
    pub fn of(pid: Pid, deadline: Duration) -> Self {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return Self(None) };
        let (sender, receiver) = sync_channel(1);
        let timeout = Timespec::try_from(deadline).ok();
        thread::spawn(move || {
            let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref());
            if ended == Ok(1) {
                let _ = sender.send(now());
            }
        });
        Self(Some(receiver))
    }

    /// Returns the time of the end; `None` if the process has not ended yet.
    pub fn time(self) -> Option<u64> {
        self.0?.recv_timeout(GRACE).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_an_end() {
        let mut child = std::process::Command::new("/bin/true").spawn().expect("true");
        let before = now();
        let ending = Ending::of(Pid::from_child(&child), Duration::from_secs(5));
        assert!(ending.time().is_some_and(|time| time >= before));
        child.wait().expect("reap");
    }
}
