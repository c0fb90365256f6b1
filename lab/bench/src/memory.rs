//! `memory`: finds the smallest memory limit with which a container starts, the peak memory of a
//! runtime's commands, and the resources in use while a container is idle.

mod idle;
mod limit;

use crate::cgroup::can_limit;
use crate::options::{Figure, Memory};
use crate::race::{Operation, Rounds, go, in_turns, sleeper};
use crate::results::{self, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::view::View;
use crate::weight::Way;
use crate::{Error, burst};
use measure::bootstrap::{self, Estimate, FEWEST_ROUNDS, Pairing};
use measure::chart::Picture;
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
use report::csv::quoted;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// One figure of one entrant.
#[derive(Debug, Clone, Serialize)]
struct Row {
    figure: String,
    unit: &'static str,
    runtime: String,
    /// The figure of each round.
    rounds: Vec<f64>,
    /// The first entrant's figure ÷ this entrant's.
    ratio: Option<Estimate>,
}

/// A figure's name, unit and value in one round.
type Value = (&'static str, &'static str, f64);

/// Leaves the view in which this program was started if the smallest limit is requested, the view has no memory
/// controller, and no view is requested by an option. A hybrid host is then shown with its v1 controllers alone,
/// because not every runtime supports v1 and v2 together.
///
/// # Errors
/// Those of making a mount namespace.
pub fn uncover(options: &Memory) -> Result<(), Error> {
    let needs_controller = options.figure.contains(&Figure::Limit);
    if !needs_controller || options.common.view.is_some() || can_limit("memory") {
        return Ok(());
    }
    View::leave()?;
    match View::current() {
        View::Hybrid if can_limit("memory") => View::V1.enter(),
        _ => Ok(()),
    }
}

/// Runs the experiment: for every figure, the entrants take turns.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Memory,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    burst::warm_up(stand, entrants)?;
    let racers = entrants.to_vec();
    let rounds = Rounds { warm_up: 0, timed: options.rounds, pause: Duration::ZERO };
    let (mut rows, mut missing) = (Vec::new(), String::new());
    for &figure in &options.figure {
        match figure {
            Figure::Limit if !can_limit("memory") => {
                let view = View::current().name();
                missing = format!(
                    "no controller memory in the {view} view: no smallest limit can be told\n"
                );
            }
            Figure::Limit => {
                let goes = in_turns(entrants, rounds, "smallest memory limits", |at| {
                    limit::smallest(stand, &racers[at], options)
                })?;
                let name = "smallest limit that starts";
                rows.extend(summed_up(&racers, goes, |&bytes| {
                    vec![(name, "KiB", bytes as f64 / 1024.0)]
                }));
            }
            Figure::Peak => {
                for &operation in &options.operation {
                    rows.extend(peaks(stand, entrants, operation, rounds)?);
                }
            }
            Figure::Idle => {
                let goes = in_turns(entrants, rounds, "idle containers", |at| {
                    idle::look(stand, &racers[at])
                })?;
                rows.extend(summed_up(&racers, goes, idle::Idle::values));
            }
        }
    }
    let first = racers.first().map_or("", |racer| &racer.name);
    Ok(Outcome {
        text: missing.clone() + &text(&rows, first),
        json: vec![
            ("missing", results::value(&missing.trim_end())?),
            ("rows", results::value(&rows)?),
        ],
        csv: csv(&rows),
        pictures: vec![picture(&rows)],
        ..Outcome::default()
    })
}

/// Draws bars of all figures that are sizes.
fn picture(rows: &[Row]) -> Picture {
    let sizes = rows.iter().filter(|row| row.unit == "KiB");
    let medians = sizes.filter_map(|row| {
        Some((row.figure.clone(), row.runtime.clone(), Summary::of(&row.rounds)?.median))
    });
    results::bars("Memory", "KiB, median", medians)
}

/// Returns the peak memory of each command of an operation.
fn peaks(
    stand: &Stand,
    entrants: &mut [Entrant],
    operation: Operation,
    rounds: Rounds,
) -> Result<Vec<Row>, Error> {
    let racers = entrants.to_vec();
    let mut sleepers = Vec::new();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        sleepers.push(sleeper(stand, racer, entrant, operation)?);
    }
    let goes = in_turns(entrants, rounds, "peaks of commands", |at| {
        let done = go(stand, &racers[at], operation, sleepers[at].as_ref(), Way::Calls)?;
        Ok(done.map_err(|fault| fault.to_string()))
    })?;
    drop(sleepers);
    Ok(summed_up(&racers, goes, |go| {
        let steps = operation.steps().iter().zip(&go.samples);
        let commands = steps.filter(|(step, _)| operation.commands().contains(step));
        commands.map(|(step, sample)| (peak(step), "KiB", sample.weight.peak_kib)).collect()
    }))
}

