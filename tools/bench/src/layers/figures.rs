//! The tables: how long starts take, and the host's responsiveness meanwhile.

use super::{Case, Row};
use crate::probe::Health;
use report::Table;
use report::bootstrap::{self, Pairing};
use report::count::counted;
use report::statistics::Summary;
use std::fmt::Write;

/// Returns the distinct values of `of`, in the order of the rows.
pub(super) fn distinct<T: PartialEq>(rows: &[Row], of: impl Fn(&Row) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for value in rows.iter().map(of) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// Formats the median and the 90th percentile of every case, compared with the same way's time for the fewest layers.
pub(super) fn latencies(rows: &[Row], count: usize) -> String {
    let mut text = String::new();
    for width in distinct(rows, |row| row.width) {
        let at_width = || rows.iter().filter(move |row| row.width == width);
        let mut headings = vec!["layers".to_owned()];
        let modes = distinct(rows, |row| row.case.mode);
        for mode in &modes {
            headings.extend([format!("{} ms", mode.name()), "p90".into(), "own first = 1".into()]);
        }
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut table = Table::new(&headings);
        for layers in distinct(rows, |row| row.case.layers) {
            let mut cells = vec![layers.to_string()];
            for &mode in &modes {
                let row = at_width().find(|row| row.case == Case { mode, layers });
                let base = at_width().find(|row| row.case.mode == mode);
                cells.extend(figures(row, base));
            }
            table.row(cells);
        }
        let rounds = at_width().map(|row| row.load.rates.len()).max().unwrap_or(0);
        let count = count.max(width);
        let _ = writeln!(
            text,
            "{width} at a time, {} of {}\n{table}",
            counted(rounds, "round"),
            counted(count, "start")
        );
    }
    text
}

fn figures(row: Option<&Row>, base: Option<&Row>) -> [String; 3] {
    let none = || ["-"; 3].map(str::to_owned);
    let Some(row) = row else { return none() };
    let Some(times) = Summary::of(&row.load.latencies_us) else { return none() };
    let base = base.filter(|base| base.case != row.case);
    let ratio = base.and_then(|base| {
        bootstrap::ratio(&row.load.latencies_us, &base.load.latencies_us, Pairing::Independent)
    });
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.value));
    [format!("{:.2}", times.median / 1e3), format!("{:.2}", times.p90 / 1e3), ratio]
}

/// Formats the probe's measurements during the starts of each case.
pub(super) fn health(rows: &[Row], idle: &Health) -> String {
    let mut table = Table::new(&Health::HEADINGS);
    table.row(idle.cells("(idle)"));
    for Row { case: Case { mode, layers }, width, load } in rows {
        table.row(load.health.cells(&format!(
            "{width} × {}, {}",
            mode.name(),
            counted(*layers, "layer")
        )));
    }
    format!("{table}\n")
}
