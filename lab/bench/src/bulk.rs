//! `bulk`: creates many containers, and then times the starts of all of them.
//!
//! A host whose containers were created in advance starts them in this way when it boots. Oracle's article on
//! favordynmods measures Podman in this way, too: a loop calls `podman start` for each of a hundred existing containers
//! with limits.

mod podman;

use crate::cgroup::can_limit;
use crate::container::{Container, Fault};
use crate::options::Bulk;
use crate::process::Sample;
use crate::race::{Rounds, in_turns};
use crate::results::{self, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::view::View;
use crate::{Error, burst};
use measure::bootstrap::{self, Estimate, Pairing};
use measure::chart::Picture;
use measure::statistics::{Summary, median};
use podman::Podman;
use report::Table;
use report::count::counted;
use report::csv::quoted;
use report::interrupt;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The times of one round of one entrant.
#[derive(Debug, Clone)]
struct Round {
    /// The time to create all containers, one after the other, in seconds.
    create_s: f64,
    /// The time to start all containers: from before the first start until the last one returns, in seconds.
    start_s: f64,
    /// The time to delete all containers, one after the other, in seconds.
    delete_s: f64,
    /// The time of each start, in microseconds.
    starts_us: Vec<f64>,
}

/// The results of one entrant with one number of starts at a time (the width).
#[derive(Debug, Serialize)]
struct Row {
    width: usize,
    runtime: String,
    create_s: Vec<f64>,
    start_s: Vec<f64>,
    delete_s: Vec<f64>,
    starts_us: Vec<Vec<f64>>,
    /// The first entrant's time for all starts ÷ this entrant's time.
    ratio: Option<Estimate>,
}

/// Runs the experiment: for every width, the entrants take turns round by round.
///
/// # Errors
/// Limits are requested, but their controllers are missing; errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Bulk,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    if options.limits
        && let Some(missing) = ["cpu", "memory"].into_iter().find(|name| !can_limit(name))
    {
        let view = View::current().name();
        let reason = format!(
            "--limits: no controller {missing} in the {view} view: leave --limits out, or use another --view"
        );
        return Err(Error::Unfit(reason));
    }
    let podman = options.podman.then(|| Podman::set_up(options, stand)).transpose()?;
    if podman.is_none() {
        burst::warm_up(stand, entrants)?;
    }
    let racers = entrants.to_vec();
    let mut rows: Vec<Row> = Vec::new();
    for &width in &options.width {
        let rounds = Rounds { warm_up: 0, timed: options.rounds, pause: Duration::ZERO };
        let title = format!("bulk, {width} at a time");
        let done = in_turns(entrants, rounds, &title, |at| match &podman {
            Some(podman) => podman.round(&racers[at], options, width),
            None => round(stand, &racers[at], options, width),
        })?;
        let all: Vec<_> =
            racers.iter().zip(done).filter(|(_, rounds)| !rounds.is_empty()).collect();
        let base = all.first().map(|(_, rounds)| figures(rounds, |round| round.start_s));
        rows.extend(all.iter().map(|(racer, rounds)| {
            let start_s = figures(rounds, |round| round.start_s);
            let base = base.as_ref().filter(|_| racer.name != racers[0].name);
            Row {
                width,
                runtime: racer.name.clone(),
                create_s: figures(rounds, |round| round.create_s),
                delete_s: figures(rounds, |round| round.delete_s),
                starts_us: rounds.iter().map(|round| round.starts_us.clone()).collect(),
                ratio: base.and_then(|base| bootstrap::ratio(base, &start_s, Pairing::Paired)),
                start_s,
            }
        }));
    }
    let first = racers.first().map_or("", |racer| &racer.name);
    Ok(Outcome {
        text: text(&rows, first, options),
        json: vec![("count", json!(options.count)), ("rows", results::value(&rows)?)],
        csv: csv(&rows),
        pictures: vec![picture(&rows, options.count)],
        ..Outcome::default()
    })
}

