//! Numbers and names as the formats write them. Integers only: the code that prints floats is large.

use core::fmt;

use alloc::format;

use rustix::io::Errno;

use crate::{Awaited, Span, Timeline};

/// Nanoseconds as microseconds with one decimal.
pub struct Micros(pub u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.saturating_add(50) / 100;
        f.pad_integral(true, "", &format!("{}.{}", tenths / 10, tenths % 10))
    }
}

/// Nanoseconds as microseconds, exactly.
pub struct Exact(pub u64);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Nanoseconds with the unit that suits them.
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

/// A part of a whole as a percentage with one decimal.
pub struct Share(pub u64, pub u64);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(part, whole) = *self;
        // Parts of so many hours that thousandths of them overflow need not be exact.
        let shift = if part.max(whole) >> 53 == 0 { 0 } else { 12 };
        let (part, whole) = (part >> shift, whole >> shift);
        let share = (part * 1000 + whole / 2).checked_div(whole).unwrap_or(0);
        f.pad_integral(true, "", &format!("{}.{}", share / 10, share % 10))
    }
}

/// A name on a terminal: control characters, which could do anything there, are spelled out.
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| c.is_control()) {
            let (before, after) = rest.split_at(at);
            write!(f, "{before}{}", found.escape_default())?;
            rest = after.get(found.len_utf8()..).unwrap_or_default();
        }
        f.write_str(rest)
    }
}

/// A string in JSON.
pub struct Json<'a>(pub &'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// What a span did, to what, and how it failed.
pub struct Step<'a>(pub &'a Span);

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(span) = self;
        Plain(&span.name).fmt(f)?;
        if !span.object.is_empty() {
            write!(f, " {}", Plain(&span.object))?;
        }
        match error(span) {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// What a span failed with.
pub fn error(span: &Span) -> Option<&'static str> {
    // Linux has no errno above that.
    let errno = Some(span.errno).filter(|errno| (1..4096).contains(errno))?;
    Some(sys::errno::describe(Errno::from_raw_os_error(i32::from(errno))))
}

/// Whom a span waited for; nothing if it worked.
pub fn awaited<'a>(timeline: &'a Timeline, span: &Span) -> Option<&'a str> {
    Some(match span.wait? {
        Awaited::Row(row) => timeline.rows.get(row).map_or("other", |row| &row.name),
        Awaited::Other => "other",
    })
}

/// When the first thing on the time line began: what all times are told from.
pub fn origin(timeline: &Timeline) -> u64 {
    let spans = timeline.rows.iter().flat_map(|row| &row.spans).map(|span| span.start);
    spans.min().map_or(timeline.start(), |first| first.min(timeline.start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_and_padded() {
        assert_eq!(
            format!("{:>8}|{}", Micros(12_350), Micros(u64::MAX)),
            "    12.4|18446744073709551.6"
        );
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
    fn a_terminal_is_not_told_what_to_do() {
        assert_eq!(Plain("a\x1b[2Jb\nö").to_string(), "a\\u{1b}[2Jb\\nö");
    }

    #[test]
    fn a_step_tells_how_it_failed() {
        let span = Span { name: "mount".into(), object: "/x".into(), errno: 2, ..Span::default() };
        assert_eq!(Step(&span).to_string(), "mount /x: no such file or directory");
        assert_eq!(error(&Span { errno: u16::MAX, ..span }), None);
    }
}
