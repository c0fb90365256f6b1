//! `burst`: runs many containers with several in flight, and probes the host's responsiveness meanwhile.

use crate::Error;
use crate::container::Container;
use crate::options::Burst;
use crate::probe::{Health, Probe};
use crate::results::{self, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use measure::bootstrap::{self, Estimate, Pairing};
use measure::chart::{Axis, Picture};
use measure::progress::Progress;
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
use report::csv::quoted;
use report::interrupt;
use serde::Serialize;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use sys::clone::CloneFlags;
use topology::limit::{LONGEST_WAIT, Limit};

/// Returns the entrants: all runtimes without a limit of starts in flight, and each dayfly also with each of `limits`.
#[must_use]
pub fn entrants(runtimes: Vec<Entrant>, limits: &[u16]) -> Vec<Entrant> {
    let mut entrants = runtimes;
    let own: Vec<Entrant> =
        entrants.iter().filter(|entrant| entrant.runtime.is_dayfly()).cloned().collect();
    for entrant in own {
        entrants.extend(limits.iter().map(|&limit| Entrant {
            name: format!("{}, {limit} at once", entrant.name),
            limit: Some(limit),
            ..entrant.clone()
        }));
    }
    entrants
}

/// A limit of starts in flight, removed when dropped.
struct Limited;

impl Limited {
    fn to(width: u16) -> Result<Self, Error> {
        Limit::set(width, LONGEST_WAIT)
            .map_err(|errno| report::Error::system("set", "the limit of starts", errno))?;
        Ok(Self)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = Limit::lift();
    }
}

/// The results of one entrant with one number of containers in flight (the width), over all rounds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Load {
    /// Containers per second, for each round.
    pub(crate) rates: Vec<f64>,
    /// The latency of each successful container, in microseconds.
    pub(crate) latencies_us: Vec<f64>,
    /// The number of failed containers.
    pub(crate) failed: usize,
    /// The reason of the first failure.
    pub(crate) reason: Option<String>,
    /// The probe's measurements.
    pub(crate) health: Health,
}

impl Load {
    /// Returns whether there are no results.
    pub(crate) fn is_empty(&self) -> bool {
        self.latencies_us.is_empty() && self.failed == 0
    }
}

/// An entrant's load, compared with the first entrant's.
#[derive(Debug, Default, Serialize)]
struct Row {
    width: usize,
    runtime: String,
    #[serde(flatten)]
    load: Load,
    /// The first entrant's rate ÷ this entrant's rate.
    ratio: Option<Estimate>,
}

/// Runs the experiment: for every width, the entrants take turns round by round.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Burst,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    if entrants.iter().any(|entrant| entrant.limit.is_some()) {
        // The limit of starts belongs to an IPC namespace. With a namespace of its own, the experiment leaves the
        // host's limit unchanged.
        sys::ns::unshare(CloneFlags::NEWIPC)
            .map_err(|errno| report::Error::system("unshare", "the IPC namespace", errno))?;
    }
    let mut progress = Progress::new();
    let idle = Probe::watch(|| thread::sleep(Duration::from_secs(1))).1;
    warm_up(stand, entrants)?;
    let racers = entrants.to_vec();
    let mut rows = Vec::new();
    for &width in &options.width {
        let start = rows.len();
        rows.extend(racers.iter().map(|racer| Row {
            width,
            runtime: racer.name.clone(),
            ..Row::default()
        }));
        for round in 0..options.rounds {
            progress.tell(&format!("burst, {width} in flight"), round, options.rounds);
            for place in 0..racers.len() {
                let at = (round + place) % racers.len();
                if entrants[at].failure.is_some() {
                    continue;
                }
                let load = &mut rows[start + at].load;
                burst(stand, &racers[at], width, options.count, load)?;
                if load.failed > options.count * options.rounds / 2 {
                    entrants[at].failure.clone_from(&load.reason);
                }
            }
        }
        compare(&mut rows[start..]);
    }
    drop(progress);
    rows.retain(|row| !row.load.is_empty());
    Ok(Outcome {
        text: text(&rows, &idle, options.count),
        json: vec![("idle", results::value(&idle)?), ("rows", results::value(&rows)?)],
        csv: csv(&rows),
        pictures: pictures(&rows),
        ..Outcome::default()
    })
}

/// Runs one uncounted container of each entrant. An entrant that fails is excluded.
pub(crate) fn warm_up(stand: &Stand, entrants: &mut [Entrant]) -> Result<(), Error> {
    for entrant in entrants {
        let racer = entrant.clone();
        let result = Container::new(stand, &racer, &[])?.run();
        interrupt::check()?;
        entrant.failure = result.err().map(|fault| fault.to_string());
    }
    Ok(())
}

