//! Parsers of cgroup file formats (cgroup-v2.rst, "Interface Files").

/// Parses an unsigned number. Negative numbers are read as 0, because some memory counters of old kernels underflow.
pub fn number(text: &str) -> Option<u64> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) => text.parse::<i64>().is_ok_and(i64::is_negative).then_some(0),
    }
}

/// Parses a number, or the text `max` as [`u64::MAX`].
pub(crate) fn number_or_max(text: &str) -> Option<u64> {
    if text == "max" { Some(u64::MAX) } else { number(text) }
}

/// Iterates over the lines of a flat keyed file, which have the form `key value`. Other lines are ignored.
pub fn keys(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (key, value) = line.split_once(' ')?;
        Some((key, number(value)?))
    })
}

/// Returns the value of one key in a flat keyed file.
pub fn key(text: &str, wanted: &str) -> Option<u64> {
    keys(text).find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

/// Parses a device number of the form `MAJOR:MINOR`.
pub fn device(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.split_once(':')?;
    Some((number(major)?, number(minor)?))
}

/// Parses a cpuset list such as `0-3,7`; returns `None` if it is invalid.
pub(crate) fn list(text: &str) -> Option<alloc::vec::Vec<u16>> {
    let mut members = alloc::vec::Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        members.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        assert_eq!(number("-5"), Some(0));
        assert_eq!(number("max"), None);
        assert_eq!(number_or_max("max"), Some(u64::MAX));
        assert_eq!(number(""), None);
        assert_eq!(number("1x"), None);
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(list(""), Some(vec![]));
        assert_eq!(list("3-x"), None);
        assert_eq!(device("8:16"), Some((8, 16)));
    }
}
