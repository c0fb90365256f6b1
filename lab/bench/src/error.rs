//! Errors that prevent an experiment.

use report::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::Path;

/// Makes [`Error::Unfit`] from a format string and its arguments.
macro_rules! unfit {
    ($($text:tt)*) => { $crate::Error::Unfit(format!($($text)*)) };
}

/// Returns [`Error::Unfit`] from a function.
macro_rules! bail {
    ($($text:tt)*) => { return Err(unfit!($($text)*)) };
}

/// The reason why an experiment, or a runtime's part of it, ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A requirement of the experiment is missing or unsuitable; the text says what to do.
    #[error("{0}")]
    Unfit(String),
    /// A runtime failed: it is out of the rest of the experiment, which goes on with the others. The text is the reason.
    #[error("{0}")]
    Out(String),
    /// A failed operation of the harness itself, or an error of the helpers shared by all tools.
    #[error("{0}")]
    Report(#[from] report::Error),
    /// SIGINT or SIGTERM arrived.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns a function that makes the error of `op` on `path`.
    pub fn at(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let of = report::Error::of(op, path);
        move |cause| Self::Report(of(cause))
    }

    /// Returns a function like [`Self::at`], for a call that fails with an errno.
    pub fn errno(op: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        let of = report::Error::of(op, path);
        move |errno| Self::Report(of(errno))
    }

    /// Tells what was done when a runtime failed.
    pub fn during(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Out(reason) => Self::Out(format!("{what}: {reason}")),
            error => error,
        }
    }
}

impl From<Interrupted> for Error {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}
