//! The errors of opening a process's streams.

use alloc::string::String;

/// An error of [`Streams`](super::Streams).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
    /// The shim does not support the requested stream.
    #[error("standard stream {uri:?}: {what}")]
    Uri {
        /// The requested URI.
        uri: String,
        /// The reason.
        what: &'static str,
    },
    /// A logger could not be started.
    #[error("logger {path}: {what}")]
    Logger {
        /// The path of the logger's program.
        path: String,
        /// The reason.
        what: &'static str,
    },
}
