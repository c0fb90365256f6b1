//! The cases that run at present, and the maximum time of a case.

use crate::wait;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The names of the running cases, and the times at which they began.
static CASES: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

fn cases() -> MutexGuard<'static, Vec<(String, Instant)>> {
    CASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a case as running as long as the value lives.
pub(crate) struct Running<'a>(&'a str);

/// Counts the case `name` as running until the returned value is dropped.
pub(crate) fn begin(name: &str) -> Running<'_> {
    cases().push((name.to_owned(), Instant::now()));
    Running(name)
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        cases().retain(|(name, _)| name != self.0);
    }
}

/// The maximum time of a case: 60 times [`wait::patience`], by default 20 minutes.
pub(crate) fn limit() -> Duration {
    wait::patience() * 60
}

/// Returns the time until a case can exceed the limit: zero if a case has exceeded it. The cases are in the order of
/// their beginnings.
pub(crate) fn time_left() -> Duration {
    let longest = cases().first().map(|(_, since)| since.elapsed()).unwrap_or_default();
    limit().saturating_sub(longest)
}

/// Returns the name of a case that has exceeded the limit.
pub(crate) fn hanging() -> Option<String> {
    cases().first().filter(|(_, since)| since.elapsed() >= limit()).map(|(name, _)| name.clone())
}