/// Returns the name of the figure for a command's peak memory.
fn peak(command: &str) -> &'static str {
    match command {
        "run" => "peak of run",
        "create" => "peak of create",
        "start" => "peak of start",
        "delete" => "peak of delete",
        "kill" => "peak of kill",
        _ => "peak of exec",
    }
}

/// Builds rows from the entrants' values by round, groups the rows by figure, and compares each entrant with the first.
fn summed_up<T>(
    racers: &[Entrant],
    goes: Vec<Vec<T>>,
    values: impl Fn(&T) -> Vec<Value>,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (racer, goes) in racers.iter().zip(&goes) {
        for (figure, unit, value) in goes.iter().flat_map(&values) {
            let same = |row: &&mut Row| row.figure == figure && row.runtime == racer.name;
            match rows.iter_mut().find(same) {
                Some(row) => row.rounds.push(value),
                None => rows.push(Row {
                    figure: figure.to_owned(),
                    unit,
                    runtime: racer.name.clone(),
                    rounds: vec![value],
                    ratio: None,
                }),
            }
        }
    }
    let mut figures: Vec<String> = Vec::new();
    for row in &rows {
        if !figures.contains(&row.figure) {
            figures.push(row.figure.clone());
        }
    }
    rows.sort_by_key(|row| figures.iter().position(|figure| *figure == row.figure));
    let bases: Vec<Row> = rows
        .iter()
        .filter(|row| racers.first().is_some_and(|first| first.name == row.runtime))
        .cloned()
        .collect();
    for row in &mut rows {
        let base =
            bases.iter().find(|base| base.figure == row.figure && base.runtime != row.runtime);
        let ratio =
            base.and_then(|base| bootstrap::ratio(&base.rounds, &row.rounds, Pairing::Independent));
        // 0 ÷ 0 is not a number.
        row.ratio = ratio.filter(|ratio| ratio.value.is_finite() && ratio.high.is_finite());
    }
    rows
}

fn text(rows: &[Row], first: &str) -> String {
    let ratio = format!("{first} ÷ it");
    let mut text = String::new();
    for group in rows.chunk_by(|a, b| a.figure == b.figure) {
        let unit = group.first().map_or("", |row| row.unit);
        let mut table = Table::new(&[unit, "median", "min", "max", &ratio, "95 %"]);
        for row in group {
            let mut cells = vec![row.runtime.clone()];
            let figures = Summary::of(&row.rounds).map(|all| [all.median, all.min, all.max]);
            cells.extend(figures.into_iter().flatten().map(|figure| format!("{figure:.0}")));
            cells.extend(match row.ratio {
                Some(ratio) => judged(ratio),
                None if row.runtime == first => Default::default(),
                None if row.rounds.len() < FEWEST_ROUNDS => {
                    ["too few rounds".to_owned(), String::new()]
                }
                None => ["-".to_owned(), String::new()],
            });
            table.row(cells);
        }
        let (name, rounds) = group.first().map_or(("", 0), |row| (&row.figure, row.rounds.len()));
        let _ = writeln!(text, "{name}, {}\n{table}", counted(rounds, "round"));
    }
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("figure,unit,runtime,round,value\n");
    for row in rows {
        for (round, value) in row.rounds.iter().enumerate() {
            let _ = writeln!(
                text,
                "{},{},{},{round},{value}",
                row.figure,
                row.unit,
                quoted(&row.runtime)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_the_firsts() {
        let racers = [Entrant::named("dayfly"), Entrant::named("crun")];
        let values =
            |&kib: &f64| vec![("peak of run", "KiB", kib), ("processes", "processes", 0.0)];
        let rows = summed_up(&racers, vec![vec![500.0; 6], vec![1000.0; 6]], values);
        let expected = "\
peak of run, 6 rounds
KiB     median   min   max  dayfly ÷ it           95 %
dayfly     500   500   500
crun      1000  1000  1000        0.500  [0.500 0.500]

processes, 6 rounds
processes  median  min  max  dayfly ÷ it  95 %
dayfly          0    0    0
crun            0    0    0            -

";
        assert_eq!(text(&rows, "dayfly"), expected);
        assert_eq!(csv(&rows).lines().nth(7), Some("peak of run,KiB,crun,0,1000"));
    }
}
