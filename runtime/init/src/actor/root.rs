//! The container's root directory, held by a descriptor. Every path of a configuration is resolved inside this
//! directory.
//!
//! Once the root is open, path strings reach the kernel only through this module: openat2(2) with RESOLVE_IN_ROOT
//! confines symbolic links of a hostile image, and missing directories are created one by one below descriptors
//! (CVE-2021-30465, CVE-2024-45310, CVE-2026-41579). If a link of the image dangles, its target is created inside the
//! root, by the walk of `sys::inside`. An example is /etc/resolv.conf in an image that was made on a host with
//! systemd-resolved.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat_raw, symlinkat};
use rustix::io::Errno;
use sys::defence::{Defence, is_off};
use sys::inside::{self, Links};

use crate::failure::{Failure, Op};
use crate::step::{ALLOWED_IN_PROC, Target};

/// PATH_MAX
const LONGEST: usize = 4096;
const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// The mode of created directories.
pub(crate) const MADE: Mode = Mode::from_raw_mode(0o755);
/// The mode of created files, on which other files are mounted.
const MADE_FILE: Mode = Mode::from_raw_mode(0o644);

/// A directory that paths cannot leave.
pub(crate) struct Root<'a>(BorrowedFd<'a>);

/// A mount point.
pub(crate) struct Place {
    pub fd: OwnedFd,
    /// Whether the mount point existed before. If false, it has just been created.
    pub was_there: bool,
}

impl<'a> Root<'a> {
    /// Returns the root behind `fd`. After init has joined an existing container, `fd` may be
    /// AT_FDCWD: setns(2) sets the working directory to the root of the container's mount
    /// namespace.
    pub(crate) fn new(fd: BorrowedFd<'a>) -> Self {
        Self(fd)
    }

    /// Opens `path` inside the root; an empty path is the root itself.
    pub(crate) fn open(&self, path: &CStr, flags: OFlags) -> Result<OwnedFd, Failure> {
        self.resolve(path, flags, Links::Follow).op("openat2")
    }

