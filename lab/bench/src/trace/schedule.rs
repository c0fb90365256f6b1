//! Starts at fixed times, in turns.

use super::Column;
use crate::Error;
use crate::options::Trace;
use crate::race::{Go, Operation, go, sleepers};
use crate::stand::{Entrant, Stand};
use crate::weight::Way;
use measure::progress::Progress;
use report::interrupt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number and delay of starts that could not begin when they were due, because the previous start was not done.
#[derive(Debug, Default)]
pub struct Lateness {
    /// The number of late starts.
    pub starts: usize,
    /// The total number of starts.
    pub of: usize,
    /// The maximum delay.
    pub most: Duration,
}

/// The due times of starts.
struct Clock {
    next: Instant,
    interval: Duration,
    late: Lateness,
}

impl Clock {
    /// Waits until the next start is due.
    fn wait(&mut self) {
        /// The delay up to which a start does not count as late.
        const SLACK: Duration = Duration::from_millis(1);
        let now = Instant::now();
        if self.interval.is_zero() {
            return;
        }
        sleep(self.next.saturating_duration_since(now));
        let behind = now.saturating_duration_since(self.next);
        self.late.of += 1;
        if behind > SLACK {
            self.late.starts += 1;
            self.late.most = self.late.most.max(behind);
        }
        self.next += self.interval;
    }
}

/// Makes every column (a runtime traced in one way) perform the operation twice per round, traced and untraced,
/// rotating the order by one from round to round. A column that fails is excluded.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn run(
    options: &Trace,
    stand: &Stand,
    entrants: &[Entrant],
    operation: Operation,
    columns: &mut [Column],
) -> Result<Lateness, Error> {
    let sleepers = sleepers(stand, entrants, operation)?;
    let mut progress = Progress::new();
    let all = options.warm_up + options.count;
    let title = format!("{}, traced", operation.commands().join("+"));
    let begin = Instant::now();
    let mut clock = Clock { next: begin, interval: options.interval, late: Lateness::default() };
    for round in 0..all {
        progress.tell(&title, round, all);
        for place in 0..columns.len() {
            let column = (round + place) % columns.len();
            let column = &mut columns[column];
            let at = column.entrant;
            let mut ways = [column.way, Way::Timed];
            ways.rotate_left(round % 2);
            for way in ways {
                if entrants[at].is_out() {
                    continue;
                }
                interrupt::check()?;
                clock.wait();
                let go = go(stand, &entrants[at], operation, sleepers[at].as_ref(), way);
                if let Some(go) = entrants[at].attempt(go.map_err(|error| why(error, way)))?
                    && round >= options.warm_up
                {
                    column.keep(way, go);
                }
            }
        }
    }
    Ok(clock.late)
}

impl Column {
    fn keep(&mut self, way: Way, go: Go) {
        if way == Way::Timed {
            self.untraced.push(go.samples);
        } else {
            self.starts.push(go.observed);
        }
    }
}

/// Tells in which way a runtime was traced when it failed.
fn why(error: Error, way: Way) -> Error {
    match way {
        Way::Observed => error.during("followed"),
        Way::Traced => error.during("with --trace"),
        _ => error,
    }
}
