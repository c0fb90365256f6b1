//! JSON Lines: a header, then a line per row and per span. The lines contain everything in the time line; times are
//! nanoseconds of CLOCK_MONOTONIC_RAW. The key `kind` contains the kind of the line; a span refers to its row by the
//! row's index.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;

use super::buffer::Buffer;
use crate::{Awaited, Row, Span, Timeline};

/// Returns the whole text.
pub fn text(timeline: &Timeline) -> Buffer {
    let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
    let mut out = Buffer::with_room(1024 + spans * 200);
    out.text("{\"kind\":\"timeline\",\"command\":");
    out.json(&timeline.command);
    out.text(",\"id\":");
    out.json(&timeline.id);
    out.text(",\"notes\":[");
    for (index, note) in timeline.notes.iter().enumerate() {
        out.text(if index > 0 { "," } else { "" });
        out.json(note);
    }
    out.text("]}\n");
    for row in &timeline.rows {
        out.text("{\"kind\":\"row\",\"name\":");
        out.json(&row.name);
        out.text(",\"pid\":");
        out.signed(row.pid);
        if let Some(parent) = row.parent {
            out.text(",\"parent\":");
            out.number(parent as u64);
        }
        lasted(&mut out, row.start, row.end);
        out.text(",\"lost\":");
        out.number(row.lost);
        out.text("}\n");
    }
    for (index, row) in timeline.rows.iter().enumerate() {
        for span in &row.spans {
            out.text("{\"kind\":\"span\",\"row\":");
            out.number(index as u64);
            out.text(",\"phase\":\"");
            out.text(span.phase.name());
            out.text("\",\"name\":");
            out.json(&span.name);
            out.text(",\"object\":");
            out.json(&span.object);
            lasted(&mut out, span.start, span.end);
            match span.wait {
                Some(Awaited::Row(other)) => {
                    out.text(",\"wait\":{\"row\":");
                    out.number(other as u64);
                    out.text("}");
                }
                Some(Awaited::Other) => out.text(",\"wait\":\"other\""),
                None => {}
            }
            out.text(",\"errno\":");
            out.number(span.errno.into());
            out.text("}\n");
        }
    }
    out
}

fn lasted(out: &mut Buffer, start: u64, end: u64) {
    out.text(",\"start\":");
    out.number(start);
    out.text(",\"end\":");
    out.number(end);
}

/// A parsed line.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line {
    Timeline {
        command: String,
        id: String,
        #[serde(default)]
        notes: Vec<String>,
    },
    Row {
        name: String,
        pid: i32,
        parent: Option<usize>,
        start: u64,
        end: u64,
        #[serde(default)]
        lost: u64,
    },
    Span {
        row: usize,
        #[serde(flatten)]
        span: Span,
    },
}

/// The reason why a text is not a valid time line.
#[derive(Debug)]
pub enum LinesError {
    /// The text has no header.
    Empty,
    /// The line with this number, counted from 1, is malformed.
    Line(usize, serde_json::Error),
    /// The line with this number is a second header, or comes before the first header.
    Head(usize),
    /// The span in the line with this number refers to a row that no earlier line contains.
    NoRow(usize),
}

impl fmt::Display for LinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("read trace: no lines"),
            Self::Line(line, error) => write!(f, "read trace: line {line}: {error}"),
            Self::Head(line) => {
                write!(
                    f,
                    "read trace: line {line}: a trace begins with its only line of kind timeline"
                )
            }
            Self::NoRow(line) => write!(f, "read trace: line {line}: a span of an unknown row"),
        }
    }
}

impl core::error::Error for LinesError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Line(_, error) => Some(error),
            _ => None,
        }
    }
}

impl Timeline {
    /// Parses the output of [`Format::Lines`](crate::Format::Lines).
    ///
    /// # Errors
    /// If the text is not in this format; the error contains the line number.
    pub fn from_lines(text: &str) -> Result<Self, LinesError> {
        let mut timeline = None;
        for (index, line) in text.split_terminator('\n').enumerate() {
            let number = index + 1;
            let line =
                serde_json::from_str(line).map_err(|error| LinesError::Line(number, error))?;
            match (line, &mut timeline) {
                (Line::Timeline { command, id, notes }, None) => {
                    timeline = Some(Self { command, id, notes, rows: Vec::new() });
                }
                (Line::Row { name, pid, parent, start, end, lost }, Some(timeline)) => {
                    let spans = Vec::new();
                    timeline.rows.push(Row { name, pid, parent, start, end, spans, lost });
                }
                (Line::Span { row, span }, Some(timeline)) => {
                    let row = timeline.rows.get_mut(row).ok_or(LinesError::NoRow(number))?;
                    row.spans.push(span);
                }
                _ => return Err(LinesError::Head(number)),
            }
        }
        timeline.ok_or(LinesError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(timeline in sample::anything()) {
            let text = text(&timeline).into_string();
            prop_assert_eq!(Timeline::from_lines(&text).unwrap(), timeline);
        }

        #[test]
        fn anything_else_is_refused(text in "\\PC*") {
            prop_assert!(Timeline::from_lines(&text).is_err());
        }
    }

    #[test]
    fn an_error_names_the_line() {
        let head = "{\"kind\":\"timeline\",\"command\":\"c\",\"id\":\"i\"}\n";
        let error = |text: &str| Timeline::from_lines(text).unwrap_err().to_string();
        assert_eq!(error(""), "read trace: no lines");
        assert!(
            error(&format!("{head}{{}}")).starts_with("read trace: line 2: missing field `kind`")
        );
        assert!(error(&format!("{head}{head}")).starts_with("read trace: line 2: a trace begins"));
        let span =
            r#"{"kind":"span","row":0,"phase":"sync","name":"","object":"","start":1,"end":2}"#;
        assert_eq!(error(&format!("{head}{span}")), "read trace: line 2: a span of an unknown row");
    }
}
