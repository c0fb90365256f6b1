//! SHA-256 digests: the names of blobs, layers and images.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::str::FromStr;

/// A SHA-256 digest, written `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest of everything hashed so far.
    #[must_use]
    pub fn finish(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// Returns the 64 digits, as used in file names.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses 64 digits.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.as_bytes().iter().all(lower) {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Checks that `bytes` have this digest; `what` names them in the error.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn check(self, bytes: &[u8], what: &str) -> Result<(), Mismatch> {
        self.same(Self::of(bytes), || what.to_owned())
    }

    /// Checks that `found` is the same digest as `self`.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn same(self, found: Self, what: impl FnOnce() -> String) -> Result<(), Mismatch> {
        if self == found {
            return Ok(());
        }
        Err(Mismatch { what: what(), expected: self, found })
    }
}

/// Content that does not match its digest.
#[derive(Debug)]
pub struct Mismatch {
    /// The name of the content.
    pub what: String,
    /// The expected digest.
    pub expected: Digest,
    /// The actual digest.
    pub found: Digest,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, expected, found } = self;
        write!(
            f,
            "{what} is damaged or not what was asked for: it must be {expected} and is {found}"
        )
    }
}

impl std::error::Error for Mismatch {}

/// A text that is not a digest.
#[derive(Debug)]
pub struct NoDigest(String);

impl fmt::Display for NoDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid digest {:?}: it must be sha256: and 64 hexadecimal digits", self.0)
    }
}

impl std::error::Error for NoDigest {}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let digest = text.strip_prefix("sha256:").and_then(Self::from_hex);
        digest.ok_or_else(|| NoDigest(text.to_owned()))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_written_as_it_is_read() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(EMPTY.parse::<Digest>().expect("digest"), Digest::of(b""));
        assert!(Digest::of(b"").check(b"", "nothing").is_ok());
        assert!(Digest::of(b"").check(b"x", "nothing").is_err());
    }

    #[test]
    fn what_is_no_digest_is_refused() {
        let long = format!("{EMPTY}0");
        let upper = EMPTY.to_uppercase();
        for text in ["", "sha256:", "sha512:00", "sha256:../../etc/passwd", &long, &upper] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
