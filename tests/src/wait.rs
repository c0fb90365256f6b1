//! Waiting with a deadline.

use std::time::{Duration, Instant};

/// Returns the maximum time that a case waits for something that should happen at once: `DAYFLY_PATIENCE` seconds, by
/// default 20.
#[must_use]
pub fn patience() -> Duration {
    let seconds = std::env::var("DAYFLY_PATIENCE").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(20))
}

/// Polls `check` until it returns a value.
///
/// # Panics
/// After [`patience`], with `what` in the message.
#[track_caller]
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < patience(), "waited {:?} for: {what}", patience());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Polls `check` until it returns true.
///
/// # Panics
/// After [`patience`], with `what` in the message.
#[track_caller]
pub fn until_true(what: &str, mut check: impl FnMut() -> bool) {
    until(what, || check().then_some(()));
}

/// Polls `find` until it returns an empty list.
///
/// # Panics
/// After [`patience`], with the remaining items.
#[track_caller]
pub fn until_none(what: &str, mut find: impl FnMut() -> Vec<String>) {
    let start = Instant::now();
    loop {
        let found = find();
        if found.is_empty() {
            return;
        }
        assert!(start.elapsed() < patience(), "{what}: {found:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
