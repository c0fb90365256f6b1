//! Errors of the image commands.

use crate::digest::{Digest, Mismatch, NoDigest};
use report::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a command on images failed. Unfinished objects of the command have been removed.
#[derive(Debug)]
pub enum Error {
    /// A system call or a read failed.
    System {
        /// The operation, such as `"write"`.
        op: &'static str,
        /// The object of the operation, usually a path.
        object: String,
        /// The reason.
        cause: io::Error,
    },
    /// Content does not match its digest.
    Digest(Mismatch),
    /// An invalid digest.
    NoDigest(NoDigest),
    /// A blob is longer or shorter than stated in its descriptor.
    Size {
        /// The digest of the blob.
        blob: Digest,
        /// The descriptor's size, in bytes.
        expected: u64,
        /// The actual size, or, if the blob is too long, the number of bytes read so far.
        found: u64,
    },
    /// A malicious entry of a layer.
    Hostile {
        /// The entry's name.
        entry: String,
        /// The reason why it is rejected.
        reason: &'static str,
    },
    /// An entry depends on the layers below, which are not available yet.
    NeedsBelow {
        /// The path that was looked up in the layers below.
        path: String,
    },
    /// Entries of the archive replace earlier ones, so file contents must be kept in the record's frame file
    /// (`Way::Frame`).
    NeedsFrame,
    /// The layer needs a zstd window longer than the window that every decoder should support.
    NeedsWindow,
    /// An archive exceeds a limit when unpacked.
    Limit {
        /// The exceeded quantity, with the limit.
        what: String,
        /// The option that raises the limit.
        option: &'static str,
    },
    /// A registry returned an error or did not answer.
    Registry {
        /// The requested object.
        what: String,
        /// The reason.
        reason: String,
    },
    /// An error that concerns a layer.
    Layer {
        /// The layer's blob.
        blob: Digest,
        /// The error.
        cause: Box<Error>,
    },
    /// No image has this name; the text lists similar ones.
    NoImage(String),
    /// The directory contains no store.
    NoStore(PathBuf),
    /// Something is missing or invalid; the text says what to do.
    Unfit(String),
    /// The command was interrupted by SIGINT, SIGTERM or SIGHUP, or the unpacking of another layer has failed.
    Interrupted,
}

/// The result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a function that makes the error of `op` on `path`.
    pub fn at(op: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let object = path.as_ref().display().to_string();
        move |cause| Self::System { op, object, cause }
    }

    /// Like [`Self::at`], for calls that fail with an errno.
    pub fn errno(
        op: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::at(op, path)(errno.into())
    }

    /// Adds the layer that the error concerns.
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
            Self::NoStore(path) => write!(
                f,
                "no image store at {}: \"dayfly image import\" and \"dayfly image pull\" make one",
                path.display()
            ),
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

/// Prints a warning to standard error.
pub fn warn(sentence: &str) {
    eprintln!("warning: {}", printable(sentence));
}

/// Escapes control characters, which names from an archive may contain, for a terminal.
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
