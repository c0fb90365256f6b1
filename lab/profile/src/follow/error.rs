//! Errors of following a command.

use rustix::io::Errno;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why a command could not be followed to its end.
#[derive(Debug)]
pub enum Error {
    /// A string for the command contains a NUL byte.
    Nul(std::ffi::NulError),
    /// The program could not be executed.
    NotExecuted {
        /// The program.
        program: PathBuf,
        /// The errno.
        errno: Errno,
    },
    /// The command, or a process that the command left running, did not end before the deadline and
    /// was killed.
    Deadline {
        /// The program.
        program: PathBuf,
        /// The timeout.
        after: Duration,
    },
    /// A system call failed.
    System(sys::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nul(error) => write!(f, "argument or variable: {error}"),
            Self::NotExecuted { program, errno } => {
                write!(f, "execute {}: {}", program.display(), sys::errno::describe(*errno))
            }
            Self::Deadline { program, after } => {
                write!(f, "{} did not end within {after:?} and was killed", program.display())
            }
            Self::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}

impl From<std::ffi::NulError> for Error {
    fn from(error: std::ffi::NulError) -> Self {
        Self::Nul(error)
    }
}
