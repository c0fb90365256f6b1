//! Formats tables.

use super::{Row, distinct, grouped, verdict_table};
use crate::accounting;
use crate::start::Weighed;
use measure::bootstrap::Estimate;
use report::Table;
use report::count::counted;
use std::fmt::Write;

/// Formats the times: a table for each step and pause.
#[must_use]
pub fn times(rows: &[Row], first: &str) -> String {
    let ratio = format!("{first} ÷ it");
    let headings = ["ms", "min", "median", "p90", "p99", "max", "σ", &ratio, "95 %"];
    by_group(rows, &headings, |row| {
        let times = row.wall_us;
        let figures = [times.min, times.median, times.p90, times.p99, times.max, times.deviation];
        let mut cells = vec![row.runtime.clone()];
        cells.extend(figures.map(|us| format!("{:.3}", us / 1e3)));
        cells.extend(match (row.ratio, row.runtime == first) {
            (_, true) => [String::new(), String::new()],
            (None, _) => ["too few rounds".to_owned(), String::new()],
            (Some(ratio), _) => judged(ratio),
        });
        cells
    })
}

/// Formats the median usage: a table for each step and pause.
#[must_use]
pub fn resources(rows: &[Row]) -> String {
    let headings = ["median", "CPU ms", "user", "system", "page faults", "switches"];
    let split =
        |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.2}", us / 1e3));
    let table = by_group(rows, &headings, |row| {
        vec![
            row.runtime.clone(),
            format!("{:.2}", row.cpu_us / 1e3),
            split(row.user_us),
            split(row.system_us),
            format!("{:.0}", row.faults),
            format!("{:.0}", row.switches),
        ]
    });
    table + accounting::note(rows.iter().all(|row| row.user_us.is_some()))
}

/// Formats the counts: a row for each step and runtime.
#[must_use]
pub fn weights(weighed: &[Weighed]) -> String {
    let mut table =
        Table::new(&["followed", "runtime", "system calls", "instructions", "peak MiB"]);
    for of in weighed {
        let mut cells = vec![of.step.to_owned(), of.runtime.clone()];
        match of.weight {
            Some(weight) => cells.extend([
                format!("{:.0}", weight.system_calls),
                weight.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}")),
                format!("{:.2}", weight.peak_kib / 1024.0),
            ]),
            None => cells.push("can't be followed".to_owned()),
        }
        table.row(cells);
    }
    table.to_string()
}

/// Formats ratios with a row for each step and a column for each runtime: the first runtime's time ÷ that runtime's.
#[must_use]
pub fn verdicts(rows: &[Row], first: &str) -> String {
    let compared = rows.iter().filter(|row| row.ratio.is_some());
    let peers = distinct(compared.map(|row| row.runtime.as_str()));
    let groups = groups(rows);
    let titles = groups.iter().map(|(title, _)| title.clone());
    verdict_table(&format!("{first}'s time ÷ that of"), &peers, titles, |at, peer| {
        let row = groups[at].1.iter().find(|row| row.runtime == peer)?;
        Some(judged(row.ratio?).join(" "))
    })
}

/// Formats a difference of times in microseconds, and its interval.
pub(crate) fn difference(us: Option<Estimate>) -> [String; 2] {
    let Some(us) = us else { return ["too few rounds".to_owned(), String::new()] };
    let interval = format!("[{:.0} {:.0}]", us.low, us.high);
    match us.differs_from(0.0) {
        true => [format!("{:.0}", us.value), interval],
        false => ["nothing shown".to_owned(), interval],
    }
}

/// Formats a ratio and its interval. If the interval includes 1, a text replaces the ratio.
pub(crate) fn judged(ratio: Estimate) -> [String; 2] {
    let interval = format!("[{:.3} {:.3}]", ratio.low, ratio.high);
    if ratio.differs_from(1.0) {
        [format!("{:.3}", ratio.value), interval]
    } else {
        ["no difference shown".to_owned(), interval]
    }
}

fn by_group(rows: &[Row], headings: &[&str], cells: impl Fn(&Row) -> Vec<String>) -> String {
    let mut text = String::new();
    for (title, group) in groups(rows) {
        let mut table = Table::new(headings);
        for row in &group {
            table.row(cells(row));
        }
        let rounds = group.iter().map(|row| row.wall_us.count).max().unwrap_or(0);
        let _ = writeln!(text, "{title}, {}\n{table}", counted(rounds, "round"));
    }
    text
}

/// Groups the rows by step and pause, with their titles.
fn groups(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    grouped(rows.iter().map(|row| (title(&row.step, row.pause_ms), row)))
}

/// Returns the title of a step at a pause.
pub(crate) fn title(step: &str, pause_ms: f64) -> String {
    if pause_ms == 0.0 {
        format!("{step}, back-to-back")
    } else {
        format!("{step}, {pause_ms} ms apart")
    }
}
