//! Errors that prevent an experiment.

use crate::container::Fault;
use report::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::Path;

/// The reason why an experiment, or a runtime's part of it, ended without a result.
#[derive(Debug)]
pub enum Error {
    /// A failed operation of the harness itself.
    System {
        /// The operation, such as `"write"`.
        op: &'static str,
        /// The object of the operation, usually a path.
        object: String,
        /// The reason.
        cause: io::Error,
    },
    /// A requirement of the experiment is missing or unsuitable; the text says what to do.
    Unfit(String),
    /// A runtime failed: it is out of the rest of the experiment, which goes on with the others. The text is the reason.
    Out(String),
    /// An error of the helpers shared by all tools.
    Report(report::Error),
    /// SIGINT or SIGTERM arrived.
    Interrupted,
}

impl Error {
    /// Returns a function that makes the error of `op` on `path`.
    pub fn at(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let object = path.display().to_string();
        move |cause| Self::System { op, object, cause }
    }

    /// Returns a function like [`Self::at`], for a call that fails with an errno.
    pub fn errno(op: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::at(op, path)(errno.into())
    }

    /// Tells what was done when a runtime failed.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Out(reason) => Self::Out(format!("{what}: {reason}")),
            error => error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { op, object, cause } => write!(f, "{op} {object}: {cause}"),
            Self::Unfit(reason) | Self::Out(reason) => f.write_str(reason),
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
            Self::Unfit(_) | Self::Out(_) | Self::Interrupted => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Out(fault.to_string())
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

impl From<measure::chart::Error> for Error {
    fn from(error: measure::chart::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}
