//! Taking the cache away.

use alloc::format;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FlockOperation, flock, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use sys::Context;

use crate::directory::{open_directory, proc_path};
use crate::entries::names;
use crate::{Cache, Error, filter, mounts};

/// How often a start that adds something at the same time may spoil the removal.
const TRIES: u32 = 100;

impl Cache {
    /// Removes everything the cache holds, its mounts and its directory. Waits for whoever is making
    /// mounts; starts that have something open keep it, and later ones make a new cache.
    ///
    /// Mounts in other mount namespaces go with the directory they lie on.
    ///
    /// # Errors
    /// As [`Cache::open`]; ENOTEMPTY if something else was put there.
    pub fn clear(path: &str) -> Result<(), Error> {
        let directory = match open_directory(CWD, path) {
            Err(Errno::NOENT) => return Ok(()),
            result => result.context("open", path)?,
        };
        let cache = Self::verify(directory, path)?;
        flock(cache.fd(), FlockOperation::LockExclusive).context("flock", path)?;
        for _ in 0..TRIES {
            match cache.remove().and_then(|()| unlinkat(CWD, path, AtFlags::REMOVEDIR)) {
                Err(Errno::NOTEMPTY) => {}
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(sys::Error::new("remove", path, errno).into()),
            }
        }
        Err(sys::Error::new("remove", path, Errno::NOTEMPTY).into())
    }

    fn remove(&self) -> Result<(), Errno> {
        let target = format!("{}/{}", proc_path(self.fd()), mounts::DIRECTORY);
        // Everything mounted in it goes at the same time. EINVAL: not, or no longer, a mount.
        while unmount(target.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {}
        empty(self.fd(), filter::DIRECTORY)?;
        for directory in [filter::DIRECTORY, mounts::DIRECTORY] {
            match unlinkat(self.fd(), directory, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Removes the files of a directory.
fn empty(cache: BorrowedFd<'_>, directory: &str) -> Result<(), Errno> {
    let directory = match open_directory(cache, directory) {
        Err(Errno::NOENT) => return Ok(()),
        result => result?,
    };
    for name in names(directory.as_fd())? {
        match unlinkat(&directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
