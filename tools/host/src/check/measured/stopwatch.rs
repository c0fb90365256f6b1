//! Timing several operations in turns.

use report::Error;
use report::interrupt;
use report::progress::Progress;
use report::statistics::median;
use rustix::io::Errno;
use std::thread::sleep;
use std::time::Duration;

/// Rounds in which each operation comes once, at rest before and after.
const APART: usize = 11;
/// The rest. All operations are timed in turns, so that the same one comes again after many of these:
/// later than any grace period.
const REST: Duration = Duration::from_millis(20);
/// Rounds of one operation after the other without rest.
const IN_A_ROW: usize = 21;

/// What an operation took: microseconds, medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// With rests in between.
    pub apart: f64,
    /// One after the other.
    pub in_a_row: f64,
    /// How many were timed apart.
    pub rounds: usize,
}

impl Times {
    /// Both for people.
    pub fn text(&self) -> String {
        format!("{:.0} µs apart, {:.0} in a row", self.apart, self.in_a_row)
    }
}

/// An operation that says how many microseconds it took.
type Operation<'a> = Box<dyn FnMut() -> Result<f64, Errno> + 'a>;

/// Operations to be timed.
#[derive(Default)]
pub struct Stopwatch<'a> {
    operations: Vec<(&'static str, Operation<'a>)>,
}

impl<'a> Stopwatch<'a> {
    /// Adds one. If it fails at first it is left out.
    pub fn add(&mut self, name: &'static str, operation: impl FnMut() -> Result<f64, Errno> + 'a) {
        self.operations.push((name, Box::new(operation)));
    }

    /// Times them all.
    ///
    /// # Errors
    /// SIGINT or SIGTERM came.
    pub fn run(mut self) -> Result<Vec<(&'static str, Times)>, Error> {
        self.operations.retain_mut(|(_, operation)| operation().is_ok());
        let mut apart: Vec<Vec<f64>> = vec![Vec::new(); self.operations.len()];
        let mut progress = Progress::new();
        for round in 0..APART {
            progress.tell("measuring", round, APART);
            for ((_, operation), times) in self.operations.iter_mut().zip(&mut apart) {
                sleep(REST);
                interrupt::check()?;
                times.extend(operation());
            }
        }
        drop(progress);
        let mut all = Vec::new();
        for ((name, operation), mut apart) in self.operations.iter_mut().zip(apart) {
            interrupt::check()?;
            let mut row: Vec<f64> = (0..IN_A_ROW).filter_map(|_| operation().ok()).collect();
            let rounds = apart.len();
            let times = Times { apart: median(&mut apart), in_a_row: median(&mut row), rounds };
            all.push((*name, times));
        }
        Ok(all)
    }
}
