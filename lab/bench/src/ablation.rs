//! `ablation`: measures how much time each fast path saves on this host, or each of the three levers of optimization:
//! parallelism, caching and elimination.
//!
//! The environment variable [`plan::WITHOUT`] names the fast paths that dayfly omits. It exists for this experiment
//! only.

use crate::Error;
use crate::options::Ablation;
use crate::race::{Series, race};
use crate::results;
use crate::runtime::Runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use measure::bootstrap::{self, Estimate, Pairing};
use measure::chart::Picture;
use measure::statistics::Summary;
use plan::FastPaths;
use report::Table;
use report::count::counted;
use serde::Serialize;
use std::fmt::Write;

/// The fast paths, grouped by the three levers of Hall and Ramachandran, "Opportunities for Optimizing the Container
/// Runtime", section VI.
const LEVERS: [(&str, FastPaths); 3] = [
    ("parallelism", FastPaths::PARALLEL_NETWORK.union(FastPaths::ONE_WAY_HANDSHAKE)),
    (
        "caching",
        FastPaths::BLANK_NAMESPACE
            .union(FastPaths::SECCOMP_CACHE)
            .union(FastPaths::DEVICE_CACHE)
            .union(FastPaths::KEPT_PROGRAM),
    ),
    (
        "elimination",
        FastPaths::CLONE_INTO_CGROUP
            .union(FastPaths::THREAD_MOVE)
            .union(FastPaths::SHARED_MEMORY)
            .union(FastPaths::SHARED_MASKS),
    ),
];

/// The name of the entrant with all fast paths.
const BASELINE: &str = "everything";
/// The name of the entrant that omits, all at once, the fast paths that other entrants omit one by one.
const ALL: &str = "all of these";

/// The time of one step without a fast path or lever, compared with the time with all fast paths.
#[derive(Debug, Clone, Serialize)]
struct Row {
    step: String,
    pause_ms: f64,
    without: String,
    /// The time without the fast path, in microseconds.
    wall_us: Summary,
    /// The additional time without the fast path, in microseconds.
    worth_us: Option<Estimate>,
    /// The time without the fast path ÷ the time with all fast paths.
    ratio: Option<Estimate>,
}

/// Returns the entrants. The first one is dayfly with all fast paths. For each fast path or lever that `options`
/// selects (by default each fast path), one entrant is dayfly without it. If `options` selects several, the last
/// entrant is dayfly without any of them.
#[must_use]
pub fn entrants(runtime: &Runtime, options: &Ablation) -> Vec<Entrant> {
    let entrant = |name: &str, without: &str| Entrant {
        name: name.to_owned(),
        environment: match without {
            "" => Vec::new(),
            names => vec![(plan::WITHOUT.to_owned(), names.to_owned())],
        },
        ..Entrant::new(runtime.clone())
    };
    let left_out: Vec<(String, String)> = if options.levers {
        LEVERS.iter().map(|(lever, fast_paths)| ((*lever).to_owned(), names(*fast_paths))).collect()
    } else {
        let all = names(FastPaths::all());
        let known = || all.split(',').map(str::to_owned).collect();
        let named = if options.without.is_empty() { known() } else { options.without.clone() };
        named.into_iter().map(|name| (name.clone(), name)).collect()
    };
    let mut entrants = vec![entrant(BASELINE, "")];
    entrants.extend(left_out.iter().map(|(name, without)| entrant(name, without)));
    if left_out.len() > 1 {
        let all: Vec<&str> = left_out.iter().map(|(_, without)| without.as_str()).collect();
        entrants.push(entrant(ALL, &all.join(",")));
    }
    entrants
}

/// Returns the names of fast paths, separated by commas, as in the environment variable [`plan::WITHOUT`].
fn names(fast_paths: FastPaths) -> String {
    let named = FastPaths::NAMES.iter().filter(|(_, one)| fast_paths.contains(*one));
    named.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

/// Runs the experiment.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Ablation,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut series = Vec::new();
    for &operation in &options.operation {
        for rounds in options.timing.by_pause() {
            series.extend(race(stand, entrants, operation, rounds)?);
        }
    }
    let rows: Vec<Row> = series.iter().filter_map(|of| row(&series, of)).collect();
    Ok(Outcome {
        text: text(&rows),
        json: vec![("rows", results::value(&rows)?)],
        csv: results::csv(&series),
        pictures: [Some(picture(&rows)), before_and_after(&series)].into_iter().flatten().collect(),
        ..Outcome::default()
    })
}

