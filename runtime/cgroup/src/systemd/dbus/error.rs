//! Errors of D-Bus calls.

use alloc::string::String;
use core::fmt;

/// The reason why a D-Bus call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// connect(2) failed.
    Connect {
        /// The address of the bus or the path of its socket.
        address: String,
        /// The errno.
        errno: sys::Errno,
    },
    /// The client does not support this address.
    Address {
        /// The address as given.
        address: String,
    },
    /// The peer rejected the client's authentication.
    Rejected {
        /// The peer's answer.
        answer: String,
    },
    /// The peer did not answer within the timeout.
    Stalled {
        /// The timeout, in milliseconds.
        waited: u32,
    },
    /// The peer closed the connection.
    Closed,
    /// The peer violated the D-Bus specification.
    Malformed(&'static str),
    /// The reply is an error.
    Answer {
        /// The name of the error, such as `org.freedesktop.systemd1.UnitExists`.
        name: String,
        /// The text of the error.
        text: String,
    },
    /// A system call failed.
    System(sys::Error),
}

impl Error {
    /// Returns the name of the error reply, if the error is [`Error::Answer`].
    pub fn answer(&self) -> Option<&str> {
        match self {
            Self::Answer { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Returns whether the service has left the bus, as systemd does for a moment when it is executed again.
    pub fn is_absence(&self) -> bool {
        let name = self.answer().and_then(|name| name.strip_prefix("org.freedesktop.DBus.Error."));
        matches!(name, Some("NoReply" | "ServiceUnknown" | "NameHasNoOwner"))
    }

    /// Returns whether the error means that the peer is not running.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::Connect { errno: sys::Errno::NOENT | sys::Errno::CONNREFUSED, .. })
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { address, errno } => {
                write!(f, "connect to D-Bus at {address}: {}", sys::errno::describe(*errno))
            }
            Self::Address { address } => write!(
                f,
                "the address of the bus, {address:?}, names no unix:path= or unix:abstract= socket"
            ),
            Self::Rejected { answer } => write!(f, "D-Bus refused authentication: {answer:?}"),
            Self::Stalled { waited } => {
                write!(f, "no answer within {}.{} s", waited / 1000, waited % 1000 / 100)
            }
            Self::Closed => f.write_str("D-Bus closed the connection"),
            Self::Malformed(what) => write!(f, "D-Bus sent a malformed message: {what}"),
            Self::Answer { name, text } => write!(f, "{text} ({name})"),
            Self::System(error) => error.fmt(f),
        }
    }
}
