//! What a container costs: time, and memory multiplied by time.

use super::Cost;
use super::meter::By;
use std::time::Instant;

/// The resources that a container uses.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Bill {
    /// The time up to which resources are included in the sums; `None` outside a period.
    since: Option<Instant>,
    /// The last measured memory, in KiB.
    kib: Option<f64>,
    /// The part of the lifetime, in seconds, for which the memory has not been measured yet.
    open_s: f64,
    /// Memory multiplied by time, in KiB·s.
    pub(super) kib_s: f64,
    /// The container's lifetime so far, in seconds.
    pub(super) seconds: f64,
    /// The part of `seconds` for which memory was measured.
    pub(super) measured_s: f64,
    /// The method by which memory was measured.
    pub(super) by: Option<By>,
}

impl Bill {
    /// Makes the bill of an ended container.
    #[cfg(test)]
    pub(super) fn of(seconds: f64, kib_s: f64, measured_s: f64) -> Self {
        Self { seconds, kib_s, measured_s, ..Self::default() }
    }

    /// Adds another container's resources.
    pub(super) fn add(&mut self, other: Self) {
        self.kib_s += other.kib_s;
        self.seconds += other.seconds;
        self.measured_s += other.measured_s;
        self.by = self.by.or(other.by);
    }

    /// Returns the cost. Containers that ended before they could be measured are assumed to use as much memory as the
    /// others of the same bill, or of `all`; memory is unknown if nothing was measured.
    pub(super) fn cost(self, all: Self) -> Cost {
        let of = if self.measured_s > 0.0 { self } else { all };
        let mib_s = || of.kib_s / of.measured_s * self.seconds / 1024.0;
        Cost { container_s: self.seconds, memory_mib_s: (of.measured_s > 0.0).then(mib_s) }
    }

    /// Begins a period whose time and memory are added to the sums so far.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.since, self.kib, self.open_s) = (Some(now), None, 0.0);
    }

    /// Resets the sums, and begins a period.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self { by: self.by, kib: self.kib, since: Some(now), ..Self::default() };
    }

    /// Adds the memory measured now, for the time since the last measurement; if it could not be measured, the last
    /// value is used.
    pub(super) fn measure(&mut self, now: Instant, kib: Option<f64>) {
        let Some(since) = self.since.replace(now) else { return };
        let passed = now.saturating_duration_since(since).as_secs_f64();
        self.seconds += passed;
        self.kib = kib.or(self.kib);
        self.open_s += passed;
        if let Some(kib) = self.kib {
            self.kib_s += kib * self.open_s;
            self.measured_s += self.open_s;
            self.open_s = 0.0;
        }
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.measure(now, None);
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn memory_counts_backwards_to_when_it_was_unknown() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut bill = Bill::default();
        bill.measure(at(0), Some(5.0));
        assert_eq!(bill.seconds, 0.0, "not begun");
        bill.begin(at(0));
        bill.measure(at(1), None);
        assert_eq!((bill.seconds, bill.kib_s, bill.measured_s), (1.0, 0.0, 0.0));
        bill.measure(at(2), Some(100.0));
        assert_eq!((bill.seconds, bill.kib_s, bill.measured_s), (2.0, 200.0, 2.0));
        bill.measure(at(3), Some(300.0));
        bill.end(at(4));
        assert_eq!((bill.seconds, bill.kib_s, bill.measured_s), (4.0, 800.0, 4.0));
        bill.end(at(9));
        assert_eq!(bill.seconds, 4.0, "ended");
        let all = Bill::of(2.0, 2048.0, 2.0);
        assert_eq!(bill.cost(all).memory_mib_s, Some(200.0 * 4.0 / 1024.0));
        let short = Bill::of(0.5, 0.0, 0.0);
        let kib = |all| short.cost(all).memory_mib_s;
        assert_eq!((kib(all), kib(Bill::default())), (Some(0.5), None));
        // The next container starts at zero.
        bill.begin(at(10));
        bill.end(at(12));
        assert_eq!((bill.seconds, bill.kib_s, bill.measured_s), (6.0, 800.0, 4.0));
    }
}
