//! A command that did not work: what is said about it, and the exit status.

use alloc::string::{String, ToString};
use core::fmt::{self, Display};

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, for people.
    pub message: String,
    /// The exit status.
    pub status: i32,
    /// How the command is called, where it was called otherwise: a line.
    pub usage: Option<String>,
}

impl Failure {
    /// A failure with exit status 1.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), status: 1, usage: None }
    }

    /// Something that dayfly does not do yet.
    pub fn unsupported(what: impl Display) -> Self {
        Self::new(format_args!("{what} is not supported yet"))
    }

    /// The same, told as a failure of `what`.
    #[must_use]
    pub fn of(self, what: impl Display) -> Self {
        Self { message: alloc::format!("{what} failed: {}", self.message), ..self }
    }

    /// A command line that can't be understood, and how it is done right.
    pub fn usage(message: impl Display, usage: impl Display) -> Self {
        Self { usage: Some(usage.to_string()), ..Self::new(message) }
    }

    /// The same with another exit status.
    #[must_use]
    pub fn with_status(self, status: i32) -> Self {
        Self { status, ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Self {
        Self::new(error)
    }
}
