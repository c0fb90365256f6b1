//! Comma-separated values (RFC 4180): a line per span, with times in microseconds.

use core::fmt::{self, Write};

use alloc::string::String;

use super::text::{Exact, awaited, origin};
use crate::{Account, Timeline};

/// Writes the lines.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    let origin = origin(timeline);
    out.push_str("row,pid,phase,name,object,start_us,took_us,self_us,wait,errno\r\n");
    for row in &timeline.rows {
        for (span, &own) in row.spans.iter().zip(&Account::of(row).own) {
            let start = span.start.saturating_sub(origin);
            write!(out, "{},{},{},", Field(&row.name), row.pid, span.phase)?;
            write!(out, "{},{},", Field(&span.name), Field(&span.object))?;
            write!(out, "{},{},{},", Exact(start), Exact(span.took()), Exact(own))?;
            let awaited = Field(awaited(timeline, span).unwrap_or_default());
            write!(out, "{awaited},{}\r\n", span.errno)?;
        }
    }
    Ok(())
}

/// A field, quoted if needed.
struct Field<'a>(&'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.contains([',', '"', '\r', '\n']) {
            return f.write_str(self.0);
        }
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    /// Parses RFC 4180 strictly.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if field.is_empty() => loop {
                    match letters.next().expect("a closing quote") {
                        '"' if letters.peek() == Some(&'"') => field.push(letters.next().unwrap()),
                        '"' => break,
                        other => field.push(other),
                    }
                },
                ',' => record.push(core::mem::take(&mut field)),
                '\r' => {
                    assert_eq!(letters.next(), Some('\n'));
                    record.push(core::mem::take(&mut field));
                    records.push(core::mem::take(&mut record));
                }
                other => field.push(other),
            }
        }
        assert!(record.is_empty() && field.is_empty(), "the last line ends too");
        records
    }

    proptest! {
        #[test]
        fn each_span_is_a_line_of_ten_fields(timeline in sample::anything()) {
            let mut text = String::new();
            write(&mut text, &timeline).unwrap();
            let records = read(&text);
            let spans = timeline.rows.iter().flat_map(|row| row.spans.iter().map(move |span| (row, span)));
            prop_assert_eq!(records.len(), spans.clone().count() + 1);
            for (record, (row, span)) in records[1..].iter().zip(spans) {
                prop_assert_eq!(record.len(), 10);
                prop_assert_eq!((&record[0], &record[3], &record[4]), (&row.name, &span.name, &span.object));
            }
        }
    }
}
