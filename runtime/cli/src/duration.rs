//! Durations in the format of Go's `time.ParseDuration`: `5s`, `1m30s`, `1.5h`, `300ms`.

/// Returns the length of a unit in nanoseconds.
fn unit(name: &str) -> Option<i128> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Parses a duration and returns it in nanoseconds. Returns `None` if the text is invalid or the duration too large.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0i128;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(number_end)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (name, tail) = tail.split_at_checked(unit_end)?;
        total = total.checked_add(decimal(number, unit(name)?)?)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Multiplies the decimal number in `number`, which may have a fraction, by `scale`. The result is truncated to an
/// integer.
pub(crate) fn decimal(number: &str, scale: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| -> Option<i128> {
        text.bytes().try_fold(0i128, |sum, byte| {
            let digit = byte.is_ascii_digit().then(|| i128::from(byte.wrapping_sub(b'0')))?;
            sum.checked_mul(10)?.checked_add(digit)
        })
    };
    // Digits after the 18th are ignored, as Go ignores the last digits of a long fraction.
    let kept = fraction.get(..18).unwrap_or(fraction);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = 10i128.checked_pow(u32::try_from(kept.len()).ok()?)?;
    let part = digits(kept)?.checked_mul(scale)?.checked_div(power)?;
    digits(whole)?.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanoseconds) in [
            ("5s", 5_000_000_000),
            ("0", 0),
            ("-1s", -1_000_000_000),
            ("+2ms", 2_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("2.s", 2_000_000_000),
            ("7µs", 7_000),
            ("100ns", 100),
            ("0.1234567891234567891234s", 123_456_789),
        ] {
            assert_eq!(parse(text), Some(nanoseconds), "{text}");
        }
    }

    #[test]
    fn other_texts() {
        for text in ["", "-", "5", "s", ".s", "5sx", "5 s", "1s-", "1..2s", "99999999999999h", "5ŝ"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
