//! Errors of the command line.

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::number::InvalidNumber;

/// The reason why a command line is invalid. The messages are those of runc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageError<'a> {
    /// An unknown option.
    Undefined(&'a str),
    /// Any other mistake: the message.
    Text(String),
}

impl UsageError<'_> {
    pub(crate) fn needs_argument(name: &str) -> Self {
        Self::Text(format!("flag needs an argument: -{name}"))
    }

    /// A value that does not match the option's type.
    pub(crate) fn bad_value(name: &str, value: &str, reason: InvalidNumber) -> Self {
        let reason = match reason {
            InvalidNumber::Syntax => "parse error",
            InvalidNumber::Range => "value out of range",
        };
        Self::Text(format!("invalid value {value:?} for flag -{name}: {reason}"))
    }
}

impl fmt::Display for UsageError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined(name) => write!(f, "flag provided but not defined: -{name}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