    /// Opens a path; returns `None` if it does not exist.
    pub(crate) fn find(&self, path: &CStr) -> Result<Option<OwnedFd>, Failure> {
        match self.resolve(path, OFlags::PATH, Links::Follow) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(Failure::new("openat2", errno)),
        }
    }

    fn resolve(&self, path: &CStr, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
        if is_off(Defence::ResolveInRoot) && links == Links::Follow {
            let path = if path.is_empty() { c"." } else { path };
            return openat(self.0, path, flags | OFlags::CLOEXEC, Mode::empty());
        }
        inside::open(self.0, path, flags, links)
    }

    /// Opens a mount point, and creates it if it is missing: as a directory, or as a file if a file is to be mounted
    /// there.
    pub(crate) fn target(
        &self,
        target: &Target<'_>,
        of_directory: bool,
    ) -> Result<OwnedFd, Failure> {
        self.place(target, of_directory).map(|place| place.fd)
    }

    /// Opens a mount point like [`Root::target`], and returns whether it existed.
    pub(crate) fn place(&self, target: &Target<'_>, of_directory: bool) -> Result<Place, Failure> {
        let links = match target.no_symlinks && !is_off(Defence::OrdinaryProc) {
            true => Links::Refuse,
            false => Links::Follow,
        };
        // A path without links is the one that the plan has checked. Only a link of the image can lead elsewhere.
        let found = match self.resolve(target.path, OFlags::PATH, Links::Refuse) {
            Err(Errno::LOOP) if links == Links::Follow => {
                let found = self.resolve(target.path, OFlags::PATH, links);
                if let Ok(place) = &found {
                    self.check_procfs(place)?;
                }
                found
            }
            found => found,
        };
        let was_there = found.is_ok();
        let fd = match found {
            Err(Errno::NOENT) if of_directory => self.make_missing(target.path, links),
            Err(Errno::NOENT) => self.make_file(target.path),
            found => found.op("openat2"),
        };
        let fd = fd.map_err(|failure| match failure.errno {
            Errno::LOOP if links == Links::Refuse => {
                Failure::new("must be mounted on ordinary directory", Errno::LOOP)
            }
            _ => failure,
        })?;
        Ok(Place { fd, was_there })
    }

    /// Refuses a mount point on the container's procfs that links led to (CVE-2019-16884), except those of
    /// [`ALLOWED_IN_PROC`].
    fn check_procfs(&self, place: &OwnedFd) -> Result<(), Failure> {
        if rustix::fs::fstatfs(place).op("fstatfs")?.f_type != PROC_SUPER_MAGIC
            || is_off(Defence::ProcCovers)
        {
            return Ok(());
        }
        let number = |fd: &OwnedFd| fstat(fd).op("fstat").map(|stat| (stat.st_dev, stat.st_ino));
        let (device, inode) = number(place)?;
        match self.find(c"proc")? {
            Some(proc) if number(&proc)?.0 == device => {}
            // The procfs of another place, such as the host's.
            _ => return Ok(()),
        }
        for path in ALLOWED_IN_PROC {
            if let Some(file) = self.find(path)?
                && number(&file)? == (device, inode)
            {
                return Ok(());
            }
        }
        Err(Failure::new("cannot be mounted because it is inside /proc", Errno::PERM))
    }

    /// Opens a file that serves as a mount point, and creates it if it is missing.
    pub(crate) fn file(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        match self.resolve(path, OFlags::PATH, Links::Follow) {
            Err(Errno::NOENT) => self.make_file(path),
            result => result.op("openat2"),
        }
    }

    /// Opens the source of a bind mount inside the root. With `keep_link`, opens a symbolic link itself.
    pub(crate) fn source(&self, path: &CStr, keep_link: bool) -> Result<OwnedFd, Failure> {
        let links = if keep_link { Links::KeepLast } else { Links::Follow };
        self.resolve(path, OFlags::PATH, links).op("openat2")
    }

    /// Opens a mount point like [`Root::target`], but does not follow a final link. Fails if the mount point is on
    /// procfs, because other steps rely on the links of procfs.
    pub(crate) fn place_of_link(
        &self,
        path: &CStr,
        of_directory: bool,
    ) -> Result<OwnedFd, Failure> {
        let place = match self.resolve(path, OFlags::PATH, Links::KeepLast) {
            Err(Errno::NOENT) if of_directory => return self.make_missing(path, Links::Follow),
            Err(Errno::NOENT) => return self.make_file(path),
            place => place.op("openat2")?,
        };
        match rustix::fs::fstatfs(&place).op("fstatfs")?.f_type {
            PROC_SUPER_MAGIC => Err(Failure::new("mount on a link of procfs", Errno::XDEV)),
            _ => Ok(place),
        }
    }

    /// Creates a symbolic link and its missing parents. An existing identical link is not an error.
    // Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
    #[inline(never)]
    pub(crate) fn make_link(&self, path: &CStr, text: &CStr) -> Result<(), Failure> {
        let (parent, name) = self.parent_of(path)?;
        match symlinkat(text, &parent, name) {
            Err(Errno::EXIST) => {
                let mut there = [0; LONGEST];
                let length = readlinkat_raw(&parent, name, &mut there);
                let there = length.ok().and_then(|length| there.get(..length));
                match there == Some(text.to_bytes()) {
                    true => Ok(()),
                    false => Err(Failure::new("symlinkat", Errno::EXIST)),
                }
            }
            result => result.op("symlinkat"),
        }
    }

    /// Opens the parent directory of a path, creating missing directories, and returns the path's last component.
    // Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
    #[inline(never)]
    fn parent_of<'p>(&self, path: &'p CStr) -> Result<(OwnedFd, &'p CStr), Failure> {
        let mut buffer = [MaybeUninit::uninit(); LONGEST];
        let bytes = path.to_bytes_with_nul();
        let cut = bytes.iter().rposition(|&byte| byte == b'/');
        let parent = self.make_directories(c_prefix(&mut buffer, bytes, 0, cut.unwrap_or(0))?)?;
        let name = bytes.get(cut.map_or(0, |cut| cut + 1)..).unwrap_or_default();
        let name =
            CStr::from_bytes_with_nul(name).map_err(|_| Failure::new("path", Errno::INVAL))?;
        Ok((parent, name))
    }

    /// Opens a directory. If it does not exist, it is created together with its missing parents.
    pub(crate) fn make_directories(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        match self.resolve(path, DIRECTORY, Links::Follow) {
            Err(Errno::NOENT) => self.make_missing(path, Links::Follow),
            result => result.op("openat2"),
        }
    }

    /// Calls `make` to create a device node or another special file at `path`, after an attempt has
    /// failed with EEXIST. If the existing file is a dangling link, the new file is created at the
    /// link's target.
    pub(crate) fn make_behind_link(
        &self,
        path: &CStr,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
    ) -> Result<(), Failure> {
        inside::make_with(self.0, path, MADE, make).map(drop).op("mknodat")
    }

    /// Creates a missing directory and its missing parents. First, the longest existing prefix of the path is looked up
    /// from the root, so that links resolve inside the root. Then the missing components are created one by one, each
    /// below the descriptor of its parent. If mkdirat(2) returns EEXIST for a component, the component is a dangling
    /// link.
    // Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
    #[inline(never)]
    fn make_missing(&self, path: &CStr, links: Links) -> Result<OwnedFd, Failure> {
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
            match self.resolve(prefix, DIRECTORY, links) {
                Err(Errno::NOENT) if there > 0 => {}
                result => break result.op("openat2")?,
            }
        };
        let mut start = if there == 0 { 0 } else { there + 1 };
        for end in ends_of_names(bytes).filter(move |&end| end > there) {
            let name = c_prefix(&mut buffer, bytes, start, end)?;
            match mkdirat(&directory, name, MADE) {
                Ok(()) => {}
                Err(Errno::EXIST) if links == Links::Follow => {
                    return inside::make_directories(self.0, path, MADE).op("openat");
                }
                // Another process has created the directory since the look-up.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Failure::new("mkdirat", errno)),
            }
            let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            directory = openat(&directory, name, flags, Mode::empty()).op("openat")?;
            start = end + 1;
        }
        Ok(directory)
    }

    fn make_file(&self, path: &CStr) -> Result<OwnedFd, Failure> {
        let (parent, name) = self.parent_of(path)?;
        let mut flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if is_off(Defence::ResolveInRoot) {
            flags = OFlags::CREATE | OFlags::CLOEXEC;
        }
        match openat(&parent, name, flags, MADE_FILE) {
            Ok(_) => {}
            // The name is a dangling link.
            Err(Errno::EXIST) => {
                return inside::make_file(self.0, path, MADE, MADE_FILE).op("openat");
            }
            Err(Errno::NOENT) if is_off(Defence::ResolveInRoot) => {
                return inside::make_file(self.0, path, MADE, MADE_FILE).op("openat");
            }
            Err(errno) => return Err(Failure::new("openat", errno)),
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&parent, name, flags, Mode::empty()).op("openat")
    }
}

