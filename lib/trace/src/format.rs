//! Output formats: the time line as a table, a picture or a file.

mod buffer;
mod chrome;
mod csv;
mod folded;
mod lines;
mod nest;
#[cfg(test)]
pub(crate) mod sample;
mod sums;
mod svg;
mod table;
mod text;

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use crate::Timeline;

pub use lines::LinesError;
pub use sums::PhaseSum;

/// An output format of a time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A table for people: each step, the phases, the slowest steps, the critical path.
    #[default]
    Table,
    /// Chrome's trace events as JSON, which Perfetto opens.
    Chrome,
    /// JSON Lines: a header, then a line per row and per span.
    Lines,
    /// Comma-separated values: a line per span.
    Csv,
    /// Folded stacks, for flame graphs.
    Folded,
    /// An SVG picture.
    Svg,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Table, Self::Chrome, Self::Lines, Self::Csv, Self::Folded, Self::Svg];

    /// The names of all formats, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 6] = ["table", "chrome", "jsonl", "csv", "folded", "svg"];

    /// Returns the format's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Chrome => "chrome",
            Self::Lines => "jsonl",
            Self::Csv => "csv",
            Self::Folded => "folded",
            Self::Svg => "svg",
        }
    }

    /// Returns the file name suffix of this format.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Table => ".txt",
            Self::Chrome => ".json",
            Self::Lines => ".jsonl",
            Self::Csv => ".csv",
            Self::Folded => ".folded",
            Self::Svg => ".svg",
        }
    }

    /// Returns the format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the format for the suffix of a path, or the table if no format has that suffix.
    pub fn of_path(path: &str) -> Self {
        Self::ALL.into_iter().find(|format| path.ends_with(format.suffix())).unwrap_or_default()
    }

    /// Returns the suffix of a path, from the last dot on, if no format has that suffix. Returns `None` if the suffix
    /// contains a placeholder such as `%i`.
    pub fn unknown_suffix(path: &str) -> Option<&str> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let suffix = name.get(name.rfind('.')?..)?;
        let is_known = suffix.contains('%') || Self::ALL.iter().any(|of| of.suffix() == suffix);
        (!is_known).then_some(suffix)
    }

    /// Returns a time line as a file of this format.
    pub fn bytes(self, timeline: &Timeline) -> Vec<u8> {
        match self {
            Self::Table => table::text(timeline).into_bytes(),
            Self::Lines => lines::text(timeline).into_bytes(),
            _ => {
                let mut text = String::new();
                // Writing to a String cannot fail.
                let _ = self.write(&mut text, timeline);
                text.into_bytes()
            }
        }
    }

    /// Writes a time line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(self, out: &mut dyn fmt::Write, timeline: &Timeline) -> fmt::Result {
        match self {
            Self::Table => out.write_str(&table::text(timeline).into_string()),
            Self::Chrome => chrome::write(out, timeline),
            Self::Lines => out.write_str(&lines::text(timeline).into_string()),
            Self::Csv => csv::write(out, timeline),
            Self::Folded => folded::write(out, timeline),
            Self::Svg => svg::write(out, timeline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn suffixes() {
        for path in ["-", "trace", "/tmp/a.b/trace", "start.svg", "%i.json", "trace.%i", "x.jsonl"]
        {
            assert_eq!(Format::unknown_suffix(path), None, "{path}");
        }
        for (path, suffix) in [("x.png", ".png"), ("/tmp/x.svg.sgv", ".sgv"), ("x.", ".")] {
            assert_eq!(Format::unknown_suffix(path), Some(suffix));
        }
    }

    #[test]
    fn each_format_is_known_by_its_name_and_by_the_end_of_a_files_name() {
        assert_eq!(Format::ALL.map(Format::name), Format::NAMES);
        for format in Format::ALL {
            assert_eq!(Format::parse(format.name()), Some(format));
            assert_eq!(Format::of_path(&format!("/tmp/start{}", format.suffix())), format);
        }
        assert_eq!(Format::parse("json5"), None);
        assert_eq!(Format::of_path("trace"), Format::Table);
    }

    proptest! {
        #[test]
        fn anything_can_be_written_down(timeline in sample::anything()) {
            for format in Format::ALL {
                format.write(&mut String::new(), &timeline).unwrap();
            }
        }
    }

    #[test]
    fn ten_thousand_steps_are_all_written_down() {
        let mut timeline = sample::start();
        let steps = timeline.rows[2].spans.clone();
        let spans = steps.iter().cycle().take(10_000).enumerate().map(|(index, span)| {
            let start = timeline.rows[2].start + index as u64 * 1000;
            crate::Span { start, end: start + 900, ..span.clone() }
        });
        timeline.rows[2].spans = spans.collect();
        let count: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
        let lines = [
            (Format::Table, "  init     "),
            (Format::Chrome, "\"ph\":\"X\""),
            (Format::Lines, "\"kind\":\"span\""),
            (Format::Csv, "\r\n"),
            (Format::Svg, "</title></rect>"),
        ];
        for (format, mark) in lines {
            let mut text = String::new();
            format.write(&mut text, &timeline).unwrap();
            let found = text.matches(mark).count();
            assert!(found >= if format == Format::Table { 10_000 } else { count }, "{format:?}");
        }
    }

    /// Writes samples for visual inspection: `DAYFLY_TRACE_SAMPLES=DIRECTORY cargo test -p dayfly-trace -- --ignored`.
    #[test]
    #[ignore = "writes files"]
    fn write_samples() {
        let directory = std::env::var("DAYFLY_TRACE_SAMPLES").expect("DAYFLY_TRACE_SAMPLES");
        let samples = [
            ("start", sample::start()),
            ("long", sample::long()),
            ("failed", sample::failed()),
            ("threads", sample::threads()),
        ];
        for (name, timeline) in samples {
            for format in Format::ALL {
                let mut text = String::new();
                format.write(&mut text, &timeline).unwrap();
                std::fs::write(format!("{directory}/{name}{}", format.suffix()), text).unwrap();
            }
        }
    }
}
