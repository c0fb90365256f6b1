//! The errors of opening a process's streams.

use alloc::string::String;
use core::fmt;

/// An error of [`Streams`](super::Streams).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// The shim does not support the requested stream.
    Uri {
        /// The requested URI.
        uri: String,
        /// The reason.
        what: &'static str,
    },
    /// A logger could not be started.
    Logger {
        /// The path of the logger's program.
        path: String,
        /// The reason.
        what: &'static str,
    },
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "{error}"),
            Self::Uri { uri, what } => write!(f, "standard stream {uri:?}: {what}"),
            Self::Logger { path, what } => write!(f, "logger {path}: {what}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Uri { .. } | Self::Logger { .. } => None,
        }
    }
}
