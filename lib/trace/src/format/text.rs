//! Formatting of numbers and names. It uses only integers, because the code for printing floats is large.

use core::fmt;

use alloc::string::String;

use rustix::io::Errno;

use crate::{Awaited, Span, Timeline};

/// Appends a number.
pub fn number(out: &mut String, value: u64) {
    if value >= 10 {
        number(out, value / 10);
    }
    out.push(char::from(b'0' + (value % 10) as u8));
}

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

/// Returns the unit that suits a time, in nanoseconds, and its name.
pub fn unit(nanoseconds: u64) -> (u64, &'static str) {
    match nanoseconds {
        0..10_000_000 => (1_000, "µs"),
        10_000_000..10_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    }
}

/// Displays nanoseconds in the unit that suits their size.
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = unit(self.0);
        let tenths = self.0.saturating_add(unit / 20) / (unit / 10);
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Returns a part of a whole in tenths of a percent.
pub fn share(part: u64, whole: u64) -> u64 {
    // For times so long that a multiplication by 1000 would overflow, the result is approximate.
    let shift = if part.max(whole) >> 53 == 0 { 0 } else { 12 };
    let (part, whole) = (part >> shift, whole >> shift);
    (part * 1000 + whole / 2).checked_div(whole).unwrap_or(0)
}

/// Returns the name, the object and the error of a span, as one text.
pub fn step(span: &Span) -> String {
    let mut text = String::with_capacity(64);
    put_step(&mut text, span);
    text
}

/// Appends the text that [`step`] returns.
pub fn put_step(out: &mut String, span: &Span) {
    plain(out, &span.name);
    if !span.object.is_empty() {
        out.push(' ');
        plain(out, &span.object);
    }
    if let Some(error) = error(span) {
        out.push_str(": ");
        out.push_str(error);
    }
}

/// Appends a name for a terminal, with control characters escaped.
pub fn plain(out: &mut String, text: &str) {
    // In UTF-8, the control characters U+0080 to U+009F start with the byte 0xc2, and some other characters do too.
    let may_be_control = |byte: &u8| matches!(byte, 0..0x20 | 0x7f | 0xc2);
    if !text.as_bytes().iter().any(may_be_control) {
        return out.push_str(text);
    }
    for found in text.chars() {
        match found.is_control() {
            true => out.extend(found.escape_default()),
            false => out.push(found),
        }
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

/// Returns the notes of a time line, and what is missing in it.
pub fn notes(timeline: &Timeline) -> impl Iterator<Item = String> {
    let lost = timeline.rows.iter().filter(|row| row.lost > 0);
    let lost = lost.map(|row| alloc::format!("{}: {} steps found no room", row.name, row.lost));
    lost.chain(timeline.notes.iter().cloned())
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
        assert_eq!([share(1, 3), share(1, 0), share(u64::MAX, u64::MAX)], [333, 0, 1000]);
    }

    #[test]
    fn a_step_tells_how_it_failed() {
        let span = Span { name: "mount".into(), object: "/x".into(), errno: 2, ..Span::default() };
        assert_eq!(step(&span), "mount /x: no such file or directory");
        let span = Span { object: "\u{85}ä\x1b[2J".into(), ..span };
        assert_eq!(step(&span), "mount \\u{85}ä\\u{1b}[2J: no such file or directory");
        assert_eq!(error(&Span { errno: u16::MAX, ..span }), None);
    }
}
