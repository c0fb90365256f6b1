//! Times several operations that take turns.

use measure::progress::Progress;
use measure::statistics::median;
use report::Error;
use report::interrupt;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

/// The number of rounds in which each operation runs once, with a pause before and after it.
const APART: usize = 11;
/// The pause between two operations. The operations take turns, so the same one runs again only after many pauses,
/// which together are longer than any grace period.
const REST: Duration = Duration::from_millis(20);
/// The number of back-to-back repetitions of an operation.
const IN_A_ROW: usize = 21;

/// The median durations of an operation, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// The median with pauses between the runs.
    pub apart: f64,
    /// The median of back-to-back runs.
    pub in_a_row: f64,
    /// The number of measurements with pauses.
    pub rounds: usize,
}

/// The times of all operations, by name.
pub type All = BTreeMap<&'static str, Times>;

/// An operation that returns its duration in microseconds.
type Operation<'a> = Box<dyn FnMut() -> Result<f64, Errno> + 'a>;

/// The operations to time.
#[derive(Default)]
pub struct Stopwatch<'a> {
    operations: Vec<(&'static str, Operation<'a>)>,
}

impl<'a> Stopwatch<'a> {
    /// Adds an operation. An operation whose first run fails is omitted.
    pub fn add(&mut self, name: &'static str, operation: impl FnMut() -> Result<f64, Errno> + 'a) {
        self.operations.push((name, Box::new(operation)));
    }

    /// Times all operations.
    ///
    /// # Errors
    /// Interrupted by SIGINT or SIGTERM.
    pub fn run(mut self) -> Result<All, Error> {
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
        let mut all = All::new();
        for ((name, operation), mut apart) in self.operations.iter_mut().zip(apart) {
            interrupt::check()?;
            let mut row: Vec<f64> = (0..IN_A_ROW).filter_map(|_| operation().ok()).collect();
            let rounds = apart.len();
            let times = Times { apart: median(&mut apart), in_a_row: median(&mut row), rounds };
            all.insert(name, times);
        }
        Ok(all)
    }
}
