//! The words for signals in error messages: those of runc, which engines look for.

use core::fmt;

/// The words of the signals from 1 on (Go's package `syscall`).
const WORDS: [&str; 31] = [
    "hangup",
    "interrupt",
    "quit",
    "illegal instruction",
    "trace/breakpoint trap",
    "aborted",
    "bus error",
    "floating point exception",
    "killed",
    "user defined signal 1",
    "segmentation fault",
    "user defined signal 2",
    "broken pipe",
    "alarm clock",
    "terminated",
    "stack fault",
    "child exited",
    "continued",
    "stopped (signal)",
    "stopped",
    "stopped (tty input)",
    "stopped (tty output)",
    "urgent I/O condition",
    "CPU time limit exceeded",
    "file size limit exceeded",
    "virtual timer expired",
    "profiling timer expired",
    "window changed",
    "I/O possible",
    "power failure",
    "bad system call",
];

/// The words for a signal, for messages.
#[derive(Debug, Clone, Copy)]
pub struct SignalWords(pub i32);

impl fmt::Display for SignalWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0.checked_sub(1).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| WORDS.get(at)) {
            Some(words) => f.write_str(words),
            None => write!(f, "signal {}", self.0),
        }
    }
}
