//! What a command and its descendants did, added up.

use crate::End;
use std::collections::BTreeMap;
use std::fmt;

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The command and its descendants, in the order of their birth.
    pub processes: Vec<Process>,
    /// How the command ended.
    pub end: End,
    /// Whether everything was counted: the bound was not reached.
    pub complete: bool,
}

/// One process with its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// In our PID namespace.
    pub pid: i32,
    /// The process or thread that cloned it.
    pub parent: Option<i32>,
    /// How many threads it had in all.
    pub threads: usize,
    /// What it did as each of the programs that it was, the first being its parent's. A container's own
    /// program is the last one, and empty.
    pub images: Vec<Image>,
    /// Why it was followed no longer.
    pub end: End,
}

/// What a process did from one execve to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The program with its arguments.
    pub command: Vec<String>,
    /// Its system calls by name.
    pub calls: BTreeMap<&'static str, Tally>,
    /// Instructions in user space.
    pub instructions: u64,
}

/// How often a system call was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// In all.
    pub calls: u64,
    /// Of these, how many failed.
    pub failed: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
    }
}

impl Report {
    /// System calls by name, of all processes.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, Tally> {
        let mut sum: BTreeMap<&'static str, Tally> = BTreeMap::new();
        for (name, tally) in self.images().flat_map(|image| &image.calls) {
            *sum.entry(name).or_default() += *tally;
        }
        sum
    }

    /// System calls of all processes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.images().map(Image::calls).sum()
    }

    /// Instructions in user space of all processes.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.images().map(|image| image.instructions).sum()
    }

    fn images(&self) -> impl Iterator<Item = &Image> {
        self.processes.iter().flat_map(|process| &process.images)
    }
}

impl Image {
    /// All its system calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.values().map(|tally| tally.calls).sum()
    }
}

impl fmt::Display for Report {
    /// A line a program that a process was: its number, what was counted, and the command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} {:>8} {:>12}  COMMAND", "PID", "CALLS", "INSTRUCTIONS")?;
        for process in &self.processes {
            for image in &process.images {
                let (calls, command) = (image.calls(), image.command.join(" "));
                writeln!(f, "{:>8} {calls:>8} {:>12}  {command}", process.pid, image.instructions)?;
            }
        }
        write!(f, "{:>8} {:>8} {:>12}", "all", self.calls(), self.instructions())
    }
}
