//! The table of system calls.

use std::collections::HashMap;
use std::sync::LazyLock;
use trace::Phase;

/// What is known about a system call by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The phase; `None` if that of the object counts.
    pub phase: Option<Phase>,
    /// Whether the call may sleep until another process acts.
    pub waits: bool,
    /// The kind of the argument that determines the object, and the argument's number.
    pub object: (&'static str, usize),
}

/// Returns what is known about the call `name`; `None` for calls without an object whose phase is not known.
pub fn call(name: &str) -> Option<Call> {
    static CALLS: LazyLock<HashMap<&str, Call>> = LazyLock::new(|| {
        let lines = include_str!("calls.txt").lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(entries).collect()
    });
    CALLS.get(name).copied()
}

/// Reads a line of the table.
fn entries(line: &'static str) -> impl Iterator<Item = (&'static str, Call)> {
    let mut words = line.split_whitespace();
    let phase = words.next().unwrap_or_default();
    let object = words.next().unwrap_or_default();
    let (kind, argument) = object.split_once(':').unwrap_or((object, "0"));
    let named = phase.trim_start_matches("wait:");
    let call = Call {
        phase: Phase::ALL.into_iter().find(|phase| phase.name() == named),
        waits: phase != named,
        object: (kind, argument.parse().unwrap_or(0)),
    };
    words.map(move |name| (name, call))
}
