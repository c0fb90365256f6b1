//! Fields of CSV.

/// Returns a name as a CSV field (RFC 4180), quoted if necessary.
#[must_use]
pub fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_where_a_reader_would_err() {
        assert_eq!(quoted("plain name"), "plain name");
        assert_eq!(quoted("a \"quoted\", name"), "\"a \"\"quoted\"\", name\"");
        assert_eq!(quoted("two\nlines"), "\"two\nlines\"");
    }
}
