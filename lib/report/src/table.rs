//! Tables for people to read.

use std::fmt::{self, Write};

/// A table, usually with headings: the first column is left-aligned, the others are right-aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
    left: Vec<usize>,
}

/// A column of [`Table::of`]: a heading, and the text of its cell in a row.
pub type Column<'a, R> = (&'a str, &'a dyn Fn(&R) -> String);

impl Table {
    /// Returns a table without rows.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
        Self { rows: vec![headings], left: vec![0] }
    }

    /// Makes a table with a row for each of `rows`.
    pub fn of<R>(rows: impl IntoIterator<Item = R>, columns: &[Column<'_, R>]) -> Self {
        let mut table = Self::new(&columns.iter().map(|(heading, _)| *heading).collect::<Vec<_>>());
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(&row)).collect());
        }
        table
    }

    /// Returns a table without rows that has no headings, such as one of names and values.
    #[must_use]
    pub fn without_headings() -> Self {
        Self { rows: Vec::new(), left: vec![0] }
    }

    /// Left-aligns these columns (counted from 0), usually those that contain text.
    #[must_use]
    pub fn left(mut self, columns: &[usize]) -> Self {
        self.left = columns.to_vec();
        self
    }

    /// Limits the length of lines to `width`: cells of the first column are shortened in the
    /// middle, to at least 12 characters.
    #[must_use]
    pub fn within(mut self, width: Option<usize>) -> Self {
        let widths = self.widths();
        let whole: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let (Some(width), Some(&first)) = (width, widths.first()) else { return self };
        let room = first.saturating_sub(whole.saturating_sub(width)).max(12);
        for cell in self.rows.iter_mut().filter_map(|row| row.first_mut()) {
            let count = cell.chars().count();
            if count > room {
                let tail = room / 2;
                let head: String = cell.chars().take(room - 1 - tail).collect();
                let tail: String = cell.chars().skip(count - tail).collect();
                *cell = format!("{head}…{tail}");
            }
        }
        self
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row: &Vec<String>| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
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
    fn a_long_name_is_cut_in_its_middle() {
        let mut table = Table::new(&["group", "processes"]);
        table.row(["machine.slice/libpod-0123456789abcdef.scope", "3"].map(str::to_owned).to_vec());
        let wide = table.to_string();
        let table = table.within(Some(200));
        assert_eq!(table.to_string(), wide);
        let table = table.within(None).within(Some(31));
        let lines = table.to_string();
        assert_eq!(lines.lines().nth(1), Some("machine.s…cdef.scope          3"));
        let lines = table.within(Some(3)).to_string();
        assert!(lines.contains("machi….scope "), "{lines}");
    }

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
        let mut table = Table::without_headings().left(&[0, 1]);
        table.row(["name", "überlang"].map(str::to_owned).to_vec());
        table.row(["id", "b"].map(str::to_owned).to_vec());
        assert_eq!(table.to_string(), "name  überlang\nid    b\n");
    }
}
