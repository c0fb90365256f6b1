//! What keeps a command from being done.

use crate::digest::{Digest, Mismatch, NoDigest};
use report::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::Path;

/// Why a command on images ended without its result. Nothing is left of what it began.
#[derive(Debug)]
pub enum Error {
    /// A system call or a read: what was tried, on what, and why it did not work.
    System {
        /// The operation, such as `"write"`.
        op: &'static str,
        /// Its object, mostly a path.
        object: String,
        /// The reason.
        cause: io::Error,
    },
    /// Content is not what its digest says.
    Digest(Mismatch),
    /// What was given as a digest is none.
    NoDigest(NoDigest),
    /// A blob is longer or shorter than its descriptor says.
    Size {
        /// Which blob.
        blob: Digest,
        /// What the descriptor says, in bytes.
        expected: u64,
        /// How many bytes there were; when there were too many, how many had been read by then.
        found: u64,
    },
    /// An entry of a layer that no honest archive has.
    Hostile {
        /// The entry's name.
        entry: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An entry that needs the layers below its own, where these are not known yet.
    NeedsBelow {
        /// What is looked for there.
        path: String,
    },
    /// An archive in which entries take the place of others, where the frame is to have all contents.
    NeedsFrame,
    /// The layer must be read with a longer window of zstd than any reader has.
    NeedsWindow,
    /// An archive that unpacks to more than is allowed.
    Limit {
        /// What there is too much of, with the limit.
        what: String,
        /// The option that allows more.
        option: &'static str,
    },
    /// What a registry answered, or why it did not.
    Registry {
        /// What it was asked for.
        what: String,
        /// What is wrong.
        reason: String,
    },
    /// Something of a layer went wrong.
    Layer {
        /// The layer's blob.
        blob: Digest,
        /// What.
        cause: Box<Error>,
    },
    /// No image of a name; says which there are.
    NoImage(String),
    /// Something is missing or not as it must be; says what to do.
    Unfit(String),
    /// SIGINT or SIGTERM came.
    Interrupted,
}

/// What everything here returns.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Why `op` on `path` failed.
    pub fn at(op: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let object = path.as_ref().display().to_string();
        move |cause| Self::System { op, object, cause }
    }

    /// The same for a call that answers with an errno.
    pub fn errno(
        op: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::at(op, path)(errno.into())
    }

    /// Says which layer this is about.
    #[must_use]
    pub fn of_layer(self, blob: Digest) -> Self {
        match self {
            Self::Interrupted | Self::Layer { .. } => self,
            cause => Self::Layer { blob, cause: Box::new(cause) },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { op, object, cause } => write!(f, "{op} {object}: {cause}"),
            Self::Digest(error) => error.fmt(f),
            Self::NoDigest(error) => error.fmt(f),
            Self::Size { blob, expected, found } => write!(
                f,
                "blob {blob} must have {expected} bytes and has {}{found}",
                if found > expected { "at least " } else { "" }
            ),
            Self::Hostile { entry, reason } => write!(f, "entry {entry:?} is refused: {reason}"),
            Self::NeedsBelow { path } => {
                write!(f, "{path:?} is neither in the layer nor in those below it")
            }
            Self::NeedsWindow => f.write_str("it wants a long window of zstd"),
            Self::NeedsFrame => f.write_str("entries take the place of others"),
            Self::Limit { what, option } => {
                write!(f, "{what}; {option} allows more, if you trust the image")
            }
            Self::Registry { what, reason } => write!(f, "{what}: {reason}"),
            Self::Layer { blob, cause } => write!(f, "layer {blob}: {cause}"),
            Self::NoImage(reason) | Self::Unfit(reason) => f.write_str(reason),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { cause, .. } => Some(cause),
            Self::Digest(error) => Some(error),
            Self::NoDigest(error) => Some(error),
            Self::Layer { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<Interrupted> for Error {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<Mismatch> for Error {
    fn from(mismatch: Mismatch) -> Self {
        Self::Digest(mismatch)
    }
}

impl From<NoDigest> for Error {
    fn from(error: NoDigest) -> Self {
        Self::NoDigest(error)
    }
}

/// A text without characters that a terminal would obey: names from an archive may have some.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn a_layer_s_error_leads_to_what_is_wrong_with_the_content() {
        let (expected, found) = (Digest::of(b"a"), Digest::of(b"b"));
        let mismatch = Mismatch { what: "layer 1".into(), expected, found };
        let error = Error::from(mismatch).of_layer(expected);
        let cause = error.source().and_then(|layer| layer.source()).expect("a chain");
        assert_eq!(cause.downcast_ref::<Mismatch>().map(|cause| cause.found), Some(found));
        let told =
            format!("layer {expected}: layer 1 is damaged or not what was asked for: it must be ");
        assert!(error.to_string().starts_with(&told), "{error}");
        let bad = Error::from("sha1:0".parse::<Digest>().expect_err("no digest"));
        assert!(bad.source().is_some_and(|cause| cause.is::<NoDigest>()), "{bad}");
    }
}
