//! Sums up the events of [`follow`](crate::follow::follow()).

use crate::follow::{Command, End, Error, Event, Mode, call_name, follow};
use rustix::process::Pid;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Runs `command` and counts the system calls or instructions of it and its descendants.
///
/// # Errors
/// As [`follow`](crate::follow::follow()).
pub fn count(command: &Command, mode: Mode, deadline: Duration) -> Result<Report, Error> {
    let mut counter = Counter::default();
    let end =
        follow(command, mode, deadline, &mut |pid: Pid, event: Event| counter.take(pid, event))?;
    let mut report = Report { processes: counter.processes, end, complete: true };
    if let Mode::Instructions { bound } = mode {
        report.complete = report.instructions() < bound;
    }
    Ok(report)
}

/// The result of counting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The command and its descendants, in order of creation.
    pub processes: Vec<Process>,
    /// The way in which the command ended.
    pub end: End,
    /// Whether everything was counted: false if the bound on instructions was reached.
    pub complete: bool,
}

/// One process with its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The pid of the process in our PID namespace.
    pub pid: i32,
    /// The counts of the process, one element per program. The first element of a descendant is the program that it
    /// inherits from its parent and runs until its first execve(2). If the process executed the container's own
    /// program, that program is the last element, without counts.
    pub images: Vec<Image>,
    /// The reason why the process is no longer followed.
    pub end: End,
}

/// The counts of a process between two calls of execve(2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The program with its arguments.
    pub command: Vec<String>,
    /// The number of system calls by name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Instructions in user space.
    pub instructions: u64,
}

impl Report {
    /// Returns the number of system calls of all processes by name.
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        let mut sum = BTreeMap::new();
        for (name, calls) in self.images().flat_map(|image| &image.calls) {
            *sum.entry(*name).or_default() += calls;
        }
        sum
    }

    /// Returns the number of instructions in user space of all processes.
    pub fn instructions(&self) -> u64 {
        self.images().map(|image| image.instructions).sum()
    }

    fn images(&self) -> impl Iterator<Item = &Image> {
        self.processes.iter().flat_map(|process| &process.images)
    }
}

/// The report under construction.
#[derive(Default)]
struct Counter {
    processes: Vec<Process>,
    /// The index in `processes` of each process and thread.
    places: HashMap<Pid, usize>,
    /// Whether the command has been executed; before that, the child runs a copy of this process.
    begun: bool,
}

impl Counter {
    fn take(&mut self, pid: Pid, event: Event) {
        match event {
            Event::Born { parent, process } => self.born(pid, parent, process),
            Event::Executed { command, container: _, instructions } => {
                self.executed(pid, command, instructions);
            }
            Event::Entered { number, .. } => {
                if let Some(image) = self.image(pid) {
                    *image.calls.entry(call_name(number)).or_default() += 1;
                }
            }
            Event::Left { .. } | Event::Stepped { .. } | Event::Signalled(_) => {}
            Event::Gone { end, instructions } => {
                if let Some(image) = self.image(pid) {
                    image.instructions += instructions;
                }
                if let Some(process) = self.process(pid)
                    && process.pid == pid.as_raw_pid()
                {
                    process.end = end;
                }
            }
        }
    }

    fn born(&mut self, pid: Pid, parent: Option<Pid>, process: Pid) {
        if let Some(place) = self.places.get(&process).copied().filter(|_| process != pid) {
            self.places.insert(pid, place);
            return;
        }
        let command =
            parent.and_then(|parent| self.image(parent)).map(|image| image.command.clone());
        self.places.insert(pid, self.processes.len());
        self.processes.push(Process {
            pid: pid.as_raw_pid(),
            images: vec![Image { command: command.unwrap_or_default(), ..Image::default() }],
            end: End::Left,
        });
    }

    fn executed(&mut self, pid: Pid, command: Vec<String>, instructions: u64) {
        let first = !std::mem::replace(&mut self.begun, true);
        let Some(process) = self.process(pid) else { return };
        if first {
            process.images.clear();
        } else if let Some(image) = process.images.last_mut() {
            image.instructions += instructions;
        }
        process.images.push(Image { command, ..Image::default() });
    }

    fn process(&mut self, pid: Pid) -> Option<&mut Process> {
        let place = self.places.get(&pid)?;
        self.processes.get_mut(*place)
    }

    /// Returns the current image of a process or thread.
    fn image(&mut self, pid: Pid) -> Option<&mut Image> {
        self.process(pid)?.images.last_mut()
    }
}
