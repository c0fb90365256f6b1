//! What keeps an experiment from being run.

use report::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::Path;

/// Why an experiment ended without a result. A runtime that fails is no such reason: it is
/// reported and left out.
#[derive(Debug)]
pub enum Error {
    /// An operation of the harness's own: what was tried, on what, and why it did not work.
    System {
        /// The operation, such as `"write"`.
        op: &'static str,
        /// Its object, mostly a path.
        object: String,
        /// The reason.
        cause: io::Error,
    },
    /// Something is missing or not as it must be; says what to do.
    Unfit(String),
    /// An error of the helpers that all tools share.
    Report(report::Error),
    /// SIGINT or SIGTERM came.
    Interrupted,
}

impl Error {
    /// Why `op` on `path` failed.
    pub fn at(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let object = path.display().to_string();
        move |cause| Self::System { op, object, cause }
    }

    /// The same for a call that answers with an errno.
    pub fn errno(op: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::at(op, path)(errno.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { op, object, cause } => write!(f, "{op} {object}: {cause}"),
            Self::Unfit(reason) => f.write_str(reason),
            Self::Report(error) => error.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { cause, .. } => Some(cause),
            Self::Report(error) => Some(error),
            Self::Unfit(_) | Self::Interrupted => None,
        }
    }
}

impl From<Interrupted> for Error {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<report::Error> for Error {
    fn from(error: report::Error) -> Self {
        Self::Report(error)
    }
}
