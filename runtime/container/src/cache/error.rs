//! Errors of the cache.

use alloc::string::String;
use core::fmt;

/// An error of the cache. A start that encounters one continues without the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// The caller is not root, and only root can create a cache.
    NotRoot,
    /// The directory at this path does not belong to root, or its mode is not 0700.
    Foreign(String),
    /// The caller is not root, and only root can clear the cache at this path.
    OfRoot(String),
    /// Another process is changing the cache's mounts.
    Busy,
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
            Self::NotRoot => f.write_str("no cache: only root has one"),
            Self::Foreign(path) => {
                write!(f, "cache {path} is not used: it must belong to root with mode 0700")
            }
            Self::OfRoot(path) => write!(
                f,
                "{path} is the cache of the host's root: starts by other users make and use no cache, so there is \
                 none to clear; run this command as root to clear root's"
            ),
            Self::Busy => f.write_str("another process is just making it"),
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
