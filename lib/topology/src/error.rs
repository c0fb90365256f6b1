//! Errors of reading a topology.

use alloc::string::String;
use core::fmt;

/// The reason why a topology could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// A file of sysfs does not have the documented format.
    Unreadable {
        /// The file's path.
        file: String,
        /// The file's content.
        content: String,
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
            Self::System(error) => error.fmt(f),
            Self::Unreadable { file, content } => write!(f, "cannot read {file}: got {content:?}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}
