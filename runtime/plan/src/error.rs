//! Errors of compiling a configuration.

use alloc::string::String;
use core::fmt;

/// An error of compiling a configuration. The text names the field or the object.
#[derive(Debug)]
pub enum Error {
    /// An invalid or unsupported value.
    Config(String),
    /// A value that violates the specification.
    Invalid(spec::Invalid),
    /// An error in the seccomp profile.
    Seccomp(seccomp::Error),
    /// A failed system call on the host.
    System(sys::Error),
}

impl Error {
    /// Returns a configuration error with this text.
    pub fn config(text: impl Into<String>) -> Self {
        Self::Config(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) => f.write_str(text),
            Self::Invalid(error) => error.fmt(f),
            Self::Seccomp(error) => write!(f, "seccomp: {error}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

impl From<spec::Invalid> for Error {
    fn from(error: spec::Invalid) -> Self {
        Self::Invalid(error)
    }
}

impl From<seccomp::Error> for Error {
    fn from(error: seccomp::Error) -> Self {
        Self::Seccomp(error)
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}
