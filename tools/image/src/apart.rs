//! Work in other threads: blocking work that signals can interrupt, and work on several items at once.

use crate::error::{Error, Result, bail};
use report::interrupt::check;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which a waiting thread checks for signals.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work`, which may block for long and cannot be interrupted, in a separate thread. If nobody waits for the work
/// any more, its thread ends with the process.
pub fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        // Fails if the receiver has been dropped.
        let _ = sender.send(work());
    });
    receiver
}

/// Waits for a value that another thread sends; returns `None` after `patience`.
///
/// # Errors
/// [`Error::Interrupted`]; the other thread ended without sending anything.
pub fn receive<T>(from: &Receiver<T>, patience: Duration) -> Result<Option<T>> {
    let begin = Instant::now();
    loop {
        let left = patience.saturating_sub(begin.elapsed());
        match from.recv_timeout(left.min(LOOK)) {
            Ok(sent) => return Ok(Some(sent)),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
            Err(RecvTimeoutError::Timeout) => check()?,
            Err(RecvTimeoutError::Disconnected) => bail!("a thread ended without a result"),
        }
    }
}

/// Does `work` for each item, with `jobs` threads that take the items in their order; returns the results in that
/// order. Sets `stop` after the first error, which is returned when all threads have ended.
///
/// # Errors
/// The first one of `work`.
pub fn each<I: Sync, T: Send>(
    items: &[I],
    jobs: usize,
    stop: &AtomicBool,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Result<_, Error>> = Mutex::new(Ok(BTreeMap::new()));
    let run = || {
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = items.get(at).map(&work) else { return };
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match (result, results.as_mut()) {
                (Ok(result), Ok(results)) => drop(results.insert(at, result)),
                (Err(error), Ok(_)) => *results = Err(error),
                (_, Err(_)) => {}
            }
            stop.fetch_or(results.is_err(), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs.min(items.len()) {
            scope.spawn(run);
        }
        run();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    Ok(results.into_values().collect())
}

/// Returns the number of CPUs.
pub fn cpus() -> usize {
    thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
