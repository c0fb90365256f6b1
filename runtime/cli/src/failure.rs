//! A failed command: its message and exit status.

use alloc::string::{String, ToString};
use core::fmt::{self, Display};

/// The reason why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The message.
    pub message: String,
    /// The exit status.
    pub status: i32,
    /// The correct usage in one line, if the command line was invalid.
    pub usage: Option<String>,
}

impl Failure {
    /// Returns a failure with exit status 1.
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), status: 1, usage: None }
    }

    /// Puts "`what` failed: " before the message.
    #[must_use]
    pub fn of(self, what: impl Display) -> Self {
        Self { message: alloc::format!("{what} failed: {}", self.message), ..self }
    }

    /// Returns a failure for an invalid command line, with the correct usage.
    pub fn usage(message: impl Display, usage: impl Display) -> Self {
        Self { usage: Some(usage.to_string()), ..Self::new(message) }
    }

    /// Returns the failure with `status` as exit status.
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

impl<E: core::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// Returns a [`Failure`] with a formatted message.
macro_rules! failure {
    ($($text:tt)*) => { $crate::failure::Failure::new(format_args!($($text)*)) };
}
pub(crate) use failure;
