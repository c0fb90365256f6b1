//! Finds the property at a position in a JSON text.
//!
//! serde reports line and column of an error but not the property. This module determines the property only after an
//! error, by scanning the text once more, so parsing has no extra cost.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// An object or array that is not yet closed at the position.
enum Level<'a> {
    /// The current key, with its escapes not decoded.
    Object(&'a [u8]),
    /// The index of the current element.
    Array(usize),
}

/// Returns the property at the end of `text`, such as `mounts[2].options[0]`; empty at the top level. `text` is the
/// beginning of a JSON text.
pub(crate) fn property_at(text: &[u8]) -> String {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut rest = text;
    let mut string: &[u8] = &[];
    // If the text ends right after a closed object or array, the error concerns this object or array.
    let mut closed = None;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if !byte.is_ascii_whitespace() {
            closed = None;
        }
        match byte {
            b'"' => (string, rest) = split_string(tail),
            b':' => {
                if let Some(Level::Object(key)) = levels.last_mut() {
                    *key = string;
                }
            }
            b',' => {
                if let Some(Level::Array(index)) = levels.last_mut() {
                    *index += 1;
                }
            }
            b'{' => levels.push(Level::Object(&[])),
            b'[' => levels.push(Level::Array(0)),
            b'}' | b']' => closed = levels.pop(),
            _ => {}
        }
    }
    levels.extend(closed);
    join(&levels)
}

/// Splits `text`, which begins inside a string, into the string's content and the text after its closing quote.
fn split_string(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    let inside = end.and_then(|end| text.get(..end)).unwrap_or(text);
    (inside, text.get(inside.len() + 1..).unwrap_or_default())
}

fn join(levels: &[Level<'_>]) -> String {
    let mut property = String::new();
    for level in levels {
        match level {
            Level::Object([]) => {}
            Level::Object(key) => {
                if !property.is_empty() {
                    property.push('.');
                }
                property.push_str(&String::from_utf8_lossy(key));
            }
            Level::Array(index) => property.push_str(&format!("[{index}]")),
        }
    }
    property
}

#[cfg(test)]
mod tests {
    use super::property_at;

    #[test]
    fn properties() {
        for (text, property) in [
            ("", ""),
            ("{", ""),
            (r#"{"a": 1"#, "a"),
            (r#"{"a": {"b": "#, "a.b"),
            (r#"{"a": [1, {"b": [[], ["#, "a[1].b[1][0]"),
            (r#"{"a\"{": "x]", "c": "y"#, "c"),
            (r#"{"a": "\\", "c": 1"#, "c"),
            (r#"{"a": {"b": 1}"#, "a.b"),
            (r#"{"a": {"b": 1}, "c": 2"#, "c"),
            ("]]}}", ""),
        ] {
            assert_eq!(property_at(text.as_bytes()), property, "{text}");
        }
    }
}
