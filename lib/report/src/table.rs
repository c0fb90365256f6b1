//! Tables for people to read.

use std::fmt::{self, Write};

/// A table with headings: the first column is left-aligned, the others are right-aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
}

impl Table {
    /// Returns a table without rows.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { rows: vec![headings], left: vec![0] }
    }

    /// Left-aligns these columns, counted from 0: those with text.
    #[must_use]
    pub fn left(mut self, columns: &[usize]) -> Self {
        self.left = columns.to_vec();
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row: &Vec<String>| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if at == 0 { "" } else { "  " };
                if self.left.contains(&at) {
                    write!(line, "{gap}{cell:<width$}")?;
                } else {
                    write!(line, "{gap}{cell:>width$}")?;
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_to_the_right_and_words_to_the_left() {
        let mut table = Table::new(&["name", "count", "why"]).left(&[0, 2]);
        table.row(["überlang", "1", "so"].map(str::to_owned).to_vec());
        table.row(["b", "200000"].map(str::to_owned).to_vec());
        let expected = "\
name       count  why
überlang       1  so
b         200000
";
        assert_eq!(table.to_string(), expected);
    }
}