/// Draws the time for all starts as bars.
fn picture(rows: &[Row], count: usize) -> Picture {
    let medians = rows.iter().map(|row| {
        let how = format!("{} at a time", row.width);
        (how, row.runtime.clone(), median(&mut row.start_s.clone()))
    });
    results::bars(&format!("The starts of {}", counted(count, "container")), "s, median", medians)
}

fn figures(rounds: &[Round], figure: fn(&Round) -> f64) -> Vec<f64> {
    rounds.iter().map(figure).collect()
}

/// Sets the same limits as `podman create --cpus 2 -m 4g`.
fn limit(config: &mut Value) {
    config["linux"]["resources"]["cpu"] = json!({ "quota": 200_000, "period": 100_000 });
    config["linux"]["resources"]["memory"] = json!({ "limit": 4_i64 << 30 });
}

/// Creates all containers, starts them, waits for their programs, and deletes them.
fn round(
    stand: &Stand,
    racer: &Entrant,
    options: &Bulk,
    width: usize,
) -> Result<Result<Round, String>, Error> {
    let change = |config: &mut Value| {
        if options.limits {
            limit(config);
        }
    };
    let containers: Result<Vec<_>, _> =
        (0..options.count).map(|_| Container::changed(stand, racer, &[], change)).collect();
    let containers = containers?;
    let create_s = match each(Container::create, &containers)? {
        Ok(sum) => sum,
        Err(reason) => return Ok(Err(reason)),
    };
    let (time, containers, starts) = start(containers, width);
    interrupt::check()?;
    let starts_us = match starts {
        Ok(starts) => starts.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect(),
        Err(fault) => return Ok(Err(fault.to_string())),
    };
    if let Err(reason) = each(Container::exit, &containers)? {
        return Ok(Err(reason));
    }
    let deleted = each(Container::delete, &containers)?;
    Ok(deleted.map(|delete_s| Round { create_s, start_s: time.as_secs_f64(), delete_s, starts_us }))
}

