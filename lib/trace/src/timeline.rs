//! The time line of a command and the processes that it created.

use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use crate::Phase;

/// A command of a runtime, from the start of its process to its end. All times are nanoseconds of CLOCK_MONOTONIC_RAW,
/// as read in the command's time namespace. In JSON, rows and spans are apart ([`Format::Lines`](crate::Format::Lines)).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Timeline {
    /// The command, such as `"dayfly run"`.
    pub command: String,
    /// The container id.
    pub id: String,
    /// The processes; the command itself first.
    #[serde(skip)]
    pub rows: Vec<Row>,
    /// Notes for the reader, such as how a time was determined or what is missing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A process and its spans.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Row {
    /// The role of the process, such as `"parent"` or `"init"`.
    pub name: String,
    /// The process's pid in the caller's PID namespace.
    pub pid: i32,
    /// The index of the row of the process that created this process.
    pub parent: Option<usize>,
    /// The time at which the process was created.
    pub start: u64,
    /// The time when the process ended, or when it had completed its part of the command.
    pub end: u64,
    /// The spans of the process, ordered by start; they may be nested.
    #[serde(skip)]
    pub spans: Vec<Span>,
    /// The number of spans that did not fit in the buffer.
    #[serde(default)]
    pub lost: u64,
}

/// A piece of work, or a wait.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Span {
    /// The purpose of the span.
    pub phase: Phase,
    /// The operation, such as `"mount"`.
    pub name: String,
    /// The object of the operation; may be empty.
    pub object: String,
    /// The start time of the span.
    pub start: u64,
    /// The end time of the span.
    pub end: u64,
    /// The awaited row, if this is a wait.
    #[serde(default)]
    pub wait: Option<Awaited>,
    /// The errno if the operation failed, else 0.
    #[serde(default)]
    pub errno: u16,
}

/// The object of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Awaited {
    /// Another row.
    Row(usize),
    /// Something that is not on the time line, such as the kernel.
    Other,
}

/// A point where a process lets another one proceed; shown as an arrow in pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// The index of the row that lets another row proceed, and the time at which that happens.
    pub from: (usize, u64),
    /// The index of the row that proceeds, and the time at which it proceeds.
    pub to: (usize, u64),
}

impl Span {
    /// Returns whether this is work of the runtime: neither a wait nor the execution of the container's program.
    pub(crate) fn is_work(&self) -> bool {
        self.wait.is_none() && self.phase != Phase::Program
    }

    /// Returns the nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Row {
    /// Returns the nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the end of the row's last work that ended by `time`, or the end of the row if it ended by then.
    fn done_before(&self, time: u64) -> u64 {
        let ends = self.spans.iter().filter(|span| span.wait.is_none()).map(|span| span.end);
        let last = ends.filter(|end| *end <= time).max().unwrap_or(self.start);
        if self.end <= time { last.max(self.end) } else { last }
    }
}

impl Timeline {
    /// Returns the time at which the earliest row starts.
    pub fn start(&self) -> u64 {
        self.rows.iter().map(|row| row.start).min().unwrap_or(0)
    }

    /// Returns the time at which the latest row ends.
    pub fn end(&self) -> u64 {
        self.rows.iter().map(|row| row.end).max().unwrap_or(0)
    }

    /// Returns the hand-overs in order of time: one for each process creation, and one for the end of each wait for a
    /// row.
    pub fn handovers(&self) -> Vec<Handover> {
        let mut arrows = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            if let Some(parent) = row.parent {
                arrows.push(Handover { from: (parent, row.start), to: (index, row.start) });
            }
            for span in &row.spans {
                let Some(Awaited::Row(other)) = span.wait else { continue };
                let Some(giver) = self.rows.get(other) else { continue };
                let given = giver.done_before(span.end);
                arrows.push(Handover { from: (other, given), to: (index, span.end) });
            }
        }
        arrows.sort_by_key(|arrow| arrow.to.1);
        arrows
    }
}
