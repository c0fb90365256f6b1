//! The tables: how long starts take, and the host's responsiveness meanwhile.

use super::Row;
use crate::probe::Health;
use crate::results::judged;
use measure::bootstrap::{self, Pairing};
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
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

/// Formats the median and the 90th percentile of every case, and two ratios. The column `fewest = 1` has the median
/// divided by the median of the same way with the first number of layers. The column `÷ it` has the median of the first
/// way with the same number of layers, divided by this case's median.
pub(super) fn latencies(rows: &[Row], count: usize) -> String {
    let mut text = String::new();
    let first = rows.first().map(|row| row.case.way()).unwrap_or_default();
    let ratio = format!("{first} ÷ it");
    let headings = ["", "layers", "median ms", "p90", "fewest = 1", &ratio, "95 %", "failed"];
    for width in distinct(rows, |row| row.width) {
        let at_width: Vec<&Row> = rows.iter().filter(|row| row.width == width).collect();
        let mut table = Table::new(&headings);
        for way in distinct(rows, |row| row.case.way()) {
            let of_way = || at_width.iter().copied().filter(|row| row.case.way() == way);
            for row in of_way() {
                let same = |other: &&&Row| other.case.layers == row.case.layers;
                let base = at_width.iter().filter(same).find(|other| other.case.way() == first);
                let base = base.copied().filter(|_| way != first);
                table.row(cells(row, of_way().next(), base));
            }
        }
        let rounds = at_width.iter().map(|row| row.load.rates.len()).max().unwrap_or(0);
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

fn cells(row: &Row, fewest: Option<&Row>, base: Option<&Row>) -> Vec<String> {
    let us = &row.load.latencies_us;
    let ratio = |one: &[f64], other: &[f64]| bootstrap::ratio(one, other, Pairing::Independent);
    let mut cells = vec![row.case.way(), row.case.layers.to_string()];
    match Summary::of(us) {
        Some(times) => cells.extend([times.median, times.p90].map(|us| format!("{:.2}", us / 1e3))),
        None => cells.extend(["-"; 2].map(str::to_owned)),
    }
    let grown = fewest.filter(|fewest| fewest.case != row.case);
    let grown = grown.and_then(|fewest| ratio(us, &fewest.load.latencies_us));
    cells.push(grown.map_or_else(String::new, |ratio| format!("{:.2}", ratio.value)));
    let compared = base.and_then(|base| ratio(&base.load.latencies_us, us));
    cells.extend(compared.map_or_else(Default::default, judged));
    cells.push(row.load.failed.to_string());
    cells
}

/// Formats the probe's measurements during the starts of each case.
pub(super) fn health(rows: &[Row], idle: &Health) -> String {
    let mut table = Table::new(&Health::HEADINGS);
    table.row(idle.cells("(idle)"));
    for Row { case, width, load } in rows {
        table.row(load.health.cells(&format!("{width} × {}", case.name())));
    }
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn ways_are_compared_with_themselves_and_with_the_first() {
        let rows = [
            row("dayfly", "fd", 1, &[2000.0; 6]),
            row("dayfly", "fd", 50, &[3000.0; 6]),
            row("crun", "parent", 1, &[8000.0; 6]),
            row("crun", "parent", 50, &[12_000.0; 6]),
        ];
        let expected = "\
4 at a time, 1 round of 8 starts
              layers  median ms    p90  fewest = 1  dayfly, fd ÷ it           95 %  failed
dayfly, fd         1       2.00   2.00                                                    0
dayfly, fd        50       3.00   3.00        1.50                                        0
crun, parent       1       8.00   8.00                        0.250  [0.250 0.250]       0
crun, parent      50      12.00  12.00        1.50            0.250  [0.250 0.250]       0

";
        let squeezed = |text: &str| {
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.collect::<Vec<_>>().concat().join(" ")
        };
        assert_eq!(squeezed(&latencies(&rows, 8)), squeezed(expected));
    }
}
