//! Memory sizes in the format of runc's `update`: `512m`, `1.5GiB`, `1073741824`.

use alloc::format;
use alloc::string::String;

use crate::duration::decimal;

/// Parses a size and returns it in bytes. A unit may follow the number, optionally after a space: `b`, or one of
/// `k m g t p` (powers of 1024), optionally followed by `b` or `ib`. Units may be in upper or lower case. `-1` means
/// "no limit"; other negative numbers are invalid.
///
/// # Errors
/// Whether the number or the unit is invalid.
pub fn parse(text: &str) -> Result<i64, String> {
    if text == "-1" {
        return Ok(-1);
    }
    let end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |last| last + 1);
    let (number, suffix) = text.split_at_checked(end).unwrap_or((text, ""));
    let suffix = suffix.strip_prefix(' ').unwrap_or(suffix);
    let invalid = || format!("invalid size: '{text}'");
    // If both the number and the unit are invalid, the number is reported.
    decimal(number, 1).ok_or_else(invalid)?;
    let scale = scale(suffix).ok_or_else(|| format!("invalid suffix: '{suffix}'"))?;
    decimal(number, scale).and_then(|bytes| i64::try_from(bytes).ok()).ok_or_else(invalid)
}

fn scale(suffix: &str) -> Option<i128> {
    let suffix = suffix.to_ascii_lowercase();
    let unit = match suffix.as_str() {
        "" | "b" => return Some(1),
        suffix => suffix.strip_suffix("ib").or(suffix.strip_suffix('b')).unwrap_or(suffix),
    };
    let power = ["k", "m", "g", "t", "p"].iter().position(|letter| *letter == unit)?;
    Some(1024i128.pow(u32::try_from(power + 1).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("-1", -1),
            ("0", 0),
            ("42", 42),
            ("42b", 42),
            ("42 B", 42),
            ("32k", 32 << 10),
            ("32kb", 32 << 10),
            ("32KiB", 32 << 10),
            ("512M", 512 << 20),
            ("1.5g", 3 << 29),
            ("2T", 2 << 40),
            ("0.5 p", 1 << 49),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_texts() {
        for text in ["", "x", "-2", "-1k", "1-2", "1.2.3", ".", "9999999p"] {
            assert_eq!(parse(text), Err(format!("invalid size: '{text}'")));
        }
        for text in ["1x", "1bb", "1kib2x", "1kx", "1kibb", "1  k", "1ki"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("1x").unwrap_err(), "invalid suffix: 'x'");
    }
}
