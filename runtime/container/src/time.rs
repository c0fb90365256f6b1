//! Timestamps in runc's format.

use core::fmt;
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

/// Returns nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns when a file was modified, in nanoseconds since 1970.
pub(crate) fn modified(stat: &Stat) -> u64 {
    stat.st_mtime.unsigned_abs() * 1_000_000_000 + stat.st_mtime_nsec
}

/// Displays nanoseconds since 1970 as RFC 3339 in UTC, without trailing zeros of the fraction (Go's
/// RFC3339Nano).
pub struct Rfc3339(pub u64);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil(days.cast_signed());
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if nanos != 0 {
            let mut digits = 9;
            let mut fraction = nanos;
            while fraction % 10 == 0 {
                fraction /= 10;
                digits -= 1;
            }
            write!(f, ".{fraction:0digits$}")?;
        }
        f.write_str("Z")
    }
}

/// Converts days since 1970 to year, month and day. The calculation uses eras of 400 years that begin in March, so that
/// the leap day is the last day of a year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn times_print_as_go_does() {
        assert_eq!(Rfc3339(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Rfc3339(951_782_400_000_000_000).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(Rfc3339(1_700_000_000_120_000_000).to_string(), "2023-11-14T22:13:20.12Z");
        assert_eq!(
            Rfc3339(1_700_000_000_000_000_001).to_string(),
            "2023-11-14T22:13:20.000000001Z"
        );
    }
}
