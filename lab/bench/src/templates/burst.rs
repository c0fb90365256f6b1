//! Several requests in flight.

use super::Provision;
use super::function::Function;
use super::provider::Provider;
use crate::restore::Saved;
use crate::{Error, concurrent};
use report::interrupt;
use std::time::Duration;

/// Lets the function answer `count` requests, `width` at a time. Returns the requests per second and the time of each
/// answer, in microseconds. The rate is the number of requests ÷ the time until the last container is gone, or until the
/// last answer of containers that stay.
///
/// # Errors
/// Errors of the harness itself; an interrupt; the first failure.
pub(super) fn burst(
    provider: &mut Provider<'_>,
    width: usize,
    count: usize,
) -> Result<(f64, Vec<f64>), Error> {
    let (took, answers): (Duration, Vec<Result<Duration, Error>>) = match provider.way {
        Provision::Cold | Provision::Template => {
            // Bundles are written before the clock starts, and removed after it stops. Containers that have failed are
            // removed here, on the main thread.
            let functions = (0..count).map(|_| provider.function());
            let mut functions = functions.collect::<Result<Vec<_>, _>>()?;
            concurrent::work(vec![(); width], functions.iter_mut(), |(), function| {
                function.start()?;
                function.end()?;
                Ok(function.took)
            })
        }
        Provision::Restored => concurrent::work(
            provider.saved.iter_mut(),
            0..count,
            |saved: &mut &mut Saved<'_>, _| {
                let sample = saved.restore()?;
                saved.end()?;
                Ok(sample.wall)
            },
        ),
        Provision::Warm => concurrent::work(
            provider.warm.iter_mut(),
            0..count,
            |function: &mut &mut Function<'_>, _| {
                function.ask()?;
                Ok(function.took)
            },
        ),
    };
    interrupt::check()?;
    let us = answers.into_iter().map(|answer| Ok(answer?.as_secs_f64() * 1e6));
    let latencies_us = us.collect::<Result<Vec<_>, Error>>()?;
    Ok((latencies_us.len() as f64 / took.as_secs_f64(), latencies_us))
}
