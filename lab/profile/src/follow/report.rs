//! The totals of a command and its descendants.

use crate::follow::End;
use report::Table;
use std::collections::BTreeMap;
use std::fmt;

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
    /// The process or thread that created the process.
    pub parent: Option<i32>,
    /// The total number of threads of the process.
    pub threads: usize,
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
    /// The system calls by name.
    pub calls: BTreeMap<&'static str, Tally>,
    /// Instructions in user space.
    pub instructions: u64,
}

/// The number of calls of a system call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of all calls.
    pub calls: u64,
    /// The number of failed calls.
    pub failed: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
    }
}

impl Report {
    /// Returns the system calls of all processes by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, Tally> {
        let mut sum: BTreeMap<&'static str, Tally> = BTreeMap::new();
        for (name, tally) in self.images().flat_map(|image| &image.calls) {
            *sum.entry(name).or_default() += *tally;
        }
        sum
    }

    /// Returns the number of system calls of all processes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.images().map(Image::calls).sum()
    }

    /// Returns the number of instructions in user space of all processes.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.images().map(|image| image.instructions).sum()
    }

    fn images(&self) -> impl Iterator<Item = &Image> {
        self.processes.iter().flat_map(|process| &process.images)
    }
}

impl Image {
    /// Returns the number of system calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.values().map(|tally| tally.calls).sum()
    }
}

impl fmt::Display for Report {
    /// Writes a line per program of each process, with its pid, the counts and the command, and then a line with the
    /// totals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["PID", "CALLS", "INSTRUCTIONS", "COMMAND"]).left(&[3]);
        let mut row = |who: String, calls: u64, instructions: u64, command: String| {
            table.row(vec![who, calls.to_string(), instructions.to_string(), command]);
        };
        for process in &self.processes {
            for image in &process.images {
                let (calls, command) = (image.calls(), image.command.join(" "));
                row(process.pid.to_string(), calls, image.instructions, command);
            }
        }
        row("all".to_owned(), self.calls(), self.instructions(), String::new());
        f.write_str(table.to_string().trim_end())
    }
}
