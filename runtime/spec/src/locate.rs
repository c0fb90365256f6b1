//! Which property a place in a JSON text belongs to.
//!
//! serde tells line and column of an error but not the property. It is found
//! out afterwards by walking the text once more, so that reading costs nothing.
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One open object or array on the way to the place.
enum Level<'a> {
    /// The key that is being read, with its escapes, or whose value is.
    Object(&'a [u8]),
    /// The index of the element that is being read.
    Array(usize),
}

/// The property that the end of `text`, the beginning of a JSON text, is in:
/// `mounts[2].options[0]`; empty at the top.
pub(crate) fn property_at(text: &[u8]) -> String {
    let mut levels: Vec<Level<'_>> = Vec::new();
    let mut rest = text;
    let mut string: &[u8] = &[];
    // A closed value still is what an error right behind it is about.
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

/// The inside of a string that begins `text`, and what follows its end quote.
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
