//! Lines of CSV without quotes, read one at a time, because a file may have any length.

use crate::Error;
use std::io::BufRead;

/// The maximum length of a line: 1440 counts, with room to spare.
const LONGEST: usize = 64 << 10;

/// The lines of a file, with their numbers.
#[derive(Debug)]
pub(super) struct Lines<'a, R> {
    input: R,
    file: &'a str,
    number: usize,
    line: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(input: R, file: &'a str) -> Self {
        Self { input, file, number: 0, line: Vec::new() }
    }

    /// Returns the next line that is not empty, without its line ending; `None` at the end of the file.
    ///
    /// # Errors
    /// The line can't be read, is too long or is not UTF-8.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, Error> {
        loop {
            self.line.clear();
            self.number += 1;
            let number = self.number;
            let wrong = |reason: String| Error::Unfit(format!("{}:{number}: {reason}", self.file));
            let mut part = std::io::Read::take(&mut self.input, LONGEST as u64 + 1);
            let read = part.read_until(b'\n', &mut self.line);
            if read.map_err(|error| wrong(format!("read: {error}")))? == 0 {
                return Ok(None);
            }
            if self.line.len() > LONGEST {
                return Err(wrong(format!("a line of more than {LONGEST} bytes")));
            }
            while self.line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                self.line.pop();
            }
            if self.line.is_empty() {
                continue;
            }
            // UTF-8 is checked after the loop: the borrow checker rejects a loop that returns a borrow of the line.
            break;
        }
        let text = std::str::from_utf8(&self.line).map_err(|error| {
            let before = &self.line[..error.valid_up_to()];
            let column = before.iter().filter(|byte| **byte == b',').count() + 1;
            let (file, number) = (self.file, self.number);
            Error::Unfit(format!("{file}:{number}: column {column}: no text in UTF-8"))
        })?;
        Ok(Some(Line { file: self.file, number: self.number, text }))
    }
}

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    file: &'a str,
    number: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn fields(&self) -> std::str::Split<'a, char> {
        self.text.split(',')
    }

    /// Returns an error about the line.
    pub(super) fn wrong(&self, reason: &str) -> Error {
        Error::Unfit(format!("{}:{}: {reason}", self.file, self.number))
    }

    /// Returns an error about a column, counted from 1.
    pub(super) fn wrong_at(&self, column: usize, reason: &str) -> Error {
        self.wrong(&format!("column {column}: {reason}"))
    }

    /// Checks that there are as many fields as headings.
    ///
    /// # Errors
    /// An error with the actual number of fields.
    pub(super) fn expect(&self, columns: usize) -> Result<(), Error> {
        match self.fields().count() {
            count if count == columns => Ok(()),
            count => Err(self.wrong_at(
                count.min(columns) + usize::from(count > columns),
                &format!("{count} columns, {columns} in the first line"),
            )),
        }
    }
}

/// Returns a field's beginning, for errors.
pub(super) fn shown(field: &str) -> String {
    const SHOWN: usize = 40;
    let short: String = field.chars().take(SHOWN).collect();
    if short.len() < field.len() { format!("{short:?}…") } else { format!("{short:?}") }
}