/// Draws two distributions of the first step's times: with all fast paths, and without any of the omitted ones. Returns
/// `None` if only one fast path or lever was omitted.
fn before_and_after(series: &[Series]) -> Option<Picture> {
    let first = series.first()?;
    let of = |name: &str| {
        let same = |of: &&Series| (&of.step, of.pause) == (&first.step, first.pause);
        series.iter().filter(same).find(|of| of.runtime == name).map(Series::wall_us)
    };
    let (with, without) = (of(BASELINE)?, of(ALL)?);
    let title = results::title(&first.step, first.pause.as_secs_f64() * 1e3);
    let both = [("without them", without.as_slice()), ("with all of them", with.as_slice())];
    Some(results::distribution(&format!("{title}, without and with fast paths"), both.into_iter()))
}

fn row(series: &[Series], of: &Series) -> Option<Row> {
    let same = |other: &&Series| (&other.step, other.pause) == (&of.step, of.pause);
    let base = series.iter().filter(same).find(|other| other.runtime == BASELINE);
    let base = base.filter(|_| of.runtime != BASELINE).map(Series::wall_us);
    let times = of.wall_us();
    let base = base.as_deref();
    Some(Row {
        step: of.step.clone(),
        pause_ms: of.pause.as_secs_f64() * 1e3,
        without: of.runtime.clone(),
        wall_us: Summary::of(&times)?,
        worth_us: base.and_then(|base| bootstrap::difference(&times, base, Pairing::Paired)),
        ratio: base.and_then(|base| bootstrap::ratio(&times, base, Pairing::Paired)),
    })
}

/// Draws a bar for each fast path: how much longer a start takes without that fast path.
fn picture(rows: &[Row]) -> Picture {
    let worth = |row: &Row| {
        let percent = (row.ratio?.value - 1.0) * 100.0;
        Some((row.without.clone(), results::title(&row.step, row.pause_ms), percent))
    };
    results::bars(
        "Additional time of a start without it",
        "% more time",
        rows.iter().filter_map(worth),
    )
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut done: Vec<String> = Vec::new();
    for row in rows {
        let title = results::title(&row.step, row.pause_ms);
        if done.contains(&title) {
            continue;
        }
        let mut table =
            Table::new(&["left out", "median ms", "σ", "it is worth µs", "95 %", "of the start"]);
        let group =
            rows.iter().filter(|other| results::title(&other.step, other.pause_ms) == title);
        for row in group {
            table.row(cells(row));
        }
        let _ = writeln!(text, "{title}, {}\n{table}", counted(row.wall_us.count, "round"));
        done.push(title);
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let name = if row.without == BASELINE { "(nothing)" } else { &row.without };
    let mut cells = vec![
        name.to_owned(),
        format!("{:.3}", row.wall_us.median / 1e3),
        format!("{:.3}", row.wall_us.deviation / 1e3),
    ];
    if let (Some(worth), Some(ratio)) = (row.worth_us, row.ratio) {
        let shown = worth.differs_from(0.0);
        let figure = || format!("{:.0}", worth.value);
        cells.push(if shown { figure() } else { "nothing shown".to_owned() });
        cells.push(format!("[{:.0} {:.0}]", worth.low, worth.high));
        cells.push(if shown {
            format!("{:+.1} %", (ratio.value - 1.0) * 100.0)
        } else {
            String::new()
        });
    } else if row.without != BASELINE {
        cells.push("too few rounds".to_owned());
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_before_and_after_are_drawn() {
        let series = |name: &str, us: u64| Series {
            step: "run".to_owned(),
            pause: std::time::Duration::ZERO,
            runtime: name.to_owned(),
            samples: vec![
                crate::process::Sample {
                    wall: std::time::Duration::from_micros(us),
                    ..crate::process::Sample::default()
                };
                6
            ],
            is_split: false,
        };
        let mut all = vec![series(BASELINE, 2000), series("caching", 3000)];
        assert!(before_and_after(&all).is_none(), "one thing is left out");
        all.push(series(ALL, 9000));
        let Some(Picture::Chart(chart)) = before_and_after(&all) else { panic!("no chart") };
        let largest = |at: usize| chart.series[at].points.last().map(|point| point.0);
        assert_eq!((chart.series.len(), chart.series[0].name.as_str()), (2, "without them"));
        assert!(largest(0) > largest(1), "{chart:?}");
    }

    #[test]
    fn every_fast_path_pulls_one_lever() {
        let sum = LEVERS.iter().fold(FastPaths::empty(), |sum, (lever, fast_paths)| {
            assert!(!sum.intersects(*fast_paths), "{lever}");
            sum | *fast_paths
        });
        assert_eq!(sum, FastPaths::all());
        for (lever, fast_paths) in LEVERS {
            assert_eq!(
                FastPaths::without(&names(fast_paths)),
                Ok(FastPaths::all() - fast_paths),
                "{lever}"
            );
        }
    }
}
