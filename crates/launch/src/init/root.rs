//! The container's root, by descriptor: every path of a configuration is resolved inside it.
//!
//! After the root is open, no path string reaches the kernel but through here (DESIGN §9.1): openat2(2)
//! with RESOLVE_IN_ROOT keeps symbolic links of a hostile image inside, and missing directories are
//! made one by one below descriptors (CVE-2021-30465, CVE-2024-45310, CVE-2026-41579).

use core::ffi::CStr;
use core::mem::MaybeUninit;

use plan::step::Target;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use sys::defence::{Defence, is_off};

use crate::failure::{Failure, Op};

/// PATH_MAX
const LONGEST: usize = 4096;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A directory that paths cannot leave.
pub(crate) struct Root<'a>(BorrowedFd<'a>);

impl<'a> Root<'a> {
    /// The root behind `fd`. AT_FDCWD is right where an existing container was joined: setns(2) leaves
    /// the working directory at the root of its mount namespace.
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Self {
        Self(fd)
    }

    /// Opens what `path` names inside; an empty path is the root itself.
    pub(crate) fn open(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd, Failure> {
        self.resolve(path, flags, ResolveFlags::empty()).op("openat2")
    }

    /// Opens a path, or `None` where there is nothing.
    pub(crate) fn find(&self, path: &CStr) -> Result<Option<OwnedFd>, Failure> {
        match self.resolve(path, OFlags::PATH, ResolveFlags::empty()) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(Failure::new("openat2", errno)),
        }
    }

    fn resolve(&self, path: &CStr, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { c"." } else { path };
        let flags = flags | OFlags::CLOEXEC;
        if is_off(Defence::ResolveInRoot) && resolve.is_empty() {
            return openat(self.0, path, flags, Mode::empty());
        }
        let resolve = resolve | ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // The kernel answers EAGAIN when a rename races with `..`: a hostile neighbour on a shared
        // volume can do that a few times, not for ever.
        for _ in 0..64 {
            match openat2(self.0, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens the place of a mount, made if it is missing: a directory, or a file to bind a file on.
    pub(crate) fn target(&self, target: &Target, of_directory: bool) -> Result<OwnedFd, Failure> {
        let resolve = match target.no_symlinks && !is_off(Defence::OrdinaryProc) {
            true => ResolveFlags::NO_SYMLINKS,
            false => ResolveFlags::empty(),
        };
        match self.resolve(&target.path, OFlags::PATH, resolve) {
            Err(Errno::NOENT) if of_directory => self.make_missing(&target.path),
            Err(Errno::NOENT) => self.make_file(&target.path),
            Err(Errno::LOOP) if target.no_symlinks => {
                Err(Failure::new("must be mounted on ordinary directory", Errno::LOOP))
            }
            result => result.op("openat2"),
        }
    }

    /// Opens a file to bind on, made if it is missing.
    pub(crate) fn file(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        match self.resolve(path, OFlags::PATH, ResolveFlags::empty()) {
            Err(Errno::NOENT) => self.make_file(path),
            result => result.op("openat2"),
        }
    }

    /// Opens a directory, made with its parents if it is missing.
    pub(crate) fn make_directories(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        match self.resolve(path, DIRECTORY, ResolveFlags::empty()) {
            Err(Errno::NOENT) => self.make_missing(path),
            result => result.op("openat2"),
        }
    }

    /// Makes a directory that is not there, with those of its parents that are not. Each prefix is
    /// looked up from the root, the longest first, so that links on the way mean what they mean inside;
    /// only what is missing is made, below the descriptor of its parent.
    fn make_missing(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        let mut buffer = [MaybeUninit::uninit(); LONGEST];
        let bytes = path.to_bytes();
        let mut there = bytes.len();
        let mut directory = loop {
            there = bytes
                .get(..there)
                .unwrap_or_default()
                .iter()
                .rposition(|&b| b == b'/')
                .unwrap_or(0);
            let prefix = c_prefix(&mut buffer, bytes, 0, there)?;
            match self.resolve(prefix, DIRECTORY, ResolveFlags::empty()) {
                Err(Errno::NOENT) if there > 0 => {}
                result => break result.op("openat2")?,
            }
        };
        let mut start = if there == 0 { 0 } else { there + 1 };
        for end in ends_of_names(bytes).filter(move |&end| end > there) {
            let name = c_prefix(&mut buffer, bytes, start, end)?;
            match mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(Failure::new("mkdirat", errno)),
            }
            let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = openat(&directory, name, flags, Mode::empty()).op("openat")?;
            start = end + 1;
        }
        Ok(directory)
    }

    fn make_file(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        let bytes = path.to_bytes();
        let cut = bytes.iter().rposition(|&byte| byte == b'/');
        let mut buffer = [MaybeUninit::uninit(); LONGEST];
        let parent = self.make_directories(c_prefix(&mut buffer, bytes, 0, cut.unwrap_or(0))?)?;
        let start = cut.map_or(0, |cut| cut + 1);
        let name = c_prefix(&mut buffer, bytes, start, bytes.len())?;
        let mut flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if is_off(Defence::ResolveInRoot) {
            flags = OFlags::CREATE | OFlags::CLOEXEC;
        }
        openat(&parent, name, flags, Mode::from_raw_mode(0o755)).op("openat")?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::empty()).op("openat")
    }
}

/// Where each name of a path ends.
fn ends_of_names(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain(core::iter::once(path.len())).filter(|&end| end > 0)
}

/// `path[start..end]` as a C string in `buffer`.
fn c_prefix<'b>(
    buffer: &'b mut [MaybeUninit<u8>; LONGEST],
    path: &[u8],
    start: usize,
    end: usize,
) -> Result<&'b CStr, Failure> {
    let part = path.get(start..end).unwrap_or_default();
    let too_long = Failure::new("path", Errno::NAMETOOLONG);
    let Some(room) = buffer.get_mut(..part.len() + 1) else { return Err(too_long) };
    let (text, nul) = room.split_at_mut(part.len());
    text.write_copy_of_slice(part);
    nul.write_copy_of_slice(&[0]);
    // SAFETY: both parts of it have just been written.
    let room = unsafe { room.assume_init_ref() };
    CStr::from_bytes_with_nul(room).map_err(|_| Failure::new("path", Errno::INVAL))
}

