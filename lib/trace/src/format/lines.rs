//! JSON Lines: a header, then a line per row and per span. The lines contain everything in the time line; times are
//! nanoseconds of CLOCK_MONOTONIC_RAW. The key `kind` contains the kind of the line; a span refers to its row by the
//! row's index.

use core::fmt::{self, Write};

use alloc::format;
use alloc::string::{String, ToString};

use serde::Deserialize;

use super::text::number;
use crate::{Awaited, Row, Span, Timeline};

/// Writes the lines, without serde, which takes three times as long.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    out.push_str("{\"kind\":\"timeline\"");
    text(out, "command", &timeline.command);
    text(out, "id", &timeline.id);
    out.push_str(",\"notes\":[");
    for (index, note) in timeline.notes.iter().enumerate() {
        out.push_str(if index > 0 { "," } else { "" });
        json(out, note);
    }
    out.push_str("]}\n");
    for row in &timeline.rows {
        out.push_str("{\"kind\":\"row\"");
        text(out, "name", &row.name);
        write!(out, ",\"pid\":{}", row.pid)?;
        if let Some(parent) = row.parent {
            integer(out, "parent", parent as u64);
        }
        integer(out, "start", row.start);
        integer(out, "end", row.end);
        integer(out, "lost", row.lost);
        out.push_str("}\n");
    }
    for (index, row) in timeline.rows.iter().enumerate() {
        for span in &row.spans {
            out.push_str("{\"kind\":\"span\"");
            integer(out, "row", index as u64);
            text(out, "phase", span.phase.name());
            text(out, "name", &span.name);
            text(out, "object", &span.object);
            integer(out, "start", span.start);
            integer(out, "end", span.end);
            match span.wait {
                Some(Awaited::Row(other)) => write!(out, ",\"wait\":{{\"row\":{other}}}")?,
                Some(Awaited::Other) => text(out, "wait", "other"),
                None => {}
            }
            integer(out, "errno", span.errno.into());
            out.push_str("}\n");
        }
    }
    Ok(())
}

fn key(out: &mut String, key: &str) {
    out.push_str(",\"");
    out.push_str(key);
    out.push_str("\":");
}

fn integer(out: &mut String, name: &str, value: u64) {
    key(out, name);
    number(out, value);
}

fn text(out: &mut String, name: &str, value: &str) {
    key(out, name);
    json(out, value);
}

/// Appends a JSON string.
fn json(out: &mut String, text: &str) {
    if text.bytes().any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// A parsed line.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Line {
    Timeline(Timeline),
    Row(Row),
    Span {
        row: usize,
        #[serde(flatten)]
        span: Span,
    },
}

/// The reason why a text is not a valid time line.
#[derive(Debug)]
pub struct LinesError(String);

impl fmt::Display for LinesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read trace: {}", self.0)
    }
}

impl core::error::Error for LinesError {}

impl Timeline {
    /// Parses the output of [`Format::Lines`](crate::Format::Lines).
    ///
    /// # Errors
    /// If the text is not in this format; the error contains the line number.
    pub fn from_lines(text: &str) -> Result<Self, LinesError> {
        let mut timeline: Option<Self> = None;
        for (index, line) in text.split_terminator('\n').enumerate() {
            let wrong = |why: &str| LinesError(format!("line {}: {why}", index + 1));
            let line = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
            match (line, &mut timeline) {
                (Line::Timeline(head), None) => timeline = Some(head),
                (Line::Row(row), Some(timeline)) => timeline.rows.push(row),
                (Line::Span { row, span }, Some(timeline)) => {
                    let row = timeline.rows.get_mut(row);
                    let row = row.ok_or_else(|| wrong("a span of an unknown row"))?;
                    row.spans.push(span);
                }
                _ => return Err(wrong("a trace begins with its only line of kind timeline")),
            }
        }
        timeline.ok_or_else(|| LinesError("no lines".to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::format::sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(timeline in sample::anything()) {
            let text = Format::Lines.text(&timeline);
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
