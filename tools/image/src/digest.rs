//! SHA-256 digests: the names of blobs, layers and images.

use crate::error::{Error, Result, ensure, unfit};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

/// A SHA-256 digest, written `sha256:` and 64 digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the 64 digits, as used in file names.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses 64 digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let lower = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.as_bytes().iter().all(lower) {
            return None;
        }
        let byte = |at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap_or_default();
        Some(Self(std::array::from_fn(byte)))
    }

    /// Checks that `found` is the same digest as `self`; `what` names the content in the error.
    ///
    /// # Errors
    /// [`Error::Unfit`], with both digests.
    pub fn check(self, found: Self, what: impl fmt::Display) -> Result<()> {
        ensure!(
            self == found,
            "{what} is damaged or not what was asked for: it must be {self} and is {found}"
        );
        Ok(())
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.strip_prefix("sha256:").and_then(Self::from_hex).ok_or_else(|| {
            unfit!("invalid digest {text:?}: it must be sha256: and 64 hexadecimal digits")
        })
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
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

/// A reader or writer that counts and hashes what passes through it.
#[derive(Debug)]
pub struct Hashed<T> {
    /// The reader or writer.
    pub inner: T,
    hash: Sha256,
    /// The number of bytes.
    pub length: u64,
}

impl<T> Hashed<T> {
    /// Returns a reader or writer that nothing has passed through yet.
    pub fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new(), length: 0 }
    }

    /// Hashes bytes that passed.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }

    /// Returns the digest of all that has passed.
    pub fn digest(&self) -> Digest {
        Digest(self.hash.clone().finalize().into())
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.add(&buffer[..count]);
        Ok(count)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.add(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
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
