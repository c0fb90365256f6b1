//! Sums up the events of [`follow`](crate::follow::follow()).

use crate::follow::report::{Image, Process, Report};
use crate::follow::{Command, End, Error, Event, Mode, call_name, follow};
use rustix::process::Pid;
use std::collections::HashMap;
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
            Event::Entered { number, .. } => self.count_call(pid, number, |tally| tally.calls += 1),
            Event::Left { number, result: Err(_) } => {
                self.count_call(pid, number, |tally| tally.failed += 1);
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
            if let Some(process) = self.process(pid) {
                process.threads += 1;
            }
            return;
        }
        let command =
            parent.and_then(|parent| self.image(parent)).map(|image| image.command.clone());
        self.places.insert(pid, self.processes.len());
        self.processes.push(Process {
            pid: pid.as_raw_pid(),
            parent: parent.map(Pid::as_raw_pid),
            threads: 1,
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

    fn count_call(&mut self, pid: Pid, number: u64, add: impl FnOnce(&mut crate::follow::Tally)) {
        if let Some(image) = self.image(pid) {
            add(image.calls.entry(call_name(number)).or_default());
        }
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
