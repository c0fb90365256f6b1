//! Errors of the tools, with advice.

use crate::interrupt::Interrupted;
use std::fmt;
use std::io;
use std::path::Path;

/// The error of a tool: the operation, its object, the cause, and what the user can do.
#[derive(Debug)]
pub struct Error {
    /// The value is boxed to keep `Result`s small, because errors are rare.
    what: Box<What>,
    advice: Option<String>,
    origin: Option<String>,
}

#[derive(Debug)]
enum What {
    /// An operation failed.
    System { op: &'static str, object: String, cause: io::Error },
    /// A line of a file is invalid.
    At { file: String, line: usize, reason: String },
    /// Any other error, as a sentence.
    Refused(String),
    /// An error of another crate, whose message is complete. That of a [`sys::Error`] has an errno.
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns an error for the failed operation `op` on `object`.
    pub fn system(
        op: &'static str,
        object: impl fmt::Display,
        cause: impl Into<io::Error>,
    ) -> Self {
        What::System { op, object: object.to_string(), cause: cause.into() }.into()
    }

    /// Returns a function for `map_err`, which converts a cause to an error of the operation `op`
    /// on `path`.
    pub fn of<E: Into<io::Error>>(op: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |cause| Self::system(op, path.display(), cause)
    }

    /// Returns the error of an invalid line of a file; lines are counted from 1.
    pub fn at(file: impl Into<String>, line: usize, reason: impl Into<String>) -> Self {
        What::At { file: file.into(), line, reason: reason.into() }.into()
    }

    /// Returns an error for a request that is impossible or was refused; `reason` is a sentence.
    pub fn refused(reason: impl Into<String>) -> Self {
        What::Refused(reason.into()).into()
    }

    /// Returns the error of another crate, whose message is complete. [`Error::errno`] returns `None` for such an
    /// error, unless it is a [`sys::Error`].
    pub fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        What::Other(Box::new(error)).into()
    }

    /// Adds advice for the user to the error.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Adds advice, if there is any.
    #[must_use]
    pub fn advised(self, advice: Option<&str>) -> Self {
        Self { advice: advice.map(str::to_owned).or(self.advice), ..self }
    }

    /// Adds the place where the request was made, as `FILE:LINE`.
    #[must_use]
    pub fn sourced(self, origin: impl fmt::Display) -> Self {
        Self { origin: Some(origin.to_string()), ..self }
    }

    /// Returns the errno of the cause, if it has one.
    pub fn errno(&self) -> Option<rustix::io::Errno> {
        match &*self.what {
            What::System { cause, .. } => rustix::io::Errno::from_io_error(cause),
            What::Other(error) => error.downcast_ref().map(|error: &sys::Error| error.errno),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        match &*self.what {
            What::System { op, object, cause } => match rustix::io::Errno::from_io_error(cause) {
                Some(errno) => write!(f, "{op} {object}: {}", sys::errno::describe(errno))?,
                None => write!(f, "{op} {object}: {cause}")?,
            },
            What::At { file, line, reason } => write!(f, "{file}:{line}: {reason}")?,
            What::Refused(reason) => f.write_str(reason)?,
            What::Other(error) => write!(f, "{error}")?,
        }
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.what {
            What::System { cause, .. } => Some(cause),
            What::Other(error) => Some(&**error),
            What::At { .. } | What::Refused(_) => None,
        }
    }
}

impl From<What> for Error {
    fn from(what: What) -> Self {
        Self { what: Box::new(what), advice: None, origin: None }
    }
}

/// A reason, which is a sentence.
impl From<String> for Error {
    fn from(reason: String) -> Self {
        Self::refused(reason)
    }
}

#[cfg(feature = "topology")]
impl From<topology::pin::PinError> for Error {
    fn from(error: topology::pin::PinError) -> Self {
        Self::other(error)
    }
}

#[cfg(feature = "topology")]
impl From<topology::Error> for Error {
    fn from(error: topology::Error) -> Self {
        match error {
            topology::Error::System(error) => error.into(),
            other => Self::other(other),
        }
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::other(error)
    }
}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        Self::refused(interrupted.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn the_cause_is_found_behind_place_and_advice() {
        let cause = io::Error::from(io::ErrorKind::NotFound);
        let error = Error::system("open", "/a", cause).sourced("plan:3").advise("make it");
        assert_eq!(error.to_string(), "plan:3: open /a: entity not found; make it");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::NotFound));
        let kernel = sys::Error::new("mkdir", "/b", sys::Errno::EXIST);
        let error = Error::from(kernel.clone());
        assert_eq!(error.source().and_then(|cause| cause.downcast_ref()), Some(&kernel));
        assert!(Error::refused("no").source().is_none());
    }

    #[test]
    fn an_error_of_another_crate_keeps_its_type_and_text() {
        let not_utf8 = String::from_utf8(vec![0xff]).unwrap_err();
        let error = Error::other(not_utf8.clone());
        assert_eq!(error.to_string(), not_utf8.to_string());
        assert_eq!(error.source().and_then(|cause| cause.downcast_ref()), Some(&not_utf8));
    }
}
