//! `spaced`: starts a container at a fixed interval, whether or not the previous start is done, and measures the time
//! until the container itself reports that it runs.
//!
//! Latency counts from the time at which the start was due. So the results show the queue of a
//! runtime that is too slow for the interval. A closed loop would hide this queue (coordinated
//! omission).

use crate::burst;
use crate::harness::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `spaced`.
#[derive(Debug, Args)]
pub struct Spaced {
    /// The time between two starts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    pub interval: Duration,
    /// Number of starts of each runtime
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 100)]
    pub count: usize,
}

/// The number of consecutive starts by one runtime, before the next runtime's turn.
const ROW: usize = 20;

/// The container's program: its shell prints the time in microseconds without another process.
const TELL_TIME: [&str; 3] = ["/bin/sh", "-c", "echo $EPOCHREALTIME"];

/// The result of one start.
#[derive(Debug, Clone)]
struct Arrival {
    /// The time from when the start was due until the container printed the time.
    latency: Duration,
    /// The time from when the start was due until the container was gone.
    total: Duration,
    /// The number of other starts that were in progress when it was due.
    queued: usize,
}

impl Experiment for Spaced {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        burst::warm_up(stand, entrants, &TELL_TIME)?;
        let mut left = vec![self.count; entrants.len()];
        let rounds = Rounds { timed: self.count.div_ceil(ROW), ..Rounds::default() };
        let arrivals = in_turns(entrants, rounds, "spaced, rows of starts", |at| {
            let count = ROW.min(left[at]);
            left[at] -= count;
            in_a_row(stand, &entrants[at], count, self.interval)
        })?;
        let mut figures = Figures::default();
        let (mut rows, mut latencies) = (Vec::new(), Vec::new());
        for (Entrant { name, .. }, all) in entrants.iter().zip(arrivals).filter(|it| !it.0.is_out())
        {
            let all = all.concat();
            let us = |of: fn(&Arrival) -> Duration| -> Vec<f64> {
                all.iter().map(|it| of(it).as_secs_f64() * 1e6).collect()
            };
            let (latencies_us, totals_us) = (us(|it| it.latency), us(|it| it.total));
            let queued: Vec<f64> = all.iter().map(|it| it.queued as f64).collect();
            for (what, us) in
                [("until the container runs", &latencies_us), ("until it is gone", &totals_us)]
            {
                figures.singles(what, "ms", name, us.iter().map(|us| us / 1e3));
            }
            figures.singles("others in flight", "starts", name, queued.iter().copied());
            rows.push(json!({
                "runtime": name, "latencies_us": latencies_us, "totals_us": totals_us,
                "queued": queued,
            }));
            latencies.push((name.as_str(), latencies_us));
        }
        let latencies = || latencies.iter().map(|(name, us)| (*name, us.as_slice()));
        let mut outcome = figures.outcome(first(entrants));
        let about = format!("A start every {:?}, {} times. ", self.interval, self.count);
        outcome.text.insert_str(0, &(about + "From when it is due\n"));
        outcome.pictures = vec![
            results::dots("Each start, from when it is due until it runs", latencies()),
            results::distribution("from when it is due until it runs", latencies()),
        ];
        outcome.with("rows", &rows)
    }
}

/// Starts `count` containers, one every `interval`.
fn in_a_row(
    stand: &Stand,
    entrant: &Entrant,
    count: usize,
    interval: Duration,
) -> Result<Vec<Arrival>, Error> {
    let containers = (0..count).map(|_| Container::new(stand, entrant, &TELL_TIME));
    let mut containers: Vec<_> = containers.collect::<Result<_, _>>()?;
    let in_flight = AtomicUsize::new(0);
    // All threads exist and wait beforehand, so that creating them does not delay the first start.
    let begin = Instant::now() + Duration::from_millis(20);
    let begin_on_clock = SystemTime::now() + begin.saturating_duration_since(Instant::now());
    let arrivals: Vec<_> = thread::scope(|scope| {
        let starts = (0_u32..).zip(&mut containers).map(|(number, container)| {
            let offset = interval * number;
            let due = (begin + offset, begin_on_clock + offset);
            let in_flight = &in_flight;
            scope.spawn(move || arrive(container, due, in_flight))
        });
        let starts: Vec<_> = starts.collect();
        starts.into_iter().filter_map(|start| start.join().ok()).collect()
    });
    arrivals.into_iter().collect()
}

/// Starts a container now, and returns the time until it reported that it runs.
///
/// # Errors
/// Errors of the harness itself; the runtime's.
pub(crate) fn at_once(stand: &Stand, entrant: &Entrant) -> Result<Duration, Error> {
    let container = Container::new(stand, entrant, &TELL_TIME)?;
    let due = (Instant::now(), SystemTime::now());
    Ok(arrive(&container, due, &AtomicUsize::new(0))?.latency)
}

/// Waits until `due`, starts the container and reads its report.
fn arrive(
    container: &Container<'_>,
    (due, due_on_clock): (Instant, SystemTime),
    in_flight: &AtomicUsize,
) -> Result<Arrival, Error> {
    thread::sleep(due.saturating_duration_since(Instant::now()));
    let queued = in_flight.fetch_add(1, Ordering::Relaxed);
    let result = container.run_and_read();
    in_flight.fetch_sub(1, Ordering::Relaxed);
    let total = due.elapsed();
    let (_, said) = result?;
    let silent = || Error::Out(format!("the container printed no time: {said:?}"));
    let arrived = instant(&said).ok_or_else(silent)?;
    let latency = arrived.duration_since(due_on_clock).unwrap_or_default();
    Ok(Arrival { latency, total, queued })
}

/// Parses seconds since the epoch with a fraction.
fn instant(text: &str) -> Option<SystemTime> {
    let seconds: f64 = text.trim().parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_shells_time() {
        let time = instant("1795258760.264780\n").expect("time");
        let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
        assert_eq!(since.as_secs(), 1_795_258_760);
        assert!((since.subsec_micros() as i64 - 264_780).abs() <= 1);
        assert_eq!(instant("$EPOCHREALTIME"), None);
        assert_eq!(instant(""), None);
    }
}
