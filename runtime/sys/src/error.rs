//! The error of a failed system call: operation, object, errno.
//!
//! `Display` of dayfly's errors includes the texts of their causes, because engines and users read one line. `source()`
//! returns the cause as well, for programs that look for a type; a variant that wraps an error always returns it. The
//! Rust API guidelines ask for one of the two, so print an error by `Display` alone. Errno ends the chain: rustix's
//! type is an `Error` only with std.

use alloc_crate::string::String;
use core::fmt;
use rustix::io::Errno;

/// A system call that failed: the operation, its object and the errno.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The operation as a man page names it, such as `"mkdir"` or `"clone3"`.
    pub op: &'static str,
    /// The object of the operation: a path, an id, a mount target; empty if there is none.
    pub object: String,
    /// The errno.
    pub errno: Errno,
}

impl Error {
    /// Returns an error of `op` on `object`.
    pub fn new(op: &'static str, object: impl Into<String>, errno: Errno) -> Self {
        Self { op, object: object.into(), errno }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if !self.object.is_empty() {
            write!(f, " {}", self.object)?;
        }
        write!(f, ": {}", crate::refusal::describe(self.op, self.errno))
    }
}

impl core::error::Error for Error {}

/// Adds the operation and its object to an errno.
pub trait Context<T> {
    /// Turns an errno into an [`Error`]; `object` is formatted only on failure.
    fn context(self, op: &'static str, object: impl fmt::Display) -> Result<T, Error>;
}

impl<T> Context<T> for Result<T, Errno> {
    fn context(self, op: &'static str, object: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|errno| Error::new(op, alloc_crate::format!("{object}"), errno))
    }
}
