//! The progress of a long run, shown on one line of stderr if stderr is a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The progress line. It is cleared when dropped.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    last: Option<Instant>,
}

impl Progress {
    /// Returns a progress line that is not shown yet.
    pub fn new() -> Self {
        Self { shown: stderr().is_terminal(), last: None }
    }

    /// Shows that `done` of `all` rounds of `what` are done. The line is updated at a limited rate.
    pub fn tell(&mut self, what: &str, done: usize, all: usize) {
        const SELDOM: Duration = Duration::from_millis(200);
        if !self.shown || self.last.is_some_and(|last| last.elapsed() < SELDOM) {
            return;
        }
        self.last = Some(Instant::now());
        let _ = write!(stderr(), "\r\x1b[K{what}: {done} of {all}");
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.last.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
