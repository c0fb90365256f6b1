//! Errors of the command line.

use core::fmt;

use crate::number::InvalidNumber;

/// The reason why a command line is invalid. The messages are those of runc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UsageError<'a> {
    /// An unknown option.
    Undefined(&'a str),
    /// Too many dashes, or an empty name.
    BadSyntax(&'a str),
    /// The last word is an option, and its value is missing.
    NeedsArgument(&'a str),
    /// A flag with a value other than true or false.
    BadBoolean(&'a str, &'a str),
    /// A value that does not match the option's type.
    BadValue(&'a str, &'a str, InvalidNumber),
    /// The command requires another number of arguments: exactly this one, at least or at most this one.
    Count(&'a str, &'static str, usize),
}

impl fmt::Display for UsageError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined(name) => write!(f, "flag provided but not defined: -{name}"),
            Self::BadSyntax(text) => write!(f, "bad flag syntax: {text}"),
            Self::NeedsArgument(name) => write!(f, "flag needs an argument: -{name}"),
            Self::BadBoolean(name, value) => {
                write!(f, "invalid boolean value {value:?} for -{name}: parse error")
            }
            Self::BadValue(name, value, reason) => {
                let reason = match reason {
                    InvalidNumber::Syntax => "parse error",
                    InvalidNumber::Range => "value out of range",
                };
                write!(f, "invalid value {value:?} for flag -{name}: {reason}")
            }
            Self::Count(command, bound, n) => {
                write!(f, "{command:?} requires {bound} {n} argument(s)")
            }
        }
    }
}
