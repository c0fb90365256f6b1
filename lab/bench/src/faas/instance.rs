//! A container that serves invocations: an event-driven state machine from its start to its end.

use super::bill::Bill;
use super::meter::Meter;
use crate::harness::*;
use crate::restore::Images;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{ioctl_fionbio, read, write};
use rustix::process::kill_process_group;
use std::io::{PipeReader, PipeWriter, pipe};
use std::rc::Rc;
use sys::rusage::End;

/// The maximum length of the program's lines.
const LONGEST: usize = 64;

/// The state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// There is no container.
    Free,
    /// The container is starting, serving, or idle.
    Up,
    /// The container's program was asked to exit.
    Ending,
    /// The container's program has exited, and the runtime is removing the container.
    Deleting,
    /// The instance has failed and is not used again.
    Broken,
}

/// An event of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The container's program has started.
    Ready,
    /// An invocation's code has begun.
    Begun(SystemTime),
    /// The invocation is done.
    Done(SystemTime),
    /// The container has been removed.
    Gone,
}

/// A container that can be started, ended and started again.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    container: Container<'a>,
    /// The time that each step may take.
    deadline: Duration,
    pub(super) state: State,
    /// The index of the instance's function; [`NONE`] for a container in stock.
    pub(super) function: usize,
    /// The invocation that the container serves or is going to serve.
    pub(super) work: Option<usize>,
    pub(super) is_ready: bool,
    is_forked: bool,
    /// The checkpoint that criu restores, if one is.
    saved: Option<Rc<Images>>,
    /// The time when the container is ended if it is still idle.
    pub(super) until: Option<Instant>,
    /// The time since which the container has been idle.
    pub(super) idle_since: Instant,
    /// The deadline of the current operation.
    overdue: Option<Instant>,
    /// The least time of a start.
    start_time: Duration,
    /// The time before which the container may not serve.
    pub(super) held_until: Instant,
    /// The order for an invocation that is held back until then.
    pub(super) held: Option<String>,
    /// The running command of the runtime.
    command: Option<(Pid, OwnedFd)>,
    program: Option<(Pid, OwnedFd)>,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    heard: Vec<u8>,
    meter: Option<Meter>,
    pub(super) bill: Bill,
    /// The function and the resources of each former start of the container.
    former: Vec<(usize, Bill)>,
}

/// The index of the function of a container that has not served any function yet.
pub(super) const NONE: usize = usize::MAX;

impl<'a> Instance<'a> {
    pub(super) fn new(container: Container<'a>, deadline: Duration, start_time: Duration) -> Self {
        Self {
            container,
            deadline,
            state: State::Free,
            function: NONE,
            work: None,
            is_ready: false,
            is_forked: false,
            saved: None,
            until: None,
            idle_since: Instant::now(),
            overdue: None,
            start_time,
            held_until: Instant::now(),
            held: None,
            command: None,
            program: None,
            stdin: None,
            stdout: None,
            heard: Vec::new(),
            meter: None,
            bill: Bill::default(),
            former: Vec::new(),
        }
    }

    /// Lets the template `name` fork the container's program from now on.
    pub(super) fn fork_from(&mut self, name: &str) {
        self.container.fork_from(name);
        self.is_forked = true;
    }

    /// Lets criu restore the container from now on.
    pub(super) fn restore_from(&mut self, saved: &Rc<Images>) {
        self.saved = Some(Rc::clone(saved));
    }

    /// Starts the container, and saves it to `images` when its program is ready. The container ends.
    ///
    /// # Errors
    /// The reason as a sentence.
    pub(super) fn saved(mut self, images: &Path) -> Result<(), String> {
        self.start(0, None)?;
        self.await_event(|event| *event == Event::Ready)?;
        self.container.checkpoint(images).map_err(told)?;
        self.container.discard();
        Ok(())
    }

    /// Waits for an event of the container, outside a replay.
    ///
    /// # Errors
    /// The reason as a sentence; the instance is then broken.
    pub(super) fn await_event(&mut self, is_it: impl Fn(&Event) -> bool) -> Result<(), String> {
        loop {
            let left = self.overdue().map_or(self.deadline, |at| at - Instant::now().min(at));
            let mut files: Vec<PollFd<'_>> = self
                .handles()
                .map(|(handle, flags)| PollFd::from_borrowed_fd(handle, flags))
                .collect();
            let spoke = process::ready(&mut files, Instant::now(), left);
            if !spoke.map_err(|failure| failure.to_string())? {
                return Err(self.give_up());
            }
            if self.look()?.iter().any(&is_it) {
                return Ok(());
            }
        }
    }

    /// Returns the function and the resources of each start so far.
    pub(super) fn bills(&self) -> impl Iterator<Item = (usize, Bill)> {
        self.former.iter().copied().chain([(self.function, self.bill)])
    }

