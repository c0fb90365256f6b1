//! Waiting with a deadline.

use std::time::{Duration, Instant};

/// How long a case waits for something that should happen at once.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls `check` until it gives a value.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
#[track_caller]
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Polls `check` until it is true.
///
/// # Panics
/// After [`PATIENCE`], naming `what`.
#[track_caller]
pub fn until_true(what: &str, mut check: impl FnMut() -> bool) {
    until(what, || check().then_some(()));
}
