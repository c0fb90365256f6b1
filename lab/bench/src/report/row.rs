//! A row of a section's table.

use super::line::{Cell, Line, Published};
use host::measure::chart::{digits, whole_or_digits};
use serde::{Deserialize, Serialize};

/// The maximum number of figures side by side.
const BESIDE: usize = 5;

/// The name of the only column if there are too many entrants to show side by side.
const HERE: &str = "here";

/// A row of a section's table: one quantity, with its published and its measured figures.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub what: String,
    pub unit: String,
    /// The published figures, with their subjects.
    pub published: Vec<Published>,
    pub measured: Vec<Cell>,
}

impl Row {
    /// Returns one row, or one per entrant if there are too many entrants to show side by side.
    pub(super) fn of(line: &Line, measured: Vec<Cell>) -> Vec<Self> {
        let row = |what, published: &[Published], measured| Self {
            what,
            unit: line.unit.clone(),
            published: published.to_vec(),
            measured,
        };
        if measured.len() <= BESIDE {
            return vec![row(line.what.clone(), &line.published, measured)];
        }
        let each = measured.into_iter().enumerate().map(|(at, cell)| {
            let what = format!("{}, {}", line.what, cell.name);
            let published = if at == 0 { line.published.as_slice() } else { &[] };
            row(what, published, vec![Cell { name: HERE.to_owned(), ..cell }])
        });
        each.collect()
    }

    /// Removes the rows of a line from `rows`, and returns their figures: the reverse of [`Self::of`].
    pub(super) fn cells(rows: &mut Vec<Self>, line: &Line) -> Vec<Cell> {
        let mut cells = Vec::new();
        rows.retain(|row| {
            match (row.what.strip_prefix(&line.what), row.measured.as_slice()) {
                (Some(""), measured) => cells.extend_from_slice(measured),
                (Some(rest), [cell]) if rest.starts_with(", ") && cell.name == HERE => {
                    cells.push(Cell { name: rest[2..].to_owned(), ..cell.clone() });
                }
                _ => return true,
            }
            false
        });
        cells
    }

    /// Returns the row's figure in a column, in the `first` or `last` one, or in that of a `beginning*`.
    pub(super) fn cell(&self, column: &str) -> Option<&Cell> {
        match column {
            "first" => self.measured.first(),
            "last" => self.measured.last(),
            name => self.measured.iter().find(|cell| match name.strip_suffix('*') {
                Some(beginning) => cell.name.starts_with(beginning),
                None => cell.name == name,
            }),
        }
    }

    /// Returns the row's figures in a column, as text.
    pub(super) fn texts(&self, column: &str) -> Vec<String> {
        self.measured.iter().filter(|cell| cell.name == column).map(shown).collect()
    }
}

/// Formats a figure with its interval, both with their significant digits.
fn shown(cell: &Cell) -> String {
    match cell.interval {
        Some(both) => {
            let [low, high] = both.map(digits);
            // Numbers that contain blanks need a sign between them.
            let is_plain = [&low, &high].iter().all(|number| !number.contains('\u{202f}'));
            let between = if is_plain { " " } else { " – " };
            format!("{} [{low}{between}{high}]", digits(cell.value))
        }
        None => whole_or_digits(cell.value),
    }
}
