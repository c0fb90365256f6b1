//! Recording of the spans of the command itself and of the processes that it creates.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::{Debug, Display};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::{Awaited, Phase, Row, Span, Timeline};
use sys::recorder::{Recorder, now};

/// The description of a step.
#[derive(Debug, Clone)]
pub struct Label<'a> {
    /// The phase of the step.
    pub phase: Phase,
    /// The operation, such as `"mount"`.
    pub name: &'static str,
    /// The object of the operation; may be empty.
    pub object: Cow<'a, str>,
    /// The name of the row that the step waits for, if the step is a wait.
    pub awaits: Option<&'static str>,
}

/// A list of steps that is fixed before the run, so that a running process records only the indices of its steps.
pub trait Steps: Debug {
    /// Returns the description of a step.
    fn label(&self, step: usize) -> Option<Label<'_>>;
}

/// An error that can be recorded in a span.
pub trait Failed {
    /// Returns the errno, or 0 if there is none.
    fn errno(&self) -> u16;
}

impl Failed for Errno {
    fn errno(&self) -> u16 {
        u16::try_from(self.raw_os_error()).unwrap_or(u16::MAX)
    }
}

impl Failed for sys::Error {
    fn errno(&self) -> u16 {
        self.errno.errno()
    }
}

/// Records the spans of a command while it runs. All traced code holds a reference to the command's tracer. When the
/// tracer is off, nothing is measured or recorded.
#[derive(Debug)]
pub struct Tracer {
    on: Cell<bool>,
    began: Cell<u64>,
    kept: RefCell<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: Vec<Entry>,
    actors: Vec<Actor>,
    notes: Vec<String>,
}

#[derive(Debug)]
enum Entry {
    /// A span, with the name of the row that it waits for.
    Span(Span, Option<&'static str>),
    /// A step of a list, with its start, its end and its errno.
    Step(&'static dyn Steps, usize, (u64, u64), u16),
}

/// A process that the command created.
#[derive(Debug)]
struct Actor {
    /// The row as far as it is known; the end is 0 if it is not.
    row: Row,
    recorded: Option<(Recorder, &'static dyn Steps, usize)>,
}

impl Default for Tracer {
    fn default() -> Self {
        Self::off()
    }
}

impl Tracer {
    /// Returns a tracer that records nothing.
    pub const fn off() -> Self {
        let kept = Kept { entries: Vec::new(), actors: Vec::new(), notes: Vec::new() };
        Self { on: Cell::new(false), began: Cell::new(0), kept: RefCell::new(kept) }
    }

    /// Starts recording.
    pub fn turn_on(&self) {
        self.began.set(now());
        self.on.set(true);
    }

    /// Returns the time when recording was turned on.
    pub fn turned_on(&self) -> u64 {
        self.began.get()
    }

    /// Sets the time when the command's process was created, which is earlier than the start of recording.
    pub fn began(&self, began: u64) {
        self.began.set(began);
    }

    /// Returns whether the tracer records.
    pub fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Returns the current time if the tracer is on, else 0.
    pub fn clock(&self) -> u64 {
        if self.is_on() { now() } else { 0 }
    }

    /// Adds a note that is shown to the reader of the trace.
    pub fn remark(&self, note: impl Display) {
        if self.is_on() {
            self.kept.borrow_mut().notes.push(note.to_string());
        }
    }

    /// Calls `work`, and records its duration and result.
    ///
    /// # Errors
    /// Those of the work.
    pub fn work<T, E: Failed>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.timed(phase, name, object, None, work)
    }

    /// Calls `wait`, and records it as a wait for the row `awaits`, or for something that has no row, such as
    /// `"kernel"`.
    ///
    /// # Errors
    /// Those of the wait.
    pub fn wait<T, E: Failed>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        awaits: &'static str,
        wait: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.timed(phase, name, object, Some(awaits), wait)
    }

    fn timed<T, E: Failed>(
        &self,
        phase: Phase,
        name: &'static str,
        object: &str,
        awaits: Option<&'static str>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.is_on() {
            return work();
        }
        let start = now();
        let result = work();
        let time = (start, now());
        let errno = result.as_ref().err().map_or(0, Failed::errno);
        self.keep(Span { errno, ..span(phase, name, object, time) }, awaits);
        result
    }