/// Executes a command for each container, and returns the total time in seconds.
fn each<'a>(
    command: impl Fn(&Container<'a>) -> Result<Sample, Fault>,
    containers: &[Container<'a>],
) -> Result<Result<f64, String>, Error> {
    let mut sum = 0.0;
    for container in containers {
        interrupt::check()?;
        match command(container) {
            Ok(sample) => sum += sample.wall.as_secs_f64(),
            Err(fault) => return Ok(Err(fault.to_string())),
        }
    }
    Ok(Ok(sum))
}

/// Starts all containers, `width` at a time. Returns the total time, the containers, and the sample of each start or a
/// fault. The containers must be dropped on the thread that made them.
fn start(
    mut containers: Vec<Container<'_>>,
    width: usize,
) -> (Duration, Vec<Container<'_>>, Result<Vec<Sample>, Fault>) {
    containers.reverse();
    let count = containers.len();
    let (waiting, done) = (Mutex::new(containers), Mutex::new(Vec::with_capacity(count)));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || {
        while let Some(container) = next() {
            // After an interrupt the remaining containers are returned without being started.
            let result = (!interrupt::came()).then(|| container.start());
            done.lock().unwrap_or_else(PoisonError::into_inner).push((container, result));
        }
    };
    let begin = Instant::now();
    if width == 1 {
        work();
    } else {
        thread::scope(|scope| {
            for _ in 0..width {
                scope.spawn(work);
            }
        });
    }
    let time = begin.elapsed();
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (containers, results): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    (time, containers, results.into_iter().flatten().collect())
}

fn text(rows: &[Row], first: &str, options: &Bulk) -> String {
    let ratio = format!("{first} ÷ it");
    let headings = [
        "",
        "start all, s",
        "min",
        "max",
        &ratio,
        "95 %",
        "a start, ms",
        "p99",
        "create all, s",
        "delete all, s",
    ];
    let mut widths: Vec<usize> = rows.iter().map(|row| row.width).collect();
    widths.dedup();
    let limits = if options.limits { ", limited to 2 CPUs and 4 GiB each" } else { "" };
    let by = if options.podman { " by podman, which executes the runtime" } else { "" };
    let mut text = String::new();
    for width in widths {
        let mut table = Table::new(&headings);
        let mut rounds = 0;
        for row in rows.iter().filter(|row| row.width == width) {
            rounds = rounds.max(row.start_s.len());
            table.row(cells(row, first));
        }
        let how = match width {
            1 => "one after the other".to_owned(),
            _ => format!("{width} at a time"),
        };
        let count = options.count;
        let _ = writeln!(
            text,
            "{} created{by}{limits}, then started {how}, {}\n{table}",
            counted(count, "container"),
            counted(rounds, "round")
        );
    }
    text
}

fn cells(row: &Row, first: &str) -> Vec<String> {
    let middle = |figures: &[f64]| format!("{:.4}", median(&mut figures.to_vec()));
    let mut cells = vec![row.runtime.clone(), middle(&row.start_s)];
    let ends = Summary::of(&row.start_s).map(|all| [all.min, all.max]);
    cells.extend(ends.into_iter().flatten().map(|s| format!("{s:.4}")));
    cells.extend(match row.ratio {
        Some(ratio) => judged(ratio),
        None if row.runtime == first => [String::new(), String::new()],
        None => ["too few rounds".to_owned(), String::new()],
    });
    let starts = Summary::of(&row.starts_us.concat()).map(|all| [all.median, all.p99]);
    cells.extend(starts.into_iter().flatten().map(|us| format!("{:.3}", us / 1e3)));
    cells.extend([middle(&row.create_s), middle(&row.delete_s)]);
    cells
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("width,runtime,round,create_s,start_s,delete_s,start_median_us\n");
    for row in rows {
        for (at, starts) in row.starts_us.iter().enumerate() {
            let figures = [row.create_s.get(at), row.start_s.get(at), row.delete_s.get(at)];
            let [create, start, delete] = figures.map(|figure| figure.copied().unwrap_or(f64::NAN));
            let name = quoted(&row.runtime);
            let middle = median(&mut starts.clone());
            let width = row.width;
            let _ = writeln!(
                text,
                "{width},{name},{at},{create:.6},{start:.6},{delete:.6},{middle:.1}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(runtime: &str, ratio: Option<Estimate>) -> Row {
        Row {
            width: 1,
            runtime: runtime.to_owned(),
            create_s: vec![0.2],
            start_s: vec![0.05],
            delete_s: vec![0.1],
            starts_us: vec![vec![400.0, 500.0, 600.0]],
            ratio,
        }
    }

    #[test]
    fn samples_as_csv() {
        let expected = "\
width,runtime,round,create_s,start_s,delete_s,start_median_us
1,dayfly,0,0.200000,0.050000,0.100000,500.0
";
        assert_eq!(csv(&[row("dayfly", None)]), expected);
    }

    #[test]
    fn the_first_is_compared_with_nobody() {
        let ratio = Some(Estimate { value: 0.4, low: 0.3, high: 0.5 });
        assert_eq!(cells(&row("dayfly", None), "dayfly")[4], "");
        assert_eq!(cells(&row("crun", ratio), "dayfly")[4..6], ["0.400", "[0.300 0.500]"]);
        assert_eq!(cells(&row("runc", None), "dayfly")[4], "too few rounds");
    }

    #[test]
    fn limits_are_the_documents() {
        let mut config = json!({ "linux": { "resources": { "devices": [] } } });
        limit(&mut config);
        assert_eq!(config["linux"]["resources"]["memory"]["limit"], 4_294_967_296_i64);
        assert_eq!(config["linux"]["resources"]["devices"], json!([]));
    }
}
