//! Starts at fixed times.

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
pub struct Clock {
    next: Instant,
    interval: Duration,
    pub late: Lateness,
}

impl Clock {
    /// Makes a clock by which the first start is due at once, and another one at every interval.
    pub fn new(interval: Duration) -> Self {
        Self { next: Instant::now(), interval, late: Lateness::default() }
    }

    /// Waits until the next start is due.
    pub fn wait(&mut self) {
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
