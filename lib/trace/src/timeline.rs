//! What a command and everybody it made did, on one time line.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::Phase;

/// A command of a runtime, from its process's start to its end. All times are nanoseconds of
/// CLOCK_MONOTONIC_RAW, which no time namespace shifts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// What ran, such as `"dayfly run"`.
    pub command: String,
    /// The container.
    pub id: String,
    /// Who took part; the command itself first.
    pub rows: Vec<Row>,
    /// What a reader must know: how a time was found out, what is missing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A process and what it did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Row {
    /// What it is, such as `"parent"` or `"init"`.
    pub name: String,
    /// Its number in the caller's PID namespace.
    pub pid: i32,
    /// Who made it: an index into the rows.
    pub parent: Option<usize>,
    /// When it was made.
    pub start: u64,
    /// When it ended, or its part of the command did.
    pub end: u64,
    /// What it did, in order of start; one may lie within another.
    pub spans: Vec<Span>,
    /// How many found no room.
    #[serde(default)]
    pub lost: u64,
}

/// Something done, or waited for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Span {
    /// What it is for.
    pub phase: Phase,
    /// What it does, such as `"mount"`.
    pub name: String,
    /// What it does it to; may be empty.
    pub object: String,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Whom it waited for, if it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Awaited>,
    /// What it failed with, or 0.
    #[serde(default)]
    pub errno: u16,
}

/// Whom a span waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Awaited {
    /// Another row.
    Row(usize),
    /// Somebody who is not on the time line, such as the kernel.
    Other,
}

/// One process letting another one go on: an arrow in a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// Whose row it comes from, and when.
    pub from: (usize, u64),
    /// Whose row it goes to, and when.
    pub to: (usize, u64),
}

impl Span {
    /// Nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Row {
    /// Nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// When it had last finished something, up to `time`.
    fn done_before(&self, time: u64) -> u64 {
        let ends = self.spans.iter().filter(|span| span.wait.is_none()).map(|span| span.end);
        let last = ends.filter(|end| *end <= time).max().unwrap_or(self.start);
        if self.end <= time { last.max(self.end) } else { last }
    }
}

impl Timeline {
    /// When the first row begins.
    pub fn start(&self) -> u64 {
        self.rows.iter().map(|row| row.start).min().unwrap_or(0)
    }

    /// When the last row ends.
    pub fn end(&self) -> u64 {
        self.rows.iter().map(|row| row.end).max().unwrap_or(0)
    }

    /// Births, and the ends of waiting for a row, in order of time.
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
