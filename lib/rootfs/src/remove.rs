//! Removal of directory trees, and of mounts that a killed assembly left in them.

use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode as Permissions, OFlags, RawDir, chmod, fchmod, mkdirat, openat, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;
use sys::Context;

/// The maximum number of open directories while a tree is removed. Directories at a greater depth are first moved up.
const DEEPEST: usize = 64;

/// Removes a directory tree without following links or crossing mounts. Directories that their owner may not write to
/// are removed too. It is not an error if the directory does not exist.
///
/// # Errors
/// EBUSY for a mount below the directory.
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
            permit(at, name)?;
            open_directory(at, name)
        }
        result => result,
    }
}

/// Gives the owner of a directory all permissions on it. Never follows a link, which a process of a container may put
/// in the place of the directory: chmod(2) is given the directory that was opened, not its name.
fn permit(at: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(at, name, flags, Permissions::empty())?;
    // fchmod(2) does not accept descriptors that were opened with O_PATH.
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    match chmod(path.as_str(), Permissions::RWXU) {
        Err(Errno::NOENT) => Err(Errno::ACCESS),
        result => result,
    }
}

/// Removes all entries of a directory.
///
/// # Errors
/// As [`remove_all`].
pub fn empty(top: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut moved = Vec::new();
    empty_from(Level::open(top, c".")?, top, &mut moved)?;
    // While such a directory is emptied, directories from a greater depth in it may be moved up.
    while let Some(name) = moved.pop() {
        empty_from(Level::open(top, &name)?, top, &mut moved)?;
        unlink(top, &name, AtFlags::REMOVEDIR)?;
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

/// Removes the entries of `start`, depth first. Directories at too great a depth are moved to `top`, and their new names
/// are added to `moved`.
fn empty_from(start: Level, top: BorrowedFd<'_>, moved: &mut Vec<CString>) -> Result<(), Errno> {
    let mut levels = Vec::from([start]);
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.left.pop() else {
            let done = levels.pop();
            if let (Some(done), Some(above)) = (done, levels.last()) {
                unlink(above.directory.as_fd(), &done.name, AtFlags::REMOVEDIR)?;
            }
            continue;
        };
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
        let directory = level.directory.as_fd();
        if depth >= DEEPEST && move_up(directory, &name, top, moved)? {
            continue;
        }
        match Level::open(directory, &name) {
            Ok(next) => levels.push(next),
            // The caller allows few open files.
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => {
                if depth == 1 || !move_up(directory, &name, top, moved)? {
                    return Err(errno);
                }
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Moves a directory to the top of the tree, under a new name. The name is random: the tree was written by a container,
/// so that any other name may be in use there. Returns false if the directory cannot be moved because it is on an
/// overlay that does not rename the directories of lower layers.
fn move_up(
    directory: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    moved: &mut Vec<CString>,
) -> Result<bool, Errno> {
    loop {
        let mut number = [0; 16];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let new = format!("{:032x}\0", u128::from_ne_bytes(number));
        let new = CString::from_vec_with_nul(new.into_bytes()).map_err(|_| Errno::INVAL)?;
        let renamed = match renameat(directory, name, top, &new) {
            Err(Errno::ACCESS) => {
                permit(directory, name)?;
                fchmod(directory, Permissions::RWXU)?;
                fchmod(top, Permissions::RWXU)?;
                renameat(directory, name, top, &new)
            }
            result => result,
        };
        match renamed {
            Ok(()) => {
                moved.push(new);
                return Ok(true);
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            Err(Errno::XDEV) => return Ok(false),
            Err(errno) => return Err(errno),
        }
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

/// Makes a directory, unless it is there already.
pub(crate) fn make_directory(
    at: impl AsFd,
    path: impl Arg,
    mode: Permissions,
) -> Result<(), Errno> {
    match mkdirat(at, path, mode) {
        Err(Errno::EXIST) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::{Path, PathBuf};

    fn top_of(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("dayfly-remove-{test}-{}", std::process::id()))
    }

    fn remove(top: &Path) {
        remove_all(&CString::new(top.to_str().unwrap()).unwrap()).unwrap();
        assert!(!top.exists(), "{}", top.display());
    }

    /// Makes directories one in another; returns the path of the last one.
    fn descend(top: &Path, depth: usize) -> PathBuf {
        let deep = (0..depth).fold(top.to_owned(), |path, _| path.join("d"));
        fs::create_dir_all(&deep).unwrap();
        deep
    }

    #[test]
    fn a_tree_goes_with_all_its_kinds() {
        let top = top_of("kinds");
        fs::create_dir_all(top.join("a/b/c")).unwrap();
        fs::write(top.join("a/b/file"), "x").unwrap();
        symlink("/etc", top.join("a/link")).unwrap();
        fs::write(descend(&top.join("deep"), 200).join("end"), "x").unwrap();
        // Modes that do not let an unprivileged owner read or write the directory.
        for (name, mode) in [("a/b/c", 0o000), ("a/b", 0o500), ("a", 0o100)] {
            fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        remove(&top);
        fs::write(&top, "x").unwrap();
        remove(&top);
        assert!(Path::new("/etc").exists());
        remove(&top);
    }

    #[test]
    fn a_wide_and_deep_tree_goes() {
        let top = top_of("wide");
        for branch in ["a", "b", "c"] {
            let deep = descend(&top.join(branch), 150);
            for other in ["x", "y"] {
                fs::write(descend(&deep.join(other), 100).join("file"), "x").unwrap();
            }
        }
        remove(&top);
    }

    #[test]
    fn permissions_are_not_given_through_a_link() {
        let top = top_of("link");
        fs::create_dir_all(top.join("target")).unwrap();
        fs::set_permissions(top.join("target"), fs::Permissions::from_mode(0o500)).unwrap();
        symlink("target", top.join("link")).unwrap();
        let directory = rustix::fs::open(&top, OFlags::PATH, Permissions::empty()).unwrap();
        let refused = permit(directory.as_fd(), c"link");
        assert!(matches!(refused, Err(Errno::NOTDIR | Errno::LOOP)), "{refused:?}");
        let mode = || fs::metadata(top.join("target")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o500);
        permit(directory.as_fd(), c"target").unwrap();
        assert_eq!(mode(), 0o700);
        remove(&top);
    }
}
