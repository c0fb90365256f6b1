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
        self.raw_os_error() as u16
    }
}

impl Failed for sys::Error {
    fn errno(&self) -> u16 {
        self.errno.raw_os_error() as u16
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
struct Entry {
    what: What,
    start: u64,
    end: u64,
    errno: u16,
}

#[derive(Debug)]
enum What {
    Named {
        phase: Phase,
        name: &'static str,
        object: String,
        awaits: Option<&'static str>,
    },
    Step(&'static dyn Steps, usize),
    /// A wait for the end of the process in another row.
    Lived(&'static str, String, usize),
}

#[derive(Debug)]
struct Actor {
    name: &'static str,
    pid: i32,
    start: u64,
    end: Option<u64>,
    recorded: Option<(Recorder, &'static dyn Steps, usize)>,
    entries: Vec<Entry>,
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
        let end = now();
        let errno = result.as_ref().err().map_or(0, Failed::errno);
        let what = What::Named { phase, name, object: object.to_string(), awaits };
        self.kept.borrow_mut().entries.push(Entry { what, start, end, errno });
        result
    }

    /// Records work that lasted from `start` to `end`.
    pub fn add(&self, phase: Phase, name: &'static str, object: &str, (start, end): (u64, u64)) {
        if self.is_on() {
            let what = What::Named { phase, name, object: object.to_string(), awaits: None };
            self.kept.borrow_mut().entries.push(Entry { what, start, end, errno: 0 });
        }
    }

    /// Records a step of a list; the step began at `start` and ends now.
    pub fn step(&self, steps: &'static dyn Steps, step: usize, start: u64, errno: u16) {
        if self.is_on() {
            let what = What::Step(steps, step);
            self.kept.borrow_mut().entries.push(Entry { what, start, end: now(), errno });
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
            self.kept.borrow_mut().actors.push(Actor {
                name,
                pid: pid.as_raw_pid(),
                start: now(),
                end: None,
                recorded: Some((recorder.clone(), steps, first)),
                entries: Vec::new(),
            });
        }
    }

    /// Adds a process that executes a single step, from `start` to `end`.
    pub fn lived(
        &self,
        name: &'static str,
        pid: Pid,
        phase: Phase,
        object: &str,
        (start, end): (u64, u64),
    ) {
        if self.is_on() {
            let what = What::Named { phase, name, object: object.to_string(), awaits: None };
            self.kept.borrow_mut().actors.push(Actor {
                name,
                pid: pid.as_raw_pid(),
                start,
                end: Some(end),
                recorded: None,
                entries: alloc::vec![Entry { what, start, end, errno: 0 }],
            });
        }
    }

    /// Adds a process that was created at `start`, and records that the command waited for it from `start` until it
    /// ended.
    pub fn lived_awaited(&self, name: &'static str, pid: Pid, object: &str, time: (u64, u64)) {
        self.lived(name, pid, Phase::Bootstrap, object, time);
        if self.is_on() {
            let mut kept = self.kept.borrow_mut();
            let what = What::Lived(name, object.to_string(), kept.actors.len());
            kept.entries.push(Entry { what, start: time.0, end: time.1, errno: 0 });
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
            let at = kept.actors.iter().rposition(|actor| actor.name == name);
            at.map_or(Awaited::Other, |at| Awaited::Row(at + 1))
        };
        let mut rows = Vec::with_capacity(kept.actors.len() + 1);
        rows.push(Row {
            name: PARENT.into(),
            pid: rustix::process::getpid().as_raw_pid(),
            parent: None,
            start: self.began.get(),
            end,
            spans: spans(&kept.entries, &find),
            lost: 0,
        });
        for actor in &kept.actors {
            let mut row = Row {
                name: actor.name.into(),
                pid: actor.pid,
                parent: Some(0),
                start: actor.start,
                end: 0,
                spans: spans(&actor.entries, &find),
                lost: 0,
            };
            if let Some((recorder, steps, first)) = &actor.recorded {
                row.lost = recorder.lost();
                row.start = recorder.birth().unwrap_or(row.start);
                row.spans.extend(recorder.records().map(|record| {
                    let mut span = labelled(*steps, first + usize::from(record.step), &find);
                    (span.start, span.end) = (record.start, record.end);
                    span.errno = record.errno;
                    span
                }));
            }
            let last = row.spans.iter().map(|span| span.end).max().unwrap_or(row.start);
            row.end = actor.end.unwrap_or(last);
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

fn spans(entries: &[Entry], find: &dyn Fn(&str) -> Awaited) -> Vec<Span> {
    let mut spans: Vec<Span> = entries
        .iter()
        .map(|entry| {
            let span = match &entry.what {
                What::Step(steps, step) => labelled(*steps, *step, find),
                What::Lived(name, object, row) => Span {
                    phase: Phase::Bootstrap,
                    name: alloc::format!("await {name}"),
                    object: object.clone(),
                    wait: Some(Awaited::Row(*row)),
                    ..Span::default()
                },
                What::Named { phase, name, object, awaits } => Span {
                    phase: *phase,
                    name: (*name).into(),
                    object: object.clone(),
                    wait: awaits.map(find),
                    ..Span::default()
                },
            };
            Span { start: entry.start, end: entry.end, errno: entry.errno, ..span }
        })
        .collect();
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
