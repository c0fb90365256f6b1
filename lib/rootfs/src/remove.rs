//! Removal of directory trees, and of mounts that a killed assembly left in them.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode as Permissions, OFlags, RawDir, chmodat, fchmod, mkdirat, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use sys::Context;

/// The maximum number of open directories while a tree is removed. Directories at a greater depth are first moved up.
const DEEPEST: usize = 64;
/// The directory at the top of the tree to which directories at a greater depth are moved.
const DEEPER: &CStr = c".dayfly-deeper";

/// Removes a directory tree without following links or crossing mounts. Directories that their owner may not write to
/// are removed too. It is not an error if the directory does not exist.
///
/// # Errors
/// EBUSY for a mount below the directory; EXDEV.
pub fn remove_all(directory: &CStr) -> Result<(), sys::Error> {
    let object = || directory.to_string_lossy();
    match unlinkat(CWD, directory, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        Err(Errno::NOTDIR) => {
            return unlinkat(CWD, directory, AtFlags::empty()).context("unlink", object());
        }
        Err(errno) => return Err(sys::Error::new("rmdir", object(), errno)),
    }
    let top = open_to_empty(CWD.as_fd(), directory).context("open", object())?;
    empty(top.as_fd()).context("remove", object())?;
    unlinkat(CWD, directory, AtFlags::REMOVEDIR).context("rmdir", object())
}

/// Removes a file or a directory tree.
pub(crate) fn remove_at(directory: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match unlink(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // Some filesystems fail with EPERM for a directory.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    empty(open_to_empty(directory, name)?.as_fd())?;
    unlink(directory, name, AtFlags::REMOVEDIR)
}

/// Calls unlinkat(2); if that fails with EACCES, makes the directory writable and tries again.
fn unlink(directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(directory, name, flags) {
        Err(Errno::ACCESS) => {
            fchmod(directory, Permissions::RWXU)?;
            unlinkat(directory, name, flags)
        }
        result => result,
    }
}

/// Opens a directory; if that fails with EACCES, makes the directory readable for its owner and tries again.
fn open_to_empty(at: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    match open_directory(at, name) {
        Err(Errno::ACCESS) => {
            chmodat(at, name, Permissions::RWXU, AtFlags::empty())?;
            open_directory(at, name)
        }
        result => result,
    }
}

/// Removes all entries of a directory.
///
/// # Errors
/// As [`remove_all`].
pub fn empty(top: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut brought_up = 0;
    empty_from(top, top, &mut brought_up)?;
    while let Ok(deeper) = open_directory(top, DEEPER) {
        empty_from(deeper.as_fd(), top, &mut brought_up)?;
        match unlinkat(top, DEEPER, AtFlags::REMOVEDIR) {
            // While entries were removed, directories from a greater depth were moved up to here.
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A directory whose entries are being removed.
struct Level {
    directory: OwnedFd,
    name: CString,
    left: Vec<CString>,
}

impl Level {
    fn open(at: BorrowedFd<'_>, name: &CStr) -> Result<Self, Errno> {
        let directory = open_to_empty(at, name)?;
        let left = names(directory.as_fd())?;
        Ok(Self { directory, name: name.into(), left })
    }
}

/// Removes the entries of `start`, depth first. Directories at too great a depth are moved to `top`.
fn empty_from(
    start: BorrowedFd<'_>,
    top: BorrowedFd<'_>,
    brought_up: &mut u32,
) -> Result<(), Errno> {
    let mut levels = Vec::from([Level::open(start, c".")?]);
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            let done = levels.pop();
            if let (Some(done), Some(above)) = (done, levels.last()) {
                unlink(above.directory.as_fd(), &done.name, AtFlags::REMOVEDIR)?;
            }
            continue;
        };
        if name.as_c_str() == DEEPER {
            continue;
        }
        let directory = level.directory.as_fd();
        match unlink(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        match unlink(directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let depth = levels.len();
        let Some(level) = levels.last() else { break };
        if depth < DEEPEST {
            let next = Level::open(level.directory.as_fd(), &name)?;
            levels.push(next);
        } else {
            bring_up(level.directory.as_fd(), &name, top, *brought_up)?;
            *brought_up += 1;
        }
    }
    Ok(())
}

/// Moves a directory up, into the directory [`DEEPER`] at the top of the tree.
fn bring_up(
    directory: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    number: u32,
) -> Result<(), Errno> {
    match mkdirat(top, DEEPER, Permissions::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let deeper = open_directory(top, DEEPER)?;
    let place = format!("{number}");
    match renameat(directory, name, &deeper, place.as_str()) {
        Err(Errno::ACCESS) => {
            chmodat(directory, name, Permissions::RWXU, AtFlags::empty())?;
            renameat(directory, name, &deeper, place.as_str())
        }
        result => result,
    }
}

/// Returns the names of the entries of a directory.
pub(crate) fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 8192];
    let mut entries = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().into());
        }
    }
    Ok(names)
}

pub(crate) fn open_directory(at: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Permissions::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_goes_with_all_its_kinds() {
        let top = std::env::temp_dir().join(format!("dayfly-remove-{}", std::process::id()));
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", top.join("a/link")).unwrap();
        let mut deep = top.join("deep");
        for _ in 0..200 {
            deep = deep.join("d");
        }
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("end"), "x").unwrap();
        // Modes that do not let an unprivileged owner read or write the directory.
        for (name, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o100)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(top.join(name), mode).unwrap();
        }
        let path = CString::new(top.to_str().unwrap()).unwrap();
        remove_all(&path).unwrap();
        assert!(!top.exists());
        fs::write(&top, "x").unwrap();
        remove_all(&path).unwrap();
        assert!(!top.exists());
        assert!(std::path::Path::new("/etc").exists());
        remove_all(&path).unwrap();
    }
}
