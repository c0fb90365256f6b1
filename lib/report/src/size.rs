//! Sizes as users write and read them.

/// The units of a size in human-readable form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// `B`, `kB`, `MB`, … with a factor of 1000: engines and registries show the sizes of images in
    /// these units.
    Decimal,
    /// `K`, `M`, … with a factor of 1024; bytes have no unit. [`bytes`] parses these units, which
    /// are used for limits on memory and block devices.
    Binary,
}

/// Formats a number of bytes for people, with one decimal if the number is below 100 and has a fraction.
#[must_use]
pub fn readable(bytes: u64, units: Units) -> String {
    let (factor, names) = match units {
        Units::Decimal => (1000.0, [" B", " kB", " MB", " GB", " TB"]),
        Units::Binary => (1024.0, ["", "K", "M", "G", "T"]),
    };
    let mut value = bytes as f64;
    let mut power = 0;
    while value >= factor && power + 1 < names.len() {
        value /= factor;
        power += 1;
    }
    let decimals = usize::from(value < 100.0 && value.fract() != 0.0);
    format!("{value:.decimals$}{}", names[power])
}

/// Parses a number of bytes. The number may have a unit `k`, `m`, `g` or `t` (1024, 1024², …) in upper or lower case.
/// The unit may be followed by `b` or `ib`.
///
/// # Errors
/// A description of the problem, worded as the end of a sentence.
pub fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err("a size is a number, perhaps with k, m, g or t after it".to_owned()),
    };
    let number: u64 = match number.parse() {
        Ok(number) => number,
        Err(_) if number.is_empty() => return Err("a size begins with a number".to_owned()),
        Err(_) => return Err("it is too large".to_owned()),
    };
    number.checked_mul(1 << (10 * power)).ok_or_else(|| "it is too large".to_owned())
}

/// Parses a size and returns it in KiB. A number without a unit is in KiB.
///
/// # Errors
/// If the text is not a size, or the size is not a whole number of KiB.
pub fn kibibytes(text: &str) -> Result<usize, String> {
    counted_in(text, "KiB", 1 << 10)
}

/// Parses a size and returns it in MiB. A number without a unit is in MiB.
///
/// # Errors
/// As for [`kibibytes`].
pub fn mebibytes(text: &str) -> Result<usize, String> {
    counted_in(text, "MiB", 1 << 20)
}

fn counted_in(text: &str, name: &str, unit: u64) -> Result<usize, String> {
    let size = bytes(text)?;
    let is_plain = text.trim().bytes().all(|byte| byte.is_ascii_digit());
    let count = if is_plain { size } else { size / unit };
    if count == 0 || !is_plain && !size.is_multiple_of(unit) {
        return Err(format!("a size in whole {name}, from 1 {name} on"));
    }
    usize::try_from(count).map_err(|_| "it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, size) in [
            ("0", 0),
            ("17", 17),
            ("10k", 10 << 10),
            ("10K", 10 << 10),
            ("1MiB", 1 << 20),
            ("64 GB", 64 << 30),
            ("2t", 2 << 40),
            ("5b", 5),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        let huge = format!("{}0", u64::MAX);
        for text in ["", "k", "-1", "1x", "1.5g", "1kk", "k1", "17179869184g", &huge] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        for (size, decimal, binary) in [
            (0, "0 B", "0"),
            (999, "999 B", "999"),
            (1023, "1.0 kB", "1023"),
            (1_500_000, "1.5 MB", "1.4M"),
            (8 << 30, "8.6 GB", "8G"),
            (200 << 20, "210 MB", "200M"),
            (u64::MAX, "18446744 TB", "16777216T"),
        ] {
            assert_eq!(readable(size, Units::Decimal), decimal, "{size}");
            assert_eq!(readable(size, Units::Binary), binary, "{size}");
        }
    }

    #[test]
    fn sizes_in_a_unit() {
        for (text, count) in [("16", 16), ("16k", 16), ("1m", 1024)] {
            assert_eq!(kibibytes(text), Ok(count), "{text}");
        }
        for (text, count) in [("256", 256), ("256m", 256), ("1GiB", 1024)] {
            assert_eq!(mebibytes(text), Ok(count), "{text}");
        }
        for text in ["0", "0m", "512k", "1025k", "x", ""] {
            assert!(mebibytes(text).is_err(), "{text}");
        }
    }
}
