//! The policy of "Serverless in the Wild" (Shahrad and others, USENIX ATC '20, section 4.2): the past idle times of a
//! function determine when to have a container ready for it, and until when.
//!
//! In the paper, the platform keeps containers for ten minutes; a histogram covers four hours, in
//! classes of one minute. Here the same proportions apply to the time of `--keep`: a class is a
//! tenth of that time. If most idle times of a function exceed the histogram, the paper predicts
//! them by ARIMA. Here the policy keep-alive applies to such a function, and to every function with
//! too few idle times. In the paper, each function has one container. Here a function may have
//! several. So each arrival is paired with the latest end of an execution that is not paired with
//! an earlier arrival. The time between the two is an idle time.

use std::time::Duration;

/// The number of classes of a histogram.
const CLASSES: usize = 240;

/// The number of classes that the time of keep-alive is divided into.
const IN_KEEP: u32 = 10;

/// The minimum number of idle times for a prediction.
const FEWEST: u32 = 10;

/// The minimum coefficient of variation of the classes' counts: below it, the times are spread too evenly for a
/// prediction.
const REPRESENTATIVE: f64 = 2.0;

/// The percentiles of a function's idle times, as shares, between which a container is kept ready.
const HEAD: f64 = 0.05;
const TAIL: f64 = 0.99;

/// The relative margin added around these times.
const MARGIN: f64 = 0.1;

/// The period in which a container is kept ready for a function, counted from the end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The beginning; 0 means at once.
    pub(super) from: Duration,
    /// The end.
    pub(super) until: Duration,
}

/// The idle times of a function.
#[derive(Debug)]
pub(super) struct Habits {
    class: Duration,
    counts: Vec<u32>,
    /// The number of idle times that exceed the histogram.
    beyond: u32,
    /// Ends of executions that no arrival has been paired with yet.
    ends: Vec<Duration>,
}

impl Habits {
    /// Starts empty, with classes in proportion to the time of keep-alive.
    pub(super) fn new(keep: Duration) -> Self {
        Self { class: keep / IN_KEEP, counts: vec![0; CLASSES], beyond: 0, ends: Vec::new() }
    }

    /// Records the end of an execution.
    pub(super) fn end(&mut self, at: Duration) {
        self.ends.push(at);
    }

    /// Records the arrival of an invocation.
    pub(super) fn arrive(&mut self, at: Duration) {
        let Some(end) = self.ends.pop() else { return };
        self.add(at.saturating_sub(end));
        let range = self.class * u32::try_from(CLASSES).unwrap_or(u32::MAX);
        let before = self.ends.len();
        self.ends.retain(|end| at.saturating_sub(*end) <= range);
        self.beyond += u32::try_from(before - self.ends.len()).unwrap_or(u32::MAX);
    }

    fn add(&mut self, idle: Duration) {
        let class = idle.as_nanos() / self.class.as_nanos().max(1);
        match usize::try_from(class).ok().and_then(|class| self.counts.get_mut(class)) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
    }

    /// Returns the predicted window; `None` if there are too few idle times, if they are spread
    /// evenly, or if most of them exceed the histogram.
    pub(super) fn window(&self) -> Option<Window> {
        let sum: u32 = self.counts.iter().sum();
        if sum < FEWEST || self.beyond > sum || self.variation() < REPRESENTATIVE {
            return None;
        }
        // The window reaches from the beginning of the head's class to the end of the tail's class.
        let class = self.class.as_secs_f64();
        let from = self.class_of(HEAD, sum) as f64 * class * (1.0 - MARGIN);
        let until = (self.class_of(TAIL, sum) + 1) as f64 * class * (1.0 + MARGIN);
        let time = |seconds| Duration::try_from_secs_f64(seconds).ok();
        Some(Window { from: time(from)?, until: time(until)? })
    }

    /// Returns the class in which this share of all times is reached.
    fn class_of(&self, share: f64, sum: u32) -> usize {
        let wanted = (share * f64::from(sum)).ceil().max(1.0);
        let mut below = 0.0;
        let reached = self.counts.iter().position(|&count| {
            below += f64::from(count);
            below >= wanted
        });
        reached.unwrap_or(CLASSES - 1)
    }

    /// Returns the coefficient of variation of the classes' counts.
    fn variation(&self) -> f64 {
        let counts = || self.counts.iter().copied().map(f64::from);
        let mean = counts().sum::<f64>() / CLASSES as f64;
        let squares = counts().map(|count| (count - mean).powi(2)).sum::<f64>();
        if mean > 0.0 { (squares / CLASSES as f64).sqrt() / mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the habits of a function with these successive idle times, in milliseconds, in classes of 100 ms.
    fn after(idle: impl IntoIterator<Item = u64>) -> Habits {
        let mut habits = Habits::new(ms(1000));
        let mut now = ms(0);
        for idle in idle {
            habits.end(now);
            now += ms(idle);
            habits.arrive(now);
        }
        habits
    }

    #[test]
    fn outliers_move_the_windows() {
        // Of 100 times, 6 are short and 2 are long: the 5th percentile is a short time, the 99th
        // percentile is a long time.
        let times = [vec![450; 6], vec![3050; 92], vec![9050; 2]].concat();
        assert_eq!(after(times).window(), Some(Window { from: ms(360), until: ms(10_010) }));
        let times = [vec![450; 4], vec![3050; 95], vec![9050; 1]].concat();
        assert_eq!(after(times).window(), Some(Window { from: ms(2700), until: ms(3410) }));
    }

    #[test]
    fn what_tells_nothing_is_left_alone() {
        assert_eq!(after([3050; 9]).window(), None, "too few");
        assert_eq!(after((0..240).map(|class| class * 100)).window(), None, "spread evenly");
        assert_eq!(after([vec![3050; 10], vec![30_000; 11]].concat()).window(), None, "beyond");
        assert!(after([vec![3050; 10], vec![30_000; 10]].concat()).window().is_some());
    }

    #[test]
    fn several_at_once_have_their_own_ends() {
        let mut habits = Habits::new(ms(1000));
        habits.end(ms(1000));
        habits.end(ms(1500));
        habits.arrive(ms(1600));
        assert_eq!(habits.counts[1], 1, "since the latest end");
        habits.arrive(ms(2250));
        assert_eq!(habits.counts[12], 1, "since the one before");
        habits.arrive(ms(2300));
        assert_eq!(habits.counts.iter().sum::<u32>(), 2, "no container would have been idle");
        // An end without an arrival finally counts as exceeding the histogram.
        habits.end(ms(3000));
        habits.end(ms(40_000));
        habits.arrive(ms(40_050));
        assert_eq!((habits.beyond, habits.ends.len()), (1, 0));
    }

    proptest! {
        #[test]
        fn windows_are_in_order_and_in_range(times in vec(0_u64..60_000, 0..200)) {
            if let Some(window) = after(times).window() {
                prop_assert!(window.from < window.until);
                prop_assert!(window.until <= ms(24_000 * 11 / 10));
            }
        }
    }
}