    /// Returns whether the container is idle, or will be once it is ready.
    pub(super) fn is_spare(&self) -> bool {
        self.state == State::Up && self.work.is_none()
    }

    /// Begins the container's start.
    ///
    /// # Errors
    /// The reason as a sentence; the instance is then broken.
    pub(super) fn start(&mut self, function: usize, until: Option<Instant>) -> Result<(), String> {
        let now = Instant::now();
        self.former.push((self.function, std::mem::take(&mut self.bill)));
        (self.function, self.until, self.work) = (function, until, None);
        (self.is_ready, self.meter) = (false, None);
        (self.held_until, self.held) = (now + self.start_time, None);
        self.heard.clear();
        self.overdue = Some(now + self.deadline);
        self.bill.begin(now);
        self.state = State::Up;
        let begun = self.begin();
        begun.inspect_err(|_| self.state = State::Broken)
    }

    fn begin(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("make a pipe: {error}");
        let (stdin, commands) = pipe().map_err(failed)?;
        let (answers, stdout) = pipe().map_err(failed)?;
        ioctl_fionbio(&answers, true).map_err(|errno| failed(errno.into()))?;
        (self.stdin, self.stdout) = (Some(commands), Some(answers));
        let child = match &self.saved {
            None => self.container.begin_run(stdin.into(), stdout.into()),
            Some(saved) => {
                let work = saved.work.join(&self.container.id);
                fs::create_dir_all(&work).map_err(|error| format!("make {work:?}: {error}"))?;
                let streams = Some((stdin.into(), stdout.into()));
                self.container.begin_restore((&saved.images, &work), false, streams)
            }
        };
        self.command = Some(watched(Pid::from_child(&child.map_err(told)?))?);
        Ok(())
    }

    /// Makes the container serve an invocation of this duration, at once or as soon as it is ready.
    ///
    /// # Errors
    /// The reason as a sentence; the instance is then broken.
    pub(super) fn serve(&mut self, invocation: usize, takes: Duration) -> Result<(), String> {
        self.work = Some(invocation);
        self.overdue = Some(Instant::now() + takes + self.deadline);
        // The shell's `read -t` has a resolution of milliseconds. With a timeout of 0, it would return at once.
        let line = format!("{:.3}\n", takes.as_secs_f64().max(0.001));
        self.held = Some(line);
        if self.held_until > Instant::now() { Ok(()) } else { self.send() }
    }

