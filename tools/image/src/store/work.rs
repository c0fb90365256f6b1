//! Unfinished objects, which are removed when their creator ends.
//!
//! The directory of an unfinished object is locked. A command that opens the store first removes those that nobody has
//! locked.

use super::Store;
use crate::error::{Error, Result, c_path};
use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, RenameFlags, chmod, flock, fstat, mkdir, open,
    renameat_with, stat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory in `work`, removed when dropped. Other commands also remove it, once its lock is free.
#[derive(Debug)]
pub struct Work {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Work {
    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed by the next command's sweep.
        let _ = remove_tree(&self.path);
    }
}

impl Store {
    /// Creates a directory for an unfinished object.
    ///
    /// # Errors
    /// Those of creating the directory.
    pub fn work(&self) -> Result<Work> {
        loop {
            let mut name = [0; 16];
            getrandom(&mut name, GetRandomFlags::empty()).map_err(Error::at("draw", "a name"))?;
            let path = self.path("work", &format!("{:032x}", u128::from_ne_bytes(name)));
            mkdir(&path, Mode::RWXU).map_err(Error::at("make", &path))?;
            // Another command's sweep may have removed the directory before it was locked.
            let Ok(lock) = open(&path, DIRECTORY, Mode::empty()) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            if fstat(&lock).is_ok_and(|stat| stat.st_nlink > 0) && path.exists() {
                return Ok(Work { path, _lock: lock });
            }
        }
    }

    /// Removes the unfinished objects of commands that have ended: those whose lock is free.
    pub(super) fn sweep(&self) -> Result<()> {
        let work = self.root.join("work");
        for entry in fs::read_dir(&work).map_err(Error::at("read", &work))? {
            let path = entry.map_err(Error::at("read", &work))?.path();
            let Ok(lock) = open(&path, DIRECTORY, Mode::empty()) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_tree(&path)?;
            }
        }
        Ok(())
    }
}

/// Removes a tree, including directories that their owner may not write.
///
/// # Errors
/// Those of removing; a missing tree is not an error.
pub fn remove_tree(path: &Path) -> Result<()> {
    Ok(rootfs::remove_all(&c_path(path)?)?)
}

/// Renames a directory without replacing an existing one; returns false if there is one.
///
/// # Errors
/// Those of renameat2(2).
pub fn rename_new(from: &Path, to: &Path) -> Result<bool> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(errno) => Err(Error::at("rename to", to)(errno)),
    }
}

/// Renames a directory, exchanging it with an existing one.
///
/// # Errors
/// Those of renameat2(2).
pub fn replace(from: &Path, to: &Path) -> Result<()> {
    if !rename_new(from, to)? {
        rename(from, to, RenameFlags::EXCHANGE).map_err(Error::at("rename to", to))?;
    }
    Ok(())
}

/// Renames a directory. The rename changes the directory's `..`, so the directory is made writable for its owner
/// meanwhile: a layer's root may be read-only.
///
/// # Errors
/// Those of renameat2(2).
pub fn rename(from: &Path, to: &Path, flags: RenameFlags) -> rustix::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, flags) {
        Err(Errno::ACCESS) => {
            let mode = Mode::from_raw_mode(stat(from)?.st_mode & 0o7777);
            chmod(from, mode | Mode::RWXU)?;
            let result = renameat_with(CWD, from, CWD, to, flags);
            chmod(if result.is_ok() { to } else { from }, mode)?;
            result
        }
        result => result,
    }
}