/// Iterates over the end offsets of a path's components.
fn ends_of_names(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain(core::iter::once(path.len())).filter(|&end| end > 0)
}

/// Returns `path[start..end]` as a C string in `buffer`.
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
    // SAFETY: both parts of the string have just been written.
    let room = unsafe { room.assume_init_ref() };
    CStr::from_bytes_with_nul(room).map_err(|_| Failure::new("path", Errno::INVAL))
}

/// Returns whether a descriptor refers to a directory.
pub(crate) fn is_directory(fd: impl AsFd) -> Result<bool, Failure> {
    match fstat(&fd) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        // A FUSE file system without the option allow_other denies all access to processes in another user namespace.
        // The kernel still tells, before it asks the file system, whether a path could continue there.
        Err(Errno::ACCESS) => {
            let below = openat(&fd, c".", DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            Ok(below.err() != Some(Errno::NOTDIR))
        }
        Err(errno) => Err(Failure::new("fstat", errno)),
    }
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
    fn what_a_link_leads_to_is_made_inside() {
        let dir = scratch("dangling");
        std::os::unix::fs::symlink("/nowhere", dir.join("root/link")).unwrap();
        std::os::unix::fs::symlink("../../run/resolv.conf", dir.join("root/file")).unwrap();
        std::os::unix::fs::symlink("circle", dir.join("root/circle")).unwrap();
        make(&dir, "link/a").unwrap();
        assert!(dir.join("root/nowhere/a").is_dir());
        let fd = open_root(&dir);
        let root = Root::new(fd.as_fd());
        let target = |path: &'static CStr| Target { path, no_symlinks: false };
        root.target(&target(c"file"), false).unwrap();
        assert!(dir.join("root/run/resolv.conf").is_file());
        assert_eq!(root.target(&target(c"circle"), true).unwrap_err().errno, Errno::LOOP);
        assert!(!dir.join("run").exists() && !Path::new("/nowhere").exists());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn files_and_the_root_itself_are_targets() {
        let dir = scratch("files");
        let fd = open_root(&dir);
        let root = Root::new(fd.as_fd());
        let file = Target { path: c"a/b/file", no_symlinks: false };
        assert!(!is_directory(root.target(&file, false).unwrap()).unwrap());
        let top = Target { path: c"", no_symlinks: false };
        assert!(is_directory(root.target(&top, true).unwrap()).unwrap());
        assert!(root.find(c"a/none").unwrap().is_none());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
