//! Unfinished things, which vanish with their maker.

use super::Store;
use crate::error::{Error, Result};
use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, RenameFlags, chmod, flock, fstat, mkdir, open,
    renameat_with, stat,
};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory in `work`, removed when dropped. Who finds it without its lock removes it as well.
#[derive(Debug)]
pub struct Work {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Work {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed now is when the next command sweeps.
        let _ = remove_tree(&self.path);
    }
}

impl Store {
    /// A new directory for something unfinished.
    ///
    /// # Errors
    /// Those of making it.
    pub fn work(&self) -> Result<Work> {
        loop {
            let path = self.path("work", &random_name()?);
            mkdir(&path, Mode::RWXU).map_err(Error::errno("make", &path))?;
            // A sweeper may have seen it before it was locked.
            let Ok(lock) = open(&path, DIRECTORY, Mode::empty()) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            if fstat(&lock).is_ok_and(|stat| stat.st_nlink > 0) && path.exists() {
                return Ok(Work { path, _lock: lock });
            }
        }
    }

    /// Removes what nobody holds any more.
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

fn random_name() -> Result<String> {
    let mut bytes = [0u8; 12];
    let object = "a name";
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(Error::errno("draw", object))?;
    Ok(bytes.iter().take(count).map(|byte| format!("{byte:02x}")).collect())
}

/// Removes a tree, also one whose directories its owner may not write.
///
/// # Errors
/// Those of removing; that it is gone already is none.
pub fn remove_tree(path: &Path) -> Result<()> {
    let c_path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    rootfs::remove_all(&c_path).map_err(|error| Error::errno("remove", path)(error.errno))
}

/// Renames a directory, but not over one that is there: then says so by `false`.
///
/// # Errors
/// Those of renameat2(2).
pub fn rename_new(from: &Path, to: &Path) -> Result<bool> {
    match rename(from, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(false),
        Err(errno) => Err(Error::errno("rename to", to)(errno)),
    }
}

/// Renames a directory; one that is there takes its place.
///
/// # Errors
/// Those of renameat2(2).
pub fn replace(from: &Path, to: &Path) -> Result<()> {
    if !rename_new(from, to)? {
        rename(from, to, RenameFlags::EXCHANGE).map_err(Error::errno("rename to", to))?;
    }
    Ok(())
}

/// Renames a directory. Its owner must be allowed to write it, since it gets another parent: a layer's root
/// need not be like that.
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
