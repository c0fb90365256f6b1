//! The text of the seccomp profile, parsed only by the compiler of seccomp profiles.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Error, Serialize, Serializer};
use serde_json::value::RawValue;

/// An unparsed seccomp profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileText<'a>(&'a str);

impl<'a> ProfileText<'a> {
    /// Returns a profile that has not been parsed.
    pub fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the text. It may be invalid JSON, since `Spec::parse` does not parse the profile.
    pub fn get(&self) -> &'a str {
        self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ProfileText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <&RawValue>::deserialize(deserializer).map(|raw| Self(raw.get()))
    }
}

impl Serialize for ProfileText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}
