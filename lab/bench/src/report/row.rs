//! A row of a section's table.

use super::paper::{Line, Published};
use super::take::Cell;
use measure::chart::{digits, whole_or_digits};
use serde::Serialize;

/// The maximum number of figures side by side.
const BESIDE: usize = 5;

/// A row of a section's table: one quantity, with its published and its measured figures.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub what: String,
    pub unit: &'static str,
    /// The published figures, with their subjects.
    pub published: &'static [Published],
    pub measured: Vec<Cell>,
}

impl Row {
    /// Returns one row, or one per entrant if there are too many entrants to show side by side.
    pub(super) fn of(line: &Line, measured: Vec<Cell>) -> Vec<Self> {
        let row =
            |what: String, published, measured| Self { what, unit: line.unit, published, measured };
        if measured.len() <= BESIDE {
            return vec![row(line.what.to_owned(), line.published, measured)];
        }
        let each = measured.into_iter().enumerate().map(|(at, cell)| {
            let what = format!("{}, {}", line.what, cell.name);
            let published = if at == 0 { line.published } else { &[] };
            row(what, published, vec![Cell { name: "here".to_owned(), ..cell }])
        });
        each.collect()
    }

    /// Returns the text of the row's cell in a column.
    pub(super) fn cell(&self, column: &str) -> String {
        let cells: Vec<String> =
            self.measured.iter().filter(|cell| cell.name == column).map(shown).collect();
        cells.join(", ")
    }

    /// Returns the published figures, each with its subject.
    pub(super) fn published(&self) -> String {
        let one = |it: &Published| match it.of {
            "" => it.text.to_owned(),
            of => format!("{}, {of}", it.text),
        };
        self.published.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

/// Formats a figure with its interval, both with their significant digits.
pub(super) fn shown(cell: &Cell) -> String {
    match cell.interval {
        Some([low, high]) => {
            format!("{} [{} {}]", digits(cell.value), digits(low), digits(high))
        }
        None => whole_or_digits(cell.value),
    }
}
