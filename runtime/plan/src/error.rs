//! Why a configuration has no plan.

use alloc::string::String;
use core::fmt;

/// Why a configuration has no plan. The text names the field or the object.
#[derive(Debug)]
pub enum Error {
    /// A value that cannot be, or is not supported.
    Config(String),
    /// A value that the specification does not have.
    Invalid(spec::Invalid),
    /// The seccomp profile.
    Seccomp(seccomp::Error),
    /// Something about the host could not be read.
    System(sys::Error),
}

impl Error {
    /// A configuration error with this text.
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
