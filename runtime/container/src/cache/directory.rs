//! The cache's directory.

use alloc::format;
use alloc::string::String;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;
use sys::Context;

use crate::Unless as _;
use crate::cache::Error;

/// The default path of a host's cache.
pub const DEFAULT_PATH: &str = "/run/dayfly-cache";

/// The host's opened cache.
#[derive(Debug)]
pub struct Cache {
    directory: OwnedFd,
}

impl Cache {
    /// Opens the cache at an absolute path, and creates it if it is missing. Opening an existing cache takes two system
    /// calls.
    ///
    /// # Errors
    /// [`Error::NotRoot`] and [`Error::Foreign`]; [`Error::System`], for example if `/run` is read-only.
    pub fn open(path: &str) -> Result<Self, Error> {
        let directory = match open_directory(CWD, path) {
            Err(Errno::NOENT) => make(path)?,
            result => result.context("open", path)?,
        };
        Self::verify(directory, path)
    }

    /// Returns the cache in `directory`, if the directory belongs to root and has mode 0700.
    pub(crate) fn verify(directory: OwnedFd, path: &str) -> Result<Self, Error> {
        let stat = fstat(&directory).context("stat", path)?;
        if !is_ours(&stat, FileType::Directory, Mode::RWXU) {
            return Err(Error::Foreign(String::from(path)));
        }
        Ok(Self { directory })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Returns whether `stat` describes a file with this type and exactly this mode that belongs to root.
pub(crate) fn is_ours(stat: &Stat, file_type: FileType, mode: Mode) -> bool {
    stat.st_uid == 0
        && FileType::from_raw_mode(stat.st_mode) == file_type
        && Mode::from_raw_mode(stat.st_mode) == mode
}

/// Returns a path for `fd`, for calls that accept only a path.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Opens a directory, and creates it if missing.
pub(crate) fn subdirectory(at: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    mkdirat(at, name, Mode::RWXU).unless(Errno::EXIST)?;
    open_directory(at, name)
}

/// Opens a directory without following a link.
pub(crate) fn open_directory(at: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Creates the cache's directory. Another process may create it at the same time.
fn make(path: &str) -> Result<OwnedFd, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let made = mkdirat(CWD, path, Mode::RWXU).unless(Errno::EXIST).context("mkdir", path)?;
    let directory = open_directory(CWD, path).context("open", path)?;
    if made.is_some() {
        // The umask may have removed mode bits.
        fchmod(&directory, Mode::RWXU).context("chmod", path)?;
    }
    Ok(directory)
}
