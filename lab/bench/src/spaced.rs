//! `spaced`: starts a container at a fixed interval, whether or not the previous start is done, and measures the time
//! until the container itself reports that it runs.
//!
//! Latency counts from the time at which the start was due. So the results show the queue of a
//! runtime that is too slow for the interval. A closed loop would hide this queue (coordinated
//! omission).

use crate::Error;
use crate::container::Container;
use crate::options::Spaced;
use crate::process::Failure;
use crate::results::{self, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use measure::bootstrap::{self, Pairing};
use measure::progress::Progress;
use measure::statistics::Summary;
use report::Table;
use report::csv::quoted;
use report::interrupt;
use serde::Serialize;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The number of consecutive starts by one runtime, before the next runtime's turn.
const ROW: usize = 20;

/// The container's program: its shell prints the time in microseconds without another process.
const TELL_TIME: [&str; 3] = ["/bin/sh", "-c", "echo $EPOCHREALTIME"];

/// The results of one entrant.
#[derive(Debug, Default, Clone, Serialize)]
struct Row {
    runtime: String,
    /// The time from when a start was due until the container printed the time, in microseconds.
    latencies_us: Vec<f64>,
    /// The time from when a start was due until the container was gone.
    totals_us: Vec<f64>,
    /// For each start, the number of other starts that were in progress when it was due.
    queued: Vec<f64>,
}

/// The result of one start.
struct Arrival {
    latency: Duration,
    total: Duration,
    queued: usize,
}

/// Runs the experiment.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Spaced,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut progress = Progress::new();
    let racers = entrants.to_vec();
    let mut rows: Vec<Row> =
        racers.iter().map(|racer| Row { runtime: racer.name.clone(), ..Row::default() }).collect();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        let result = Container::new(stand, racer, &TELL_TIME)?.run();
        entrant.failure = result.err().map(|fault| fault.to_string());
    }
    let turns = options.count.div_ceil(ROW);
    for turn in 0..turns {
        progress.tell("spaced, rows of starts", turn, turns);
        let count = ROW.min(options.count - turn * ROW);
        for place in 0..racers.len() {
            let at = (turn + place) % racers.len();
            if entrants[at].failure.is_some() {
                continue;
            }
            let result = in_a_row(stand, &racers[at], count, options.interval)?;
            interrupt::check()?;
            match result {
                Ok(arrivals) => arrivals.iter().for_each(|arrival| rows[at].add(arrival)),
                Err(reason) => entrants[at].failure = Some(reason),
            }
        }
    }
    drop(progress);
    rows.retain(|row| {
        entrants.iter().any(|entrant| entrant.name == row.runtime && entrant.failure.is_none())
    });
    let latencies = || rows.iter().map(|row| (row.runtime.as_str(), row.latencies_us.as_slice()));
    let first = racers.first().map_or("", |racer| &racer.name);
    Ok(Outcome {
        text: text(&rows, first, options),
        json: vec![("rows", results::value(&rows)?)],
        csv: csv(&rows),
        pictures: vec![
            results::dots("Each start, from when it is due until it runs", latencies()),
            results::distribution("from when it is due until it runs", latencies()),
        ],
        ..Outcome::default()
    })
}

/// Starts `count` containers, one every `interval`.
fn in_a_row(
    stand: &Stand,
    racer: &Entrant,
    count: usize,
    interval: Duration,
) -> Result<Result<Vec<Arrival>, String>, Error> {
    let containers: Result<Vec<_>, _> =
        (0..count).map(|_| Container::new(stand, racer, &TELL_TIME)).collect();
    let in_flight = AtomicUsize::new(0);
    // All threads exist and wait beforehand, so that creating them does not delay the first start.
    let begin = Instant::now() + Duration::from_millis(20);
    let begin_on_clock = SystemTime::now() + begin.saturating_duration_since(Instant::now());
    let results: Vec<Option<(Container<'_>, Result<Arrival, String>)>> = thread::scope(|scope| {
        let starts: Vec<_> = (0_u32..)
            .zip(containers?)
            .map(|(number, container)| {
                let offset = interval * number;
                let in_flight = &in_flight;
                scope.spawn(move || {
                    let due = (begin + offset, begin_on_clock + offset);
                    let arrival = arrive(&container, due, in_flight);
                    (container, arrival)
                })
            })
            .collect();
        Ok::<_, Error>(starts.into_iter().map(|start| start.join().ok()).collect())
    })?;
    // The containers are dropped here, after all threads have ended.
    Ok(results.into_iter().flatten().map(|(_container, arrival)| arrival).collect())
}