/// Whether a descriptor is a directory.
pub(crate) fn is_directory(fd: impl AsFd) -> Result<bool, Failure> {
    let stat = rustix::fs::fstat(fd).op("fstat")?;
    Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::path::{Path, PathBuf};

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("dayfly-root-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("root")).unwrap();
        dir
    }

    fn open_root(dir: &Path) -> OwnedFd {
        let path = dir.join("root");
        openat(rustix::fs::CWD, path.to_str().unwrap(), OFlags::PATH, Mode::empty()).unwrap()
    }

    fn make(dir: &Path, path: &str) -> Result<OwnedFd, Failure> {
        let fd = open_root(dir);
        Root::new(fd.as_fd()).make_directories(&CString::new(path).unwrap())
    }

    #[test]
    fn links_of_a_hostile_image_stay_inside() {
        let dir = scratch("links");
        std::os::unix::fs::symlink("/outside", dir.join("root/absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../..", dir.join("root/up")).unwrap();
        std::fs::create_dir(dir.join("root/outside")).unwrap();
        make(&dir, "absolute/a/b").unwrap();
        assert!(dir.join("root/outside/a/b").is_dir());
        make(&dir, "up/c").unwrap();
        assert!(dir.join("root/c").is_dir());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_dangling_link_is_refused_not_followed() {
        let dir = scratch("dangling");
        std::os::unix::fs::symlink("/nowhere", dir.join("root/link")).unwrap();
        assert!(make(&dir, "link/a").is_err());
        assert!(!dir.join("root/nowhere").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_and_the_root_itself_are_targets() {
        let dir = scratch("files");
        let fd = open_root(&dir);
        let root = Root::new(fd.as_fd());
        let file = Target { path: c"a/b/file".into(), no_symlinks: false };
        assert!(!is_directory(root.target(&file, false).unwrap()).unwrap());
        let top = Target { path: c"".into(), no_symlinks: false };
        assert!(is_directory(root.target(&top, true).unwrap()).unwrap());
        assert!(root.find(c"a/none").unwrap().is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
