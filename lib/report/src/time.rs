//! Times as users write them.

use std::time::Duration;

/// Parses a number with the unit `us`, `ms`, `s`, `m` or `h`. 0 needs no unit.
///
/// # Errors
/// A description of the accepted form, worded as the end of a sentence.
pub fn time(text: &str) -> Result<Duration, String> {
    read(text, None)
}

/// Parses a time. A number without a unit is in seconds.
///
/// # Errors
/// As for [`time`].
pub fn seconds(text: &str) -> Result<Duration, String> {
    read(text, Some("s"))
}

/// Parses a time. A number without a unit is in milliseconds.
///
/// # Errors
/// As for [`time`].
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    read(text, Some("ms"))
}

/// Returns `time` if it is between `from` and `to`, both inclusive.
///
/// # Errors
/// An error that contains both bounds.
pub fn within(time: Duration, from: Duration, to: Duration) -> Result<Duration, String> {
    match (from..=to).contains(&time) {
        true => Ok(time),
        false if to == Duration::MAX => Err(format!("a time from {from:?} on")),
        false => Err(format!("a time from {from:?} to {to:?}")),
    }
}

fn read(text: &str, without: Option<&str>) -> Result<Duration, String> {
    let text = text.trim();
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |last| last + 1);
    let (number, unit) = text.split_at(end);
    let number = number.parse::<f64>().ok();
    let unit = match unit.trim_start() {
        "" if number == Some(0.0) => Some("s"),
        "" => without,
        unit => Some(unit),
    };
    let length = match unit {
        Some("us" | "µs") => 1e-6,
        Some("ms") => 1e-3,
        Some("s") => 1.0,
        Some("m" | "min") => 60.0,
        Some("h") => 3600.0,
        _ => return Err(form(without)),
    };
    number
        .and_then(|number| Duration::try_from_secs_f64(number * length).ok())
        .ok_or_else(|| form(without))
}

fn form(without: Option<&str>) -> String {
    let units = "a time is a number and us, ms, s, m or h, such as 60ms";
    without.map_or_else(|| units.to_owned(), |unit| format!("{units}; without a unit {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, microseconds) in [
            ("0", 0),
            ("0s", 0),
            ("250us", 250),
            ("1.5ms", 1500),
            ("60 ms", 60_000),
            ("10s", 10_000_000),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(time(text), Ok(Duration::from_micros(microseconds)), "{text}");
        }
        for text in ["", "s", "1", "-1s", "1d", "1 s s", "nans", "infs", "1e400s", "1e3"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_unit_may_be_known() {
        assert_eq!(seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(seconds("90ms"), Ok(Duration::from_millis(90)));
        assert_eq!(milliseconds("90"), Ok(Duration::from_millis(90)));
        assert_eq!(milliseconds("2s"), Ok(Duration::from_secs(2)));
        assert!(seconds("x").unwrap_err().ends_with("without a unit s"));
        assert!(seconds("-1").is_err() && milliseconds("1x").is_err());
    }

    #[test]
    fn bounds_are_told() {
        let (from, to) = (Duration::from_millis(5), Duration::from_secs(60));
        assert_eq!(within(to, from, to), Ok(to));
        assert_eq!(within(Duration::ZERO, from, to).unwrap_err(), "a time from 5ms to 60s");
    }
}
