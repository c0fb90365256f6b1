//! `trace-overhead`: measures how much time dayfly's own trace costs, by pairs of starts with and
//! without a trace.

use crate::Error;
use crate::arguments::Common;
use crate::options::TraceOverhead;
use crate::race::{Operation, Rounds, in_turns, race};
use crate::results;
use crate::runtime::Runtime;
use crate::session::{self, Experiment, Outcome};
use crate::spaced;
use crate::stand::{Entrant, Stand};
use measure::bootstrap::{self, Estimate, Pairing};
use measure::chart::Picture;
use measure::statistics::Summary;
use report::Table;
use report::csv::quoted;
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// The maximum accepted ratio of a traced start's time to an untraced start's time.
const BAR: f64 = 1.01;
/// The untraced entrant.
const OFF: &str = "untraced";

/// The results for one way of tracing and one measure.
#[derive(Debug, Clone, Serialize)]
struct Row {
    measure: &'static str,
    pause_ms: f64,
    trace: String,
    wall_us: Summary,
    /// The additional time, in microseconds.
    more_us: Option<Estimate>,
    /// The time ÷ the untraced time.
    ratio: Option<Estimate>,
    /// The lower quartile of the traced times ÷ the lower quartile of the untraced times.
    quartile_ratio: Option<Estimate>,
    /// The times of all rounds, in microseconds.
    rounds_us: Vec<f64>,
}

/// Returns three entrants: dayfly without a trace, with a trace as JSON lines in memory, and with a trace printed as a
/// table.
#[must_use]
pub fn entrants(runtime: &Runtime, directory: &Path) -> Vec<Entrant> {
    let file = directory.join(format!("dayfly-trace-{}.jsonl", std::process::id()));
    let named = |name: &str, options: Vec<String>| Entrant {
        name: name.to_owned(),
        options,
        ..Entrant::new(runtime.clone())
    };
    let trace = |to: String| vec!["--trace".to_owned(), to];
    vec![
        named(OFF, Vec::new()),
        named("--trace FILE.jsonl", trace(file.display().to_string())),
        named("--trace -", trace("-".to_owned())),
    ]
}

impl Experiment for TraceOverhead {
    fn common(&self) -> &Common {
        &self.common
    }

    fn entrants(&self) -> Result<Vec<Entrant>, Error> {
        Ok(entrants(&session::own(&self.common)?, Path::new("/dev/shm")))
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        experiment(self, stand, entrants)
    }
}

fn experiment(
    options: &TraceOverhead,
    stand: &Stand,
    entrants: &[Entrant],
) -> Result<Outcome, Error> {
    let mut rows = Vec::new();
    for rounds in options.timing.by_pause() {
        let pause = rounds.pause;
        let begun = until_begun(stand, entrants, rounds)?;
        rows.extend(compared("until its program runs", pause, begun));
        let gone = race(stand, entrants, Operation::Run, rounds, || Ok(()))?;
        let gone = gone.into_iter().map(|series| (series.runtime.clone(), series.wall_us()));
        rows.extend(compared("until it is gone", pause, gone.collect()));
    }
    for file in entrants.iter().filter_map(|entrant| entrant.options.get(1)) {
        let _ = std::fs::remove_file(file);
    }
    Ok(Outcome {
        text: text(&rows),
        json: vec![("rows", results::value(&rows)?)],
        csv: csv(&rows),
        pictures: vec![picture(&rows)],
        ..Outcome::default()
    })
}

/// Returns the time of each round until the container's program reports that it runs, for each entrant.
fn until_begun(
    stand: &Stand,
    entrants: &[Entrant],
    rounds: Rounds,
) -> Result<Vec<(String, Vec<f64>)>, Error> {
    let title = format!("until the program runs, pause {:?}", rounds.pause);
    let times = in_turns(entrants, rounds, &title, |at| {
        Ok(spaced::at_once(stand, &entrants[at])?.as_secs_f64() * 1e6)
    })?;
    let named = entrants.iter().zip(times).map(|(entrant, times)| (entrant.name.clone(), times));
    Ok(named.collect())
}

fn compared(measure: &'static str, pause: Duration, times: Vec<(String, Vec<f64>)>) -> Vec<Row> {
    let off = times.iter().find(|(name, _)| name == OFF).map(|(_, times)| times.clone());
    let row = |(name, rounds_us): (String, Vec<f64>)| {
        let off = off.as_ref().filter(|_| name != OFF);
        Some(Row {
            measure,
            pause_ms: pause.as_secs_f64() * 1e3,
            trace: name,
            wall_us: Summary::of(&rounds_us)?,
            more_us: off.and_then(|off| bootstrap::difference(&rounds_us, off, Pairing::Paired)),
            ratio: off.and_then(|off| bootstrap::ratio(&rounds_us, off, Pairing::Paired)),
            quartile_ratio: off
                .and_then(|off| bootstrap::quartile_ratio(&rounds_us, off, Pairing::Paired)),
            rounds_us,
        })
    };
    times.into_iter().filter_map(row).collect()
}

/// Draws bars of the medians.
fn picture(rows: &[Row]) -> Picture {
    let medians = rows.iter().map(|row| {
        let title = results::title(row.measure, row.pause_ms);
        (title, row.trace.clone(), row.wall_us.median / 1e3)
    });
    results::bars("A start, traced and not", "ms, median", medians)
}

fn text(rows: &[Row]) -> String {
    const HEADINGS: &str =
        ",median ms,σ,more µs,95 %,ratio,95 %,≤ 1 %,of lower quartiles,95 %,≤ 1 %";
    let mut text = String::new();
    for same in rows.chunk_by(|a, b| (a.measure, a.pause_ms) == (b.measure, b.pause_ms)) {
        let mut table = Table::new(&HEADINGS.split(',').collect::<Vec<_>>());
        same.iter().for_each(|row| table.row(cells(row)));
        let Row { measure, pause_ms, wall_us, .. } = &same[0];
        let title = results::title(&format!("run, {measure}"), *pause_ms);
        let _ = writeln!(text, "{title}, {} pairs\n{table}", wall_us.count);
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![
        row.trace.clone(),
        format!("{:.3}", row.wall_us.median / 1e3),
        format!("{:.3}", row.wall_us.deviation / 1e3),
    ];
    if let Some(more) = row.more_us {
        cells.push(format!("{:+.1}", more.value));
        cells.push(format!("[{:+.1} {:+.1}]", more.low, more.high));
    }
    for ratio in [row.ratio, row.quartile_ratio].into_iter().flatten() {
        cells.push(format!("{:.4}", ratio.value));
        cells.push(format!("[{:.4} {:.4}]", ratio.low, ratio.high));
        cells.push(ratio.within(BAR).to_owned());
    }
    cells
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("measure,pause_ms,trace,round,wall_us\n");
    for row in rows {
        for (round, us) in row.rounds_us.iter().enumerate() {
            let name = quoted(&row.trace);
            let measure = quoted(row.measure);
            let _ = writeln!(text, "{measure},{},{name},{round},{us:.1}", row.pause_ms);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_compared() {
        let off: Vec<f64> = (0..20).map(|round| 100.0 + f64::from(round % 3)).collect();
        let on: Vec<f64> = off.iter().map(|time| time * 1.1).collect();
        let times = vec![(OFF.to_owned(), off), ("x".to_owned(), on)];
        let rows = compared("m", Duration::ZERO, times);
        assert!(rows[0].ratio.is_none());
        assert!(rows[1].ratio.is_some_and(|ratio| (ratio.value - 1.1).abs() < 1e-9));
        assert!(text(&rows).contains("no"));
    }
}
