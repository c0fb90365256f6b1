//! Work of which several parts are in flight.

use crate::base::*;
use std::sync::{Mutex, PoisonError};

/// Works through `jobs` in their order, each worker on one at a time, and in this thread if there is one worker. An
/// interrupt leaves out the rest. Returns the time from the first begin to the last end, and the results in the order of
/// their ends.
pub(crate) fn work<W: Send, J: Send, R: Send>(
    workers: impl IntoIterator<Item = W>,
    jobs: impl IntoIterator<Item = J, IntoIter: Send>,
    work: impl Fn(&mut W, J) -> R + Sync,
) -> (Duration, Vec<R>) {
    let jobs = Mutex::new(jobs.into_iter());
    let done = Mutex::new(Vec::new());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let go = |mut worker: W| {
        while let Some(job) = next().filter(|_| !interrupt::came()) {
            let result = work(&mut worker, job);
            done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    let mut workers: Vec<W> = workers.into_iter().collect();
    let start = Instant::now();
    match workers.pop() {
        Some(only) if workers.is_empty() => go(only),
        last => thread::scope(|scope| {
            for worker in workers.into_iter().chain(last) {
                scope.spawn(|| go(worker));
            }
        }),
    }
    (start.elapsed(), done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once() {
        for workers in [vec![10], vec![10, 20]] {
            let (_, mut done) = work(workers, 0..50, |worker, job| {
                *worker += 1;
                job * 2
            });
            done.sort_unstable();
            assert_eq!(done, (0..50).map(|job| job * 2).collect::<Vec<_>>());
        }
    }
}
