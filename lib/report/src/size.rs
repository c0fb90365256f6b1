//! Sizes as users write them.

/// Parses a number of bytes. It may have a unit `k`, `m`, `g` or `t` (1024, 1024², …) in upper or lower case, which may
/// be followed by `b` or `ib`.
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
