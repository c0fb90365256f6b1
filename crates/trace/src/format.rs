//! The time line as a table, picture or file.

use core::fmt;

use crate::Timeline;

/// A way to write a time line down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people: each step, the phases, the slowest steps, the critical path.
    #[default]
    Table,
    /// Chrome's trace events as JSON, which Perfetto opens.
    Chrome,
    /// JSON Lines: a head, then a line a row and a span.
    Lines,
    /// Comma-separated values: a line a span.
    Csv,
    /// Folded stacks, for flame graphs.
    Folded,
    /// A picture.
    Svg,
}

impl Format {
    /// Writes a time line down.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(self, out: &mut dyn fmt::Write, timeline: &Timeline) -> fmt::Result {
        writeln!(out, "{timeline:?}")
    }
}