/// Starts a container now, and returns the time until it reported that it runs.
///
/// # Errors
/// Errors of the harness itself; the inner error is the runtime's.
pub(crate) fn at_once(stand: &Stand, racer: &Entrant) -> Result<Result<Duration, String>, Error> {
    let container = Container::new(stand, racer, &TELL_TIME)?;
    let due = (Instant::now(), SystemTime::now());
    let arrival = arrive(&container, due, &AtomicUsize::new(0));
    Ok(arrival.map(|arrival| arrival.latency))
}

/// Waits until `due`, starts the container and reads its report.
fn arrive(
    container: &Container<'_>,
    (due, due_on_clock): (Instant, SystemTime),
    in_flight: &AtomicUsize,
) -> Result<Arrival, String> {
    thread::sleep(due.saturating_duration_since(Instant::now()));
    let queued = in_flight.fetch_add(1, Ordering::Relaxed);
    let result = container.run_and_read();
    in_flight.fetch_sub(1, Ordering::Relaxed);
    let total = due.elapsed();
    let (_, said) = result.map_err(|fault| fault.to_string())?;
    let arrived = instant(&said).ok_or_else(|| {
        Failure::Left(format!("the container printed no time: {said:?}")).to_string()
    })?;
    let latency = arrived.duration_since(due_on_clock).unwrap_or_default();
    Ok(Arrival { latency, total, queued })
}

/// Parses seconds since the epoch with a fraction.
fn instant(text: &str) -> Option<SystemTime> {
    let seconds: f64 = text.trim().parse().ok()?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

impl Row {
    fn add(&mut self, arrival: &Arrival) {
        self.latencies_us.push(arrival.latency.as_secs_f64() * 1e6);
        self.totals_us.push(arrival.total.as_secs_f64() * 1e6);
        self.queued.push(arrival.queued as f64);
    }
}

fn text(rows: &[Row], first: &str, options: &Spaced) -> String {
    let mut text = format!("A start every {:?}, {} times. ", options.interval, options.count);
    text += "From when it is due, in ms\n";
    let ratio = format!("{first} ÷ it");
    let headings = [
        "until the container runs",
        "min",
        "median",
        "p90",
        "p99",
        "max",
        "σ",
        &ratio,
        "95 %",
        "until gone",
        "most in flight",
    ];
    let mut table = Table::new(&headings);
    let base = rows.iter().find(|row| row.runtime == first);
    for row in rows {
        let (Some(times), Some(totals)) =
            (Summary::of(&row.latencies_us), Summary::of(&row.totals_us))
        else {
            continue;
        };
        let figures = [times.min, times.median, times.p90, times.p99, times.max, times.deviation];
        let mut cells = vec![row.runtime.clone()];
        cells.extend(figures.map(|us| format!("{:.2}", us / 1e3)));
        let ratio = base.filter(|_| row.runtime != first).and_then(|base| {
            bootstrap::ratio(&base.latencies_us, &row.latencies_us, Pairing::Independent)
        });
        cells.extend(ratio.map_or_else(Default::default, judged));
        cells.push(format!("{:.2}", totals.median / 1e3));
        let queued = row.queued.iter().copied().fold(0.0, f64::max);
        cells.push(format!("{:.0}", queued + 1.0));
        table.row(cells);
    }
    let _ = write!(text, "{table}");
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("runtime,start,latency_us,total_us,queued\n");
    for row in rows {
        let samples = row.latencies_us.iter().zip(&row.totals_us).zip(&row.queued);
        for (at, ((latency, total), queued)) in samples.enumerate() {
            let name = quoted(&row.runtime);
            let _ = writeln!(text, "{name},{at},{latency:.1},{total:.1},{queued}");
        }
    }
    text
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
