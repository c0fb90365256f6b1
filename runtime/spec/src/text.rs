//! Strings that borrow from the parsed configuration.
use alloc::borrow::Cow;
use alloc::string::String;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A string of the configuration: a slice of the input, or a copy if the string contains escapes in the JSON text.
///
/// A parsed `Str` contains no NUL byte (the parser refuses `"\u0000"`), so it can be passed to the kernel as a C string
/// without a check.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str<'a>(Cow<'a, str>);

impl<'a> Str<'a> {
    /// Returns a string that borrows `text`; usable in constants.
    pub const fn new(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is a slice of the input, not a copy.
    pub fn is_borrowed(&self) -> bool {
        matches!(self.0, Cow::Borrowed(_))
    }

    /// Returns the text as an owned string.
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Str<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl AsRef<[u8]> for Str<'_> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Borrow<str> for Str<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl Serialize for Str<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(StrVisitor)
    }
}

struct StrVisitor;

impl<'de> Visitor<'de> for StrVisitor {
    type Value = Str<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    // Borrowed text cannot contain NUL: JSON forbids raw control characters, and text with escapes is not borrowed.
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Str<'de>, E> {
        Ok(Str::new(text))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Str<'de>, E> {
        self.visit_string(text.into())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Str<'de>, E> {
        if text.contains('\0') {
            return Err(E::custom("string contains a NUL byte"));
        }
        Ok(Str(Cow::Owned(text)))
    }
}

/// Replaces an empty string by `None`.
pub(crate) fn drop_if_empty(text: &mut Option<Str<'_>>) {
    if text.as_ref().is_some_and(|text| text.is_empty()) {
        *text = None;
    }
}
