//! Formatting of numbers and names. It uses only integers, because the code for printing floats is large.

use core::fmt;

use alloc::format;
use alloc::string::String;

use rustix::io::Errno;

use super::buffer::Buffer;
use crate::{Awaited, Span, Timeline};

/// Converts nanoseconds to tenths of microseconds.
pub fn micros(nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add(50) / 100
}

/// Displays nanoseconds as microseconds, without rounding.
pub struct Exact(pub u64);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Displays nanoseconds in the unit that suits their size.
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..10_000_000 => (1_000, "µs"),
            10_000_000..10_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let tenths = self.0.saturating_add(unit / 20) / (unit / 10);
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Displays a part of a whole as a percentage with one decimal.
pub struct Share(pub u64, pub u64);

impl Share {
    /// Returns the percentage, in tenths of a percent.
    pub fn tenths(&self) -> u64 {
        let Self(part, whole) = *self;
        // For times so long that a multiplication by 1000 would overflow, the result is approximate.
        let shift = if part.max(whole) >> 53 == 0 { 0 } else { 12 };
        let (part, whole) = (part >> shift, whole >> shift);
        (part * 1000 + whole / 2).checked_div(whole).unwrap_or(0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.tenths();
        f.pad_integral(true, "", &format!("{}.{}", share / 10, share % 10))
    }
}

/// Displays a string as JSON.
pub struct Json<'a>(pub &'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// Returns the name, the object and the error of a span, as one text.
pub fn step(span: &Span) -> String {
    let mut text = Buffer::with_room(64);
    put_step(&mut text, span);
    text.into_string()
}

/// Appends the text that [`step`] returns.
pub fn put_step(out: &mut Buffer, span: &Span) {
    out.plain(&span.name);
    if !span.object.is_empty() {
        out.text(" ");
        out.plain(&span.object);
    }
    if let Some(error) = error(span) {
        out.text(": ");
        out.text(error);
    }
}

/// Returns the description of a span's errno, if the span failed.
pub fn error(span: &Span) -> Option<&'static str> {
    // Linux has no errno of 4096 or more.
    let errno = Some(span.errno).filter(|errno| (1..4096).contains(errno))?;
    Some(sys::errno::describe(Errno::from_raw_os_error(i32::from(errno))))
}

/// Returns the name of the row that a span waited for, or `None` if the span is not a wait.
pub fn awaited<'a>(timeline: &'a Timeline, span: &Span) -> Option<&'a str> {
    Some(match span.wait? {
        Awaited::Row(row) => timeline.rows.get(row).map_or("other", |row| &row.name),
        Awaited::Other => "other",
    })
}

/// Returns the earliest start on the time line; all displayed times are relative to it.
pub fn origin(timeline: &Timeline) -> u64 {
    let spans = timeline.rows.iter().flat_map(|row| &row.spans).map(|span| span.start);
    spans.min().map_or(timeline.start(), |first| first.min(timeline.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_and_padded() {
        assert_eq!([12_350, u64::MAX].map(micros), [124, 184_467_440_737_095_516]);
        assert_eq!(Exact(1_002_003).to_string(), "1002.003");
        let times = [0, 3_012_449, 12_345_678, 61_000_000_000].map(|time| Time(time).to_string());
        assert_eq!(times, ["0.0 µs", "3012.4 µs", "12.3 ms", "61.0 s"]);
    }

    #[test]
    fn shares_are_of_anything() {
        let share = |part, whole| format!("{:>5}", Share(part, whole));
        assert_eq!(share(1, 3), " 33.3");
        assert_eq!(share(1, 0), "  0.0");
        assert_eq!(share(u64::MAX, u64::MAX), "100.0");
    }

    #[test]
    fn a_step_tells_how_it_failed() {
        let span = Span { name: "mount".into(), object: "/x".into(), errno: 2, ..Span::default() };
        assert_eq!(step(&span), "mount /x: no such file or directory");
        let span = Span { object: "b\x1b[2J".into(), ..span };
        assert_eq!(step(&span), "mount b\\u{1b}[2J: no such file or directory");
        assert_eq!(error(&Span { errno: u16::MAX, ..span }), None);
    }
}
