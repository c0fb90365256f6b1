//! Removal of the cache.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FlockOperation, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sys::Context;

use crate::Unless as _;
use crate::cache::directory::{open_directory, proc_path};
use crate::cache::entries::names;
use crate::cache::{Cache, Error, filter, mounts};
use crate::directory::remove_directory;

/// The maximum number of attempts. More than one is needed if concurrent starts add entries.
const TRIES: u32 = 100;
/// The time to wait for a start that uses the cache.
const PATIENCE: Duration = Duration::from_secs(10);

impl Cache {
    /// Removes the cache's entries, mounts and directory. Waits for processes that are creating mounts. Starts in
    /// progress keep their open entries; later starts create a new cache.
    ///
    /// The cache's mounts in other mount namespaces vanish when the directory that they are mounted on is removed.
    ///
    /// # Errors
    /// [`Error::OfRoot`] and [`Error::Foreign`]; [`Error::System`], for example ENOTEMPTY if the cache contains other
    /// files.
    pub fn clear(path: &str) -> Result<(), Error> {
        let directory = match open_directory(CWD, path) {
            Err(Errno::NOENT) => return Ok(()),
            // Root of a user namespace is refused here, too.
            Err(Errno::ACCESS) => return Err(Error::OfRoot(String::from(path))),
            result => result.context("open", path)?,
        };
        if !rustix::process::geteuid().is_root() {
            return Err(Error::OfRoot(String::from(path)));
        }
        let cache = Self::verify(directory, path)?;
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        sys::wait::lock(cache.fd(), exclusive, PATIENCE).context("flock", path)?;
        for _ in 0..TRIES {
            match cache.remove().and_then(|()| remove_directory(CWD, path)) {
                Err(Errno::NOTEMPTY) => {}
                result => return Ok(result.context("remove", path)?),
            }
        }
        Err(sys::Error::new("remove", path, Errno::NOTEMPTY).into())
    }

    fn remove(&self) -> Result<(), Errno> {
        let target = format!("{}/{}", proc_path(self.fd()), mounts::DIRECTORY);
        // MNT_DETACH also detaches the mounts below this mount. The loop ends with EINVAL when nothing is mounted on
        // `target`.
        while unmount(target.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {}
        empty(self.fd(), filter::DIRECTORY)?;
        for directory in [filter::DIRECTORY, mounts::DIRECTORY] {
            remove_directory(self.fd(), directory)?;
        }
        Ok(())
    }
}

/// Removes the files of a directory.
fn empty(cache: BorrowedFd<'_>, directory: &str) -> Result<(), Errno> {
    let Some(directory) = open_directory(cache, directory).unless(Errno::NOENT)? else {
        return Ok(());
    };
    for name in names(directory.as_fd())? {
        unlinkat(&directory, &name, AtFlags::empty()).unless(Errno::NOENT)?;
    }
    Ok(())
}