    fn keep(&self, span: Span, awaits: Option<&'static str>) {
        self.kept.borrow_mut().entries.push(Entry::Span(span, awaits));
    }

    /// Records work that lasted from `start` to `end`.
    pub fn add(&self, phase: Phase, name: &'static str, object: &str, time: (u64, u64)) {
        if self.is_on() {
            self.keep(span(phase, name, object, time), None);
        }
    }

    /// Records a step of a list; the step began at `start` and ends now.
    pub fn step(&self, steps: &'static dyn Steps, step: usize, start: u64, errno: u16) {
        if self.is_on() {
            let entry = Entry::Step(steps, step, (start, now()), errno);
            self.kept.borrow_mut().entries.push(entry);
        }
    }

    /// Adds a process that records its own steps. The process's step 0 is the step `first` of the list `steps`.
    pub fn joined(
        &self,
        name: &'static str,
        pid: Pid,
        recorder: &Recorder,
        steps: &'static dyn Steps,
        first: usize,
    ) {
        if self.is_on() {
            let row = row(name, pid, Some(0), now());
            let recorded = Some((recorder.clone(), steps, first));
            self.kept.borrow_mut().actors.push(Actor { row, recorded });
        }
    }

    /// Adds a process that executes a single step, from `start` to `end`.
    pub fn lived(
        &self,
        name: &'static str,
        pid: Pid,
        phase: Phase,
        object: &str,
        time: (u64, u64),
    ) {
        if self.is_on() {
            let spans = alloc::vec![span(phase, name, object, time)];
            let row = Row { spans, end: time.1, ..row(name, pid, Some(0), time.0) };
            self.kept.borrow_mut().actors.push(Actor { row, recorded: None });
        }
    }

    /// Adds a process that was created at `start`, and records that the command waited for it from `start` until it
    /// ended.
    pub fn lived_awaited(&self, name: &'static str, pid: Pid, object: &str, time: (u64, u64)) {
        self.lived(name, pid, Phase::Bootstrap, object, time);
        if self.is_on() {
            let wait = Some(Awaited::Row(self.kept.borrow().actors.len()));
            let name = alloc::format!("await {name}");
            self.keep(Span { wait, ..span(Phase::Bootstrap, &name, object, time) }, None);
        }
    }

    /// Returns everything recorded so far, as the time line of `command` for the container `id`.
    pub fn timeline(&self, command: &str, id: &str) -> Timeline {
        let end = now();
        let kept = self.kept.borrow();
        // If several processes have this name, the name refers to the last one.
        let find = |name: &str| {
            if name == PARENT {
                return Awaited::Row(0);
            }
            let at = kept.actors.iter().rposition(|actor| actor.row.name == name);
            at.map_or(Awaited::Other, |at| Awaited::Row(at + 1))
        };
        let own = row(PARENT, rustix::process::getpid(), None, self.began.get());
        let mut rows = alloc::vec![Row { end, spans: spans(&kept.entries, &find), ..own }];
        for actor in &kept.actors {
            let mut row = actor.row.clone();
            if let Some((recorder, steps, first)) = &actor.recorded {
                row.lost = recorder.lost();
                row.start = recorder.birth().unwrap_or(row.start);
                row.spans.extend(recorder.records().map(|record| {
                    let (start, end) = (record.start, record.end);
                    let span = labelled(*steps, first + usize::from(record.step), &find);
                    Span { start, end, errno: record.errno, ..span }
                }));
                row.end = row.spans.iter().map(|span| span.end).max().unwrap_or(row.start);
            }
            rows.push(row);
        }
        close(&mut rows);
        let notes = kept.notes.clone();
        Timeline { command: command.into(), id: id.into(), rows, notes }
    }
}