    /// Passes the order that was held back to the container.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub(super) fn send(&mut self) -> Result<(), String> {
        let Some(line) = self.held.take() else { return Ok(()) };
        let stdin = self.stdin.as_ref().ok_or("it has no standard input")?;
        match write(stdin, line.as_bytes()) {
            // The reading process has exited; `look` reports this.
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(self.broken(&format!("write to the container: {errno}"))),
        }
    }

    /// Makes the container's program exit.
    pub(super) fn end(&mut self) {
        self.measure();
        self.stdin = None;
        self.state = State::Ending;
        self.overdue = Some(Instant::now() + self.deadline);
    }

    /// Measures the container's memory.
    pub(super) fn measure(&mut self) {
        let kib = self.meter.as_ref().and_then(Meter::kib);
        self.bill.measure(Instant::now(), kib);
    }

    /// Returns the deadline of the current operation.
    pub(super) fn overdue(&self) -> Option<Instant> {
        self.overdue.filter(|_| self.state != State::Free && self.state != State::Broken)
    }

    /// Gives up the container, and returns the reason as a sentence.
    pub(super) fn give_up(&mut self) -> String {
        let step = match (self.state, self.is_ready) {
            (State::Up, false) => "run",
            (State::Up, true) => "an invocation",
            (State::Ending, _) => "the program's end",
            _ => "delete",
        };
        let fault = self.container.fault(step, Failure::Overdue(self.deadline));
        self.broken(&fault.to_string())
    }

    fn broken(&mut self, reason: &str) -> String {
        self.bill.end(Instant::now());
        self.stop();
        self.state = State::Broken;
        reason.to_owned()
    }

    /// Kills a running command, and closes pipes.
    pub(super) fn stop(&mut self) {
        if let Some((pid, _)) = self.command.take() {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = process::wait(pid, Duration::from_secs(1));
        }
        (self.stdin, self.stdout) = (None, None);
        self.overdue = None;
    }

    /// Returns the descriptors to poll.
    pub(super) fn handles(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let command = self.command.as_ref().map(|(_, handle)| handle.as_fd());
        let program = self.program.as_ref().map(|(_, handle)| handle.as_fd());
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        [command, program, stdout].into_iter().flatten().map(|handle| (handle, PollFlags::IN))
    }

    /// Processes all pending events, in their order.
    ///
    /// # Errors
    /// The failure as a sentence; the instance is then broken.
    pub(super) fn look(&mut self) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        let result = self.look_at_all(&mut events);
        result.map_err(|reason| self.broken(&reason)).map(|()| events)
    }

    fn look_at_all(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        if let Some(end) = ended(&mut self.command)? {
            if self.state == State::Deleting {
                self.container.removed_by("delete", end).map_err(told)?;
                (self.state, self.overdue) = (State::Free, None);
                events.push(Event::Gone);
                return Ok(());
            }
            let step = if self.saved.is_some() { "restore" } else { "run" };
            self.program = Some(watched(self.container.started_by(step, end).map_err(told)?)?);
            if self.saved.is_some() {
                // It said so before it was saved.
                self.ready(events);
            }
        }
        self.listen(events)?;
        // Before the first output of the container's program, the process may still be executing the runtime.
        if let Some((pid, _)) = self.program.as_ref().filter(|_| self.is_ready)
            && self.meter.is_none()
        {
            self.meter = Meter::of(pid.as_raw_nonzero().get(), self.is_forked);
            self.bill.by = self.meter.as_ref().map_or(self.bill.by, |meter| Some(meter.by()));
            self.measure();
        }
        if let Some(end) = ended(&mut self.program)? {
            self.container.ended();
            if self.state != State::Ending {
                return Err(format!("the container's program ended by itself: {end:?}"));
            }
            self.bill.end(Instant::now());
            self.stdout = None;
            let child = self.container.begin_delete().map_err(told)?;
            self.command = Some(watched(Pid::from_child(&child))?);
            self.state = State::Deleting;
            self.overdue = Some(Instant::now() + self.deadline);
        }
        Ok(())
    }

    fn ready(&mut self, events: &mut Vec<Event>) {
        (self.is_ready, self.idle_since) = (true, Instant::now());
        if self.work.is_none() {
            self.overdue = None;
        }
        events.push(Event::Ready);
    }

    /// Reads the output of the container's program.
    fn listen(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        let mut buffer = [0; 512];
        while let Some(stdout) = &self.stdout {
            match read(stdout, &mut buffer) {
                Ok(0) => self.stdout = None,
                Ok(length) => self.heard.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(format!("read from the container: {errno}")),
            }
        }
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            let event = event(&line);
            let event = event.ok_or_else(|| format!("the container said {:?}", shown(&line)))?;
            if event == Event::Ready {
                self.ready(events);
                continue;
            }
            if matches!(event, Event::Done(_)) || self.work.is_none() {
                self.overdue = None;
            }
            events.push(event);
        }
        if self.heard.len() > LONGEST {
            return Err(format!("the container said {:?}", shown(&self.heard)));
        }
        Ok(())
    }
}

fn told(error: Error) -> String {
    error.to_string()
}

/// Returns a process with a handle that tells its end.
fn watched(pid: Pid) -> Result<(Pid, OwnedFd), String> {
    let handle = pidfd_open(pid, PidfdFlags::empty());
    Ok((pid, handle.map_err(|errno| format!("open process {}: {errno}", pid.as_raw_nonzero()))?))
}

/// Reaps a process if it has ended.
fn ended(process: &mut Option<(Pid, OwnedFd)>) -> Result<Option<End>, String> {
    let Some((pid, handle)) = process else { return Ok(None) };
    let mut files = [PollFd::new(handle, PollFlags::IN)];
    let has_ended = process::ready(&mut files, Instant::now(), Duration::ZERO);
    if !has_ended.map_err(|failure| failure.to_string())? {
        return Ok(None);
    }
    let end = process::wait(*pid, Duration::ZERO).map_err(|failure| failure.to_string())?.0;
    *process = None;
    Ok(Some(end))
}

/// Parses a line of the program: a letter, and seconds since the epoch.
fn event(line: &[u8]) -> Option<Event> {
    let (letter, seconds) = std::str::from_utf8(line).ok()?.trim_end().split_once(' ')?;
    let seconds = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    let time = UNIX_EPOCH.checked_add(seconds)?;
    match letter {
        "r" => Some(Event::Ready),
        "b" => Some(Event::Begun(time)),
        "d" => Some(Event::Done(time)),
        _ => None,
    }
}

/// Formats a program's output for errors.
fn shown(said: &[u8]) -> String {
    String::from_utf8_lossy(&said[..said.len().min(LONGEST)]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_events() {
        assert_eq!(event(b"r 1795258760.264780\n"), Some(Event::Ready));
        let Some(Event::Done(time)) = event(b"d 1795258760.500000\n") else { panic!("not done") };
        let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
        assert_eq!(since.as_millis(), 1_795_258_760_500);
        for bad in [&b"b\n"[..], b"b x\n", b"x 1.0\n", b"b -1\n", b"\xff 1\n", b"b 1e300\n", b"\n"]
        {
            assert_eq!(event(bad), None, "{bad:?}");
        }
    }
}
