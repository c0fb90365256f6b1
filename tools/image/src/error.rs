//! Errors of the program.

use report::interrupt::Interrupted;
use std::ffi::CString;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The reason why a command failed. Unfinished objects of the command have been removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call or a read failed.
    #[error("{op} {object}: {}", described(cause))]
    System {
        /// The operation, such as `"write"`.
        op: &'static str,
        /// The object of the operation, usually a path.
        object: String,
        /// The reason.
        cause: io::Error,
    },
    /// An entry depends on this path in the layers below, which are not available yet.
    #[error("{0:?} is neither in the layer nor in those below it")]
    NeedsBelow(String),
    /// Entries of the archive replace earlier ones, so file contents must be kept in the record's frame file
    /// (`Way::Frame`).
    #[error("entries take the place of others")]
    NeedsFrame,
    /// The layer needs a zstd window longer than the window that every decoder should support.
    #[error("it wants a long window of zstd")]
    NeedsWindow,
    /// No image has this name; the text lists similar ones.
    #[error("{0}")]
    NoImage(String),
    /// The directory contains no store.
    #[error("no image store at {}: \"dayfly image import\" and \"dayfly image pull\" make one", .0.display())]
    NoStore(PathBuf),
    /// Something is missing, invalid or malicious; the text says what to do.
    #[error("{0}")]
    Unfit(String),
    /// The command was interrupted by SIGINT, SIGTERM or SIGHUP, or the unpacking of another layer has failed.
    #[error("interrupted")]
    Interrupted,
}

/// The result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns an [`Error::Unfit`] with a formatted text.
macro_rules! unfit {
    ($($text:tt)*) => { $crate::error::Error::Unfit(format!($($text)*)) };
}

/// Ends the function with an [`Error::Unfit`].
macro_rules! bail {
    ($($text:tt)*) => { return Err($crate::error::unfit!($($text)*)) };
}

/// Ends the function with an [`Error::Unfit`] unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)*) => { if !$condition { $crate::error::bail!($($text)*) } };
}

pub(crate) use {bail, ensure, unfit};

impl Error {
    /// Returns a function that makes the error of `op` on `path`.
    pub fn at<E: Into<io::Error>>(
        op: &'static str,
        path: impl AsRef<Path>,
    ) -> impl FnOnce(E) -> Self {
        let object = path.as_ref().display().to_string();
        move |cause| Self::System { op, object, cause: cause.into() }
    }

    /// Returns the error of a malicious entry of a layer.
    pub fn hostile(entry: impl AsRef<Path>, reason: &str) -> Self {
        let entry = entry.as_ref().to_string_lossy();
        unfit!("entry {entry:?} is refused: {reason}")
    }

    /// Adds the layer that the error concerns.
    pub fn of_layer(self, blob: impl Display) -> Self {
        match self {
            Self::Interrupted => self,
            cause => unfit!("layer {blob}: {cause}"),
        }
    }
}

/// Returns the text of an error of the system in the words of `dayfly run`, without Rust's number.
fn described(cause: &io::Error) -> String {
    let text = cause.to_string();
    match text.rsplit_once(" (os error ") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

impl From<Interrupted> for Error {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

impl From<rootfs::Error> for Error {
    fn from(error: rootfs::Error) -> Self {
        match error {
            rootfs::Error::NoImage { .. } => Self::NoImage(error.to_string()),
            error => Self::Unfit(error.to_string()),
        }
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}

/// Returns `None` instead of the error of something that does not exist.
///
/// # Errors
/// Any other error.
pub fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result.as_ref().map_err(io::Error::kind) {
        Err(ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        _ => result.map(Some),
    }
}

/// Returns the path as a C string.
///
/// # Errors
/// The path has a zero byte.
pub fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(Error::at("find", path))
}

/// Prints a warning to standard error.
pub fn warn(sentence: &str) {
    eprintln!("warning: {}", printable(sentence));
}

/// Escapes control characters, which names from an archive may contain, for a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