/// Runs `count` containers, `width` at a time, and adds the results to `load`.
pub(crate) fn burst(
    stand: &Stand,
    racer: &Entrant,
    width: usize,
    count: usize,
    load: &mut Load,
) -> Result<(), Error> {
    // Bundles are written before the clock starts, and removed after it stops.
    let waiting: Result<Vec<_>, _> =
        (0..count).map(|_| Container::new(stand, racer, &[])).collect();
    let (waiting, done) = (Mutex::new(waiting?), Mutex::new(Vec::with_capacity(count)));
    let _limited = racer.limit.map(Limited::to).transpose()?;
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        while let Some(container) = next().filter(|_| !interrupt::came()) {
            let result = container.run();
            done.lock().unwrap_or_else(PoisonError::into_inner).push((container, result));
        }
    };
    let (time, health) = Probe::watch(|| {
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..width {
                scope.spawn(work);
            }
        });
        start.elapsed()
    });
    interrupt::check()?;
    let done: Vec<(Container<'_>, _)> = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let before = load.latencies_us.len();
    for (_, result) in &done {
        match result {
            Ok(sample) => load.latencies_us.push(sample.wall.as_secs_f64() * 1e6),
            Err(fault) => {
                load.failed += 1;
                load.reason.get_or_insert_with(|| fault.to_string());
            }
        }
    }
    load.rates.push((load.latencies_us.len() - before) as f64 / time.as_secs_f64());
    load.health.extend(health);
    Ok(())
}

/// Compares the rates at one width with the first entrant's.
fn compare(rows: &mut [Row]) {
    let Some((first, rest)) = rows.split_first_mut() else { return };
    for row in rest {
        row.ratio = bootstrap::ratio(&first.load.rates, &row.load.rates, Pairing::Paired);
    }
}

/// Draws the latency, the failures, the rate and the host's responsiveness as functions of the number of containers in
/// flight.
fn pictures(rows: &[Row]) -> Vec<Picture> {
    let curves = |title: &str, unit: Axis, figure: &dyn Fn(&Load) -> Option<f64>| {
        let rows = rows.iter().map(|row| (row.runtime.clone(), row.width, figure(&row.load)));
        results::over_width(title, unit, rows)
    };
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let share = |load: &Load| {
        let all = load.failed + load.latencies_us.len();
        (all > 0).then(|| load.failed as f64 / all as f64 * 100.0)
    };
    let middle = |samples: &[f64]| Summary::of(samples).map(|all| all.median);
    let p99 = |samples: &[f64]| Summary::of(samples).map(|all| all.p99);
    let mut pictures = vec![
        curves("A container, median", Axis::logarithmic("ms"), &|load| {
            ms(middle(&load.latencies_us))
        }),
        curves("A container, p99", Axis::logarithmic("ms"), &|load| ms(p99(&load.latencies_us))),
        curves("Containers a second", Axis::linear("containers/s"), &|load| middle(&load.rates)),
        curves("A health check meanwhile, p99", Axis::logarithmic("ms"), &|load| {
            ms(p99(&load.health.spawn_us))
        }),
    ];
    if rows.iter().any(|row| row.load.failed > 0) {
        pictures.push(curves("Containers that fail", Axis::linear("%"), &share));
    }
    pictures
}

fn text(rows: &[Row], idle: &Health, count: usize) -> String {
    let first = rows.first().map_or("", |row| &row.runtime);
    let ratio = format!("{first} ÷ it");
    let mut widths: Vec<usize> = rows.iter().map(|row| row.width).collect();
    widths.dedup();
    let mut text = String::new();
    for width in widths {
        let headings =
            ["", "containers/s", &ratio, "95 %", "median ms", "p90", "p99", "max", "failed"];
        let mut table = Table::new(&headings);
        let mut health = Table::new(&Health::HEADINGS);
        health.row(idle.cells("(idle)"));
        let mut rounds = 0;
        for row in rows.iter().filter(|row| row.width == width) {
            rounds = rounds.max(row.load.rates.len());
            table.row(cells(row, first));
            health.row(row.load.health.cells(&row.runtime));
        }
        let _ = writeln!(
            text,
            "{width} in flight, {} of {count}\n{table}\n{health}",
            counted(rounds, "round")
        );
    }
    for row in rows.iter().filter(|row| row.load.failed > 0) {
        let reason = row.load.reason.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "{}, {} in flight: {} failed: {reason}",
            row.runtime, row.width, row.load.failed
        );
    }
    text
}

fn cells(row: &Row, first: &str) -> Vec<String> {
    let rate = Summary::of(&row.load.rates).map_or(f64::NAN, |rates| rates.median);
    let mut cells = vec![row.runtime.clone(), format!("{rate:.1}")];
    cells.extend(match row.ratio {
        Some(ratio) => judged(ratio),
        None if row.runtime == first => [String::new(), String::new()],
        None => ["too few rounds".to_owned(), String::new()],
    });
    let times = Summary::of(&row.load.latencies_us);
    let times = times.map(|times| [times.median, times.p90, times.p99, times.max]);
    cells.extend(times.into_iter().flatten().map(|us| format!("{:.2}", us / 1e3)));
    cells.resize(8, "-".to_owned());
    cells.push(row.load.failed.to_string());
    cells
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("width,runtime,container,latency_us\n");
    for row in rows {
        for (at, us) in row.load.latencies_us.iter().enumerate() {
            let _ = writeln!(text, "{},{},{at},{us:.1}", row.width, quoted(&row.runtime));
        }
    }
    text
}