/// Sets the end of steps whose end was not recorded, because execve(2) replaced the program, the process ended, or the
/// step is still running.
fn close(rows: &mut [Row]) {
    let program = rows.iter().find(|row| row.name == PROGRAM).map(|row| row.start);
    let command = rows.first().map_or(0, |row| row.end);
    let waits: Vec<(usize, u64)> = rows
        .iter()
        .flat_map(|row| &row.spans)
        .filter_map(|span| match span.wait {
            Some(Awaited::Row(row)) => Some((row, span.end)),
            _ => None,
        })
        .collect();
    for (index, row) in rows.iter_mut().enumerate() {
        for span in row.spans.iter_mut().filter(|span| span.end == 0) {
            // If another process waited for this process, the end of that wait also ends the step.
            let heard = waits.iter().filter(|(row, end)| *row == index && *end > span.start);
            let heard = heard.map(|(_, end)| *end).max();
            span.end = program.or(heard).unwrap_or(command).max(span.start);
            row.end = row.end.max(span.end);
        }
    }
}

/// The name of the command's own row.
pub const PARENT: &str = "parent";
/// The name of the row of the container's program.
pub const PROGRAM: &str = "program";

fn row(name: &str, pid: Pid, parent: Option<usize>, start: u64) -> Row {
    Row { name: name.into(), pid: pid.as_raw_pid(), parent, start, ..Row::default() }
}

fn span(phase: Phase, name: &str, object: &str, (start, end): (u64, u64)) -> Span {
    Span { phase, name: name.into(), object: object.into(), start, end, ..Span::default() }
}

fn spans(entries: &[Entry], find: &dyn Fn(&str) -> Awaited) -> Vec<Span> {
    let span = |entry: &Entry| match entry {
        Entry::Span(span, awaits) => Span { wait: awaits.map(find).or(span.wait), ..span.clone() },
        Entry::Step(steps, step, (start, end), errno) => {
            let span = labelled(*steps, *step, find);
            Span { start: *start, end: *end, errno: *errno, ..span }
        }
    };
    let mut spans: Vec<Span> = entries.iter().map(span).collect();
    spans.sort_by_key(|span| span.start);
    spans
}

fn labelled(steps: &dyn Steps, step: usize, find: &dyn Fn(&str) -> Awaited) -> Span {
    let Some(label) = steps.label(step) else {
        return Span { name: alloc::format!("step {step}"), ..Span::default() };
    };
    Span {
        phase: label.phase,
        name: label.name.into(),
        object: label.object.into_owned(),
        wait: label.awaits.map(find),
        ..Span::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Two;

    impl Steps for Two {
        fn label(&self, step: usize) -> Option<Label<'_>> {
            let label = |name, awaits| {
                Some(Label { phase: Phase::Mounts, name, object: "it".into(), awaits })
            };
            match step {
                0 => label("mount", None),
                1 => label("await parent", Some("parent")),
                2 => label("exec", None),
                _ => None,
            }
        }
    }

    #[test]
    fn nothing_is_kept_when_off() {
        let tracer = Tracer::off();
        assert_eq!(tracer.work(Phase::Mounts, "m", "", || Ok::<_, Errno>(5)), Ok(5));
        assert_eq!(tracer.clock(), 0);
        assert!(tracer.timeline("run", "c").rows[0].spans.is_empty());
    }

    #[test]
    fn all_that_took_part_is_on_one_time_line() {
        let tracer = Tracer::off();
        let (began, pid) = (now(), Pid::from_raw(7).unwrap());
        tracer.turn_on();
        tracer.began(began);
        let recorder = Recorder::new(3);
        tracer.joined("init", pid, &recorder, &Two, 0);
        recorder.end(recorder.begin(0), Ok(()));
        recorder.end(recorder.begin(1), Err(Errno::PIPE));
        recorder.begin(2);
        let failed = tracer.wait(Phase::Sync, "await exec", "", "init", || Err::<(), _>(Errno::IO));
        assert_eq!(failed, Err(Errno::IO));
        tracer.lived(PROGRAM, pid, Phase::Program, "sh", (now(), now()));

        let line = tracer.timeline("dayfly run", "c");
        let [host, init, program] = &line.rows[..] else { panic!("{line:?}") };
        assert_eq!((host.start, host.parent), (began, None));
        assert_eq!((host.spans[0].wait, host.spans[0].errno), (Some(Awaited::Row(1)), 5));
        assert_eq!((init.pid, init.parent, init.spans.len()), (7, Some(0), 3));
        assert_eq!(init.spans[1].wait, Some(Awaited::Row(0)));
        assert_eq!(init.spans[2].end, program.start, "exec ends where the program begins");
        assert_eq!(init.end, program.start);
    }
}
