//! Container ids.
use core::fmt;

/// Longest id in bytes.
pub const MAX_ID: usize = 1024;

/// The reason why a container id is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidId {
    /// The id is the empty string.
    Empty,
    /// The id is longer than [`MAX_ID`], or does not match `[a-zA-Z0-9_+-][a-zA-Z0-9_+.-]*`.
    Format,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "container id cannot be empty",
            Self::Format => "invalid container ID format",
        })
    }
}

impl core::error::Error for InvalidId {}

/// Checks a container id, which becomes the name of directories and cgroups.
///
/// A leading dot is refused, which excludes `.`, `..` and hidden files.
///
/// # Errors
/// The reason, in runc's words.
pub fn validate_id(id: &str) -> Result<(), InvalidId> {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-".contains(byte);
    match id.as_bytes() {
        [] => Err(InvalidId::Empty),
        [first, rest @ ..]
            if word(first)
                && rest.iter().all(|byte| word(byte) || *byte == b'.')
                && id.len() <= MAX_ID =>
        {
            Ok(())
        }
        _ => Err(InvalidId::Format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good() {
        for id in ["a", "0", "_", "+x", "-x", "a.b", "a..b", "A-1_2+3.4", &"x".repeat(MAX_ID)] {
            assert_eq!(validate_id(id), Ok(()), "{id}");
        }
    }

    #[test]
    fn bad() {
        assert_eq!(validate_id(""), Err(InvalidId::Empty));
        let long = "x".repeat(MAX_ID + 1);
        for id in [".", "..", ".a", "a/b", "/", "a b", "a\n", "ä", "a\0", "a:b", &long] {
            assert_eq!(validate_id(id), Err(InvalidId::Format), "{id:?}");
        }
    }
}
