//! Several requests in flight.

use super::provider::Provider;
use crate::Error;
use crate::container::Fault;
use crate::options::Provision;
use report::interrupt;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The results of one burst.
#[derive(Debug, Clone)]
pub(super) struct Burst {
    /// The time of each answer, in microseconds.
    pub(super) latencies_us: Vec<f64>,
    /// The requests per second: their number ÷ the time until the last container is gone, or until the last answer of
    /// containers that stay.
    pub(super) rate: f64,
}

/// The time of an answer; the inner error is the runtime's.
type Answer = Result<Result<Duration, Fault>, Error>;

/// Lets the function answer `count` requests, `width` at a time.
///
/// # Errors
/// Errors of the harness itself; an interrupt. The inner error is the first failure.
pub(super) fn burst(
    provider: &mut Provider<'_>,
    width: usize,
    count: usize,
) -> Result<Result<Burst, Fault>, Error> {
    let requests = vec![(); count];
    let (took, answers): (Duration, Vec<Answer>) = match provider.way {
        Provision::Cold | Provision::Template => {
            // Bundles are written before the clock starts, and removed after it stops.
            let functions = requests.iter().map(|()| provider.function());
            let functions = functions.collect::<Result<Vec<_>, _>>()?;
            let (took, done) = all(vec![(); width], functions, |(), mut function| {
                let answer = function.start().and_then(|()| function.end());
                (answer.map(|()| function.took), function)
            });
            // Containers that have failed are removed here, on the main thread.
            (took, done.into_iter().map(|(answer, _)| Ok(answer)).collect())
        }
        Provision::Restored => all(provider.saved.iter_mut().collect(), requests, |saved, ()| {
            let sample = saved.restore()?;
            Ok(sample.and_then(|sample| saved.end().map(|()| sample.wall)))
        }),
        Provision::Warm => all(provider.warm.iter_mut().collect(), requests, |function, ()| {
            Ok(function.ask().map(|()| function.took))
        }),
    };
    interrupt::check()?;
    let mut latencies_us = Vec::with_capacity(count);
    for answer in answers {
        match answer? {
            Ok(time) => latencies_us.push(time.as_secs_f64() * 1e6),
            Err(fault) => return Ok(Err(fault)),
        }
    }
    let rate = latencies_us.len() as f64 / took.as_secs_f64();
    Ok(Ok(Burst { latencies_us, rate }))
}

/// Does all the work with a thread for each worker, and returns the time and the results.
fn all<W: Send, R: Send, D: Send>(
    workers: Vec<W>,
    requests: Vec<R>,
    answer: impl Fn(&mut W, R) -> D + Sync,
) -> (Duration, Vec<D>) {
    let done = Mutex::new(Vec::with_capacity(requests.len()));
    let waiting = Mutex::new(requests);
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = |mut worker: W| {
        while let Some(request) = next().filter(|_| !interrupt::came()) {
            let result = answer(&mut worker, request);
            done.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        }
    };
    let start = Instant::now();
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| work(worker));
        }
    });
    (start.elapsed(), done.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_once() {
        let (_, mut done) = all(vec![10, 20], (0..50).collect(), |worker, request| {
            *worker += 1;
            request * 2
        });
        done.sort_unstable();
        assert_eq!(done, (0..50).map(|request| request * 2).collect::<Vec<_>>());
    }
}
