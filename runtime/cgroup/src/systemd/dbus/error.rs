//! Errors of D-Bus calls.

use alloc::string::String;

/// The reason why a D-Bus call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// connect(2) failed.
    #[error("connect to D-Bus at {address}: {}", sys::errno::describe(*errno))]
    Connect {
        /// The address of the bus or the path of its socket.
        address: String,
        /// The errno.
        errno: sys::Errno,
    },
    /// The client does not support this address. The address as given.
    #[error("the address of the bus, {0:?}, names no unix:path= or unix:abstract= socket")]
    Address(String),
    /// The peer rejected the client's authentication. The peer's answer.
    #[error("D-Bus refused authentication: {0:?}")]
    Rejected(String),
    /// The peer did not answer within the timeout. The timeout, in milliseconds.
    #[error("no answer within {}.{} s", .0 / 1000, .0 % 1000 / 100)]
    Stalled(u32),
    /// The peer closed the connection.
    #[error("D-Bus closed the connection")]
    Closed,
    /// The peer violated the D-Bus specification.
    #[error("D-Bus sent a malformed message: {0}")]
    Malformed(&'static str),
    /// The reply is an error.
    #[error("{text} ({name})")]
    Answer {
        /// The name of the error, such as `org.freedesktop.systemd1.UnitExists`.
        name: String,
        /// The text of the error.
        text: String,
    },
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
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
