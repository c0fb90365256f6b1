//! Output formats: the time line as a table, a picture or a file.

mod chrome;
mod csv;
mod folded;
mod lines;
mod places;
#[cfg(test)]
pub(crate) mod sample;
mod svg;
mod table;
mod text;

use alloc::string::String;

use crate::Timeline;

pub use lines::LinesError;

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

    /// Returns the format's name and the suffix of its files.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Table => ("table", ".txt"),
            Self::Chrome => ("chrome", ".json"),
            Self::Lines => ("jsonl", ".jsonl"),
            Self::Csv => ("csv", ".csv"),
            Self::Folded => ("folded", ".folded"),
            Self::Svg => ("svg", ".svg"),
        }
    }

    /// Returns the format's name.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns the file name suffix of this format.
    pub const fn suffix(self) -> &'static str {
        self.words().1
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
    pub fn text(self, timeline: &Timeline) -> String {
        let spans: usize = timeline.rows.iter().map(|row| row.spans.len()).sum();
        let mut out = String::with_capacity(4096 + spans * 200);
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Table => table::write(&mut out, timeline),
            Self::Chrome => chrome::write(&mut out, timeline),
            Self::Lines => lines::write(&mut out, timeline),
            Self::Csv => csv::write(&mut out, timeline),
            Self::Folded => folded::write(&mut out, timeline),
            Self::Svg => svg::write(&mut out, timeline),
        };
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        for path in ["-", "trace", "/tmp/a.b/trace", "start.svg", "%i.json", "trace.%i", "x.jsonl"]
        {
            assert_eq!(Format::unknown_suffix(path), None, "{path}");
        }
        for (path, suffix) in [("x.png", ".png"), ("/tmp/x.svg.sgv", ".sgv"), ("x.", ".")] {
            assert_eq!(Format::unknown_suffix(path), Some(suffix));
        }
        for format in Format::ALL {
            assert_eq!(Format::parse(format.name()), Some(format));
            assert_eq!(Format::of_path(&format!("/tmp/start{}", format.suffix())), format);
        }
        assert_eq!(Format::parse("json5"), None);
        assert_eq!(Format::of_path("trace"), Format::Table);
    }

    /// `UPDATE_GOLDEN=1 cargo test -p dayfly-trace` rewrites the files; review the diff.
    #[test]
    fn samples_are_written_byte_for_byte() {
        for name in ["run", "failed"] {
            let timeline = sample::read(name);
            for format in Format::ALL {
                let (path, text) = (sample::path(name, format.suffix()), format.text(&timeline));
                if std::env::var_os("UPDATE_GOLDEN").is_some() {
                    std::fs::write(&path, &text).unwrap();
                }
                let expected = std::fs::read_to_string(&path).unwrap_or_default();
                assert!(text == expected, "{path} differs (UPDATE_GOLDEN=1 writes it anew)");
            }
        }
    }
}
