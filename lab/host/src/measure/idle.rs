//! How much of a host's CPU time is idle.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// The share of a host's CPU time that is idle while nobody else uses it for anything that disturbs a measurement.
pub const ENOUGH: f64 = 0.75;

/// Watches the host for this time, and returns the share of its CPU time that was idle; 1 if that can't be told.
pub fn share(time: Duration) -> f64 {
    let before = times();
    sleep(time);
    let after = times();
    let all = after.1 - before.1;
    if all > 0.0 { (after.0 - before.0) / all } else { 1.0 }
}

/// Returns the idle time and all time so far, in ticks of all CPUs.
fn times() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // The times of guests are also part of the first two.
    let ticks: Vec<f64> = line.filter_map(|word| word.parse().ok()).take(8).collect();
    (ticks.iter().skip(3).take(2).sum(), ticks.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cpu_is_not_idle() {
        let (before, stop) = (times(), std::time::Instant::now() + Duration::from_millis(50));
        while std::time::Instant::now() < stop {}
        let after = times();
        let (idle, all) = (after.0 - before.0, after.1 - before.1);
        assert!(all > 0.0 && idle < all, "{idle} of {all}");
        assert!((0.0..=1.0).contains(&share(Duration::from_millis(20))));
    }
}
