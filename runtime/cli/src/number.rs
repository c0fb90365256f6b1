//! The only parser of decimal integers on the command line.
//!
//! It accepts only digits after an optional sign. A number followed by other characters is invalid; in CVE-2026-30892,
//! another runtime read `exec --user 1:x` as root.

use core::fmt;

/// The reason why a text is not the required number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidNumber {
    /// The text is empty, or contains characters other than digits after the sign.
    Syntax,
    /// The number does not fit in the required type.
    Range,
}

impl fmt::Display for InvalidNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syntax => "invalid syntax",
            Self::Range => "value out of range",
        })
    }
}

/// Parses a decimal integer into any integer type.
///
/// # Errors
/// See [`InvalidNumber`].
pub fn parse<T: TryFrom<i128>>(text: &str) -> Result<T, InvalidNumber> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidNumber::Syntax);
    }
    let number: Option<i128> = text.parse().ok();
    number.and_then(|number| T::try_from(number).ok()).ok_or(InvalidNumber::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(parse::<u32>("0"), Ok(0));
        assert_eq!(parse::<u32>("007"), Ok(7));
        assert_eq!(parse::<u32>("+9"), Ok(9));
        assert_eq!(parse::<i64>("-1"), Ok(-1));
        assert_eq!(parse::<u64>("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse::<i64>("-9223372036854775808"), Ok(i64::MIN));
    }

    #[test]
    fn other_texts() {
        for text in
            ["", "-", "+", "--1", "+-1", " 1", "1 ", "1:2", "1a", "a1", "0x10", "1_0", "1.0", "١"]
        {
            assert_eq!(parse::<i64>(text), Err(InvalidNumber::Syntax), "{text:?}");
        }
        for text in ["-1", "4294967296", "340282366920938463463374607431768211456000"] {
            assert_eq!(parse::<u32>(text), Err(InvalidNumber::Range), "{text:?}");
        }
    }
}
