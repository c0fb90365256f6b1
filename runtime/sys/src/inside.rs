//! Path resolution inside a root directory: one openat2(2) with RESOLVE_IN_ROOT, or a walk from component to component
//! where openat2(2) does not suffice.
//!
//! The walk serves two cases: a component is missing and must be created, possibly behind a dangling symbolic link; or
//! openat2(2) fails with ENOSYS or EPERM, because a seccomp filter is older than the call (Linux 5.6). The walk opens
//! one component after the other with O_PATH and O_NOFOLLOW below the descriptor of the previous directory, and reads
//! links itself. The walk never opens `..`. Instead, it drops the last component of the path walked so far, and walks
//! the rest of that path again from the root. The path walked so far contains no links. An attacker who renames
//! directories meanwhile, or replaces them by links, can make the walk fail or end elsewhere inside the root, but
//! cannot lead it out of the root.
//!
//! No function of this module allocates memory.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, fstatfs, mkdirat,
    openat, openat2, readlinkat_raw, statx,
};
use rustix::io::Errno;

use crate::defence::{Defence, is_off};

/// PATH_MAX
const LONGEST: usize = 4096;
/// The maximum number of links that the kernel follows (MAXSYMLINKS).
const MOST_LINKS: u32 = 40;
/// The number of retries after a race: an attacker can win a few times, but not forever.
const MOST_RACES: u32 = 64;

const HERE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const PROC_ROOT_INO: u64 = 1;

/// The treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links are followed, as for a process that has done chroot(2) to the root.
    Follow,
    /// Links are followed except in the last component: if the last component is a link, the link itself is opened.
    KeepLast,
    /// Links fail with ELOOP.
    Refuse,
}

/// Whether a seccomp filter has refused an openat2(2) of this process, or of a process that shares its memory.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Opens `path` inside `root`; an empty path is the root itself. Magic links of procfs fail with ELOOP.
///
/// # Errors
/// Those of openat2(2) with RESOLVE_IN_ROOT and RESOLVE_NO_MAGICLINKS; EAGAIN if other processes keep renaming
/// components.
pub fn open(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    links: Links,
) -> Result<OwnedFd, Errno> {
    let flags = match links {
        Links::KeepLast => flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Links::Follow | Links::Refuse => flags | OFlags::CLOEXEC,
    };
    if REFUSED.load(Ordering::Relaxed) {
        return walk_to(root, path, flags, links);
    }
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        Links::Refuse => resolve | ResolveFlags::NO_SYMLINKS,
        Links::Follow | Links::KeepLast => resolve,
    };
    let name = if path.is_empty() { c"." } else { path };
    for _ in 0..MOST_RACES {
        match openat2(root, name, flags, Mode::empty(), resolve) {
            // A rename raced with `..`.
            Err(Errno::AGAIN) => {}
            Err(refusal @ (Errno::NOSYS | Errno::PERM)) => {
                return instead(refusal, || walk_to(root, path, flags, links));
            }
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens `path` below `directory`. No component may be a link or lie on another mount.
///
/// # Errors
/// Those of openat2(2) with RESOLVE_BENEATH, RESOLVE_NO_XDEV and RESOLVE_NO_SYMLINKS.
pub fn open_beneath(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let walk = || {
        let file = walk_to(directory, path, flags, Links::Refuse)?;
        match mount_of(file.as_fd())? == mount_of(directory)? {
            true => Ok(file),
            false => Err(Errno::XDEV),
        }
    };
    if REFUSED.load(Ordering::Relaxed) {
        return walk();
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(directory, path, flags, Mode::empty(), resolve) {
        Err(refusal @ (Errno::NOSYS | Errno::PERM)) => instead(refusal, walk),
        result => result,
    }
}

/// Opens an absolute path in this process's own root directory. Magic links of procfs are not followed.
///
/// # Errors
/// Those of openat2(2) with RESOLVE_NO_MAGICLINKS.
pub fn open_absolute(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let walk = || {
        let root = openat(CWD, c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        walk_to(root.as_fd(), path, flags, Links::Follow)
    };
    if REFUSED.load(Ordering::Relaxed) {
        return walk();
    }
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Err(refusal @ (Errno::NOSYS | Errno::PERM)) => instead(refusal, walk),
        result => result,
    }
}

/// Returns the id of the mount that a file lies on (Linux 5.8).
fn mount_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    let found = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    match StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID) {
        true => Ok(found.stx_mnt_id),
        false => Err(Errno::NOSYS),
    }
}

/// Calls `walk` after openat2(2) has failed. ENOSYS comes from a seccomp filter. EPERM comes from a filter or from
/// access to the file itself: if the walk succeeds, EPERM came from a filter.
fn instead(
    refusal: Errno,
    walk: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let result = walk();
    if refusal == Errno::NOSYS || result.is_ok() {
        REFUSED.store(true, Ordering::Relaxed);
    }
    result
}

fn walk_to(
    root: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    links: Links,
) -> Result<OwnedFd, Errno> {
    for _ in 0..MOST_RACES {
        let mut walk = Walk::new(root, path, links)?;
        let found = match walk.go(None)? {
            End::Missing => return Err(Errno::NOENT),
            End::Found(found) => found,
        };
        let is_directory = kind_of(&found)? == FileType::Directory;
        if flags.contains(OFlags::DIRECTORY) && !is_directory {
            return Err(Errno::NOTDIR);
        }
        if flags.contains(OFlags::PATH) {
            return Ok(found);
        }
        // The walk found no link at this name, so a link there now was created by a concurrent process.
        match openat(walk.directory(), walk.name(), flags | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::LOOP) if links != Links::KeepLast => {}
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a directory inside `root`. If the directory or its parents are missing, creates them with mode `mode`, even if
/// the path reaches them through a dangling link.
///
/// # Errors
/// Those of openat(2) and mkdirat(2); ELOOP for circular links.
pub fn make_directories(root: BorrowedFd<'_>, path: &CStr, mode: Mode) -> Result<OwnedFd, Errno> {
    for _ in 0..MOST_RACES {
        let mut walk = Walk::new(root, path, Links::Follow)?;
        if let End::Found(found) = walk.go(Some(mode))? {
            return match kind_of(&found)? {
                FileType::Directory => Ok(found),
                _ => Err(Errno::NOTDIR),
            };
        }
        match mkdirat(walk.directory(), walk.name(), mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        // The next round opens whatever exists there by then.
    }
    Err(Errno::AGAIN)
}

/// Opens `path` inside `root` with O_PATH. If the file is missing, creates it as an empty file with mode `mode`, and
/// missing parents with mode `parents`.
///
/// # Errors
/// Those of openat(2) and mkdirat(2); ELOOP for circular links.
pub fn make_file(
    root: BorrowedFd<'_>,
    path: &CStr,
    parents: Mode,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let make = |directory: BorrowedFd<'_>, name: &CStr| {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(directory, name, flags, mode).map(drop)
    };
    for _ in 0..MOST_RACES {
        if let Some(found) = make_with(root, path, parents, make)? {
            return Ok(found);
        }
    }
    Err(Errno::AGAIN)
}

/// Returns the file `path` inside `root` (O_PATH), if it exists. Otherwise calls `make`, with a descriptor of the
/// file's directory and the file's name, to create it. Returns `None` if `make` or a concurrent process has created the
/// file. Missing parents are created with mode `mode`.
///
/// # Errors
/// Those of openat(2) and mkdirat(2), and those of `make` except EEXIST; ELOOP for circular links.
pub fn make_with(
    root: BorrowedFd<'_>,
    path: &CStr,
    mode: Mode,
    make: impl Fn(BorrowedFd<'_>, &CStr) -> Result<(), Errno>,
) -> Result<Option<OwnedFd>, Errno> {
    let mut walk = Walk::new(root, path, Links::Follow)?;
    if let End::Found(found) = walk.go(Some(mode))? {
        return Ok(Some(found));
    }
    match make(walk.directory(), walk.name()) {
        Ok(()) | Err(Errno::EXIST) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn kind_of(fd: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(fstat(fd)?.st_mode))
}

/// The result of a walk: whether the last component exists.
enum End {
    /// The component exists.
    Found(OwnedFd),
    /// The directory has no entry of that name.
    Missing,
}

/// The state of a walk through a root.
struct Walk<'r> {
    root: BorrowedFd<'r>,
    links: Links,
    followed: u32,
    /// The directory that the walk has reached; `None` is the root.
    here: Option<OwnedFd>,
    /// The components from the root to `here`, each followed by a NUL. No component is a symbolic link.
    come: [u8; LONGEST],
    come_length: usize,
    /// The components still to walk: from `start` to the NUL at the end. A link's text is inserted into the space
    /// before `start`.
    left: [u8; 2 * LONGEST],
    start: usize,
    /// The range of the current component within `left`.
    name: (usize, usize),
}

impl<'r> Walk<'r> {
    fn new(root: BorrowedFd<'r>, path: &CStr, links: Links) -> Result<Self, Errno> {
        let bytes = path.to_bytes_with_nul();
        let mut left = [0; 2 * LONGEST];
        let start = left.len() - bytes.len().min(LONGEST + 1);
        let room = left.get_mut(start..).filter(|room| room.len() == bytes.len());
        room.ok_or(Errno::NAMETOOLONG)?.copy_from_slice(bytes);
        let (here, come) = (None, [0; LONGEST]);
        let walk = Self {
            root,
            links,
            followed: 0,
            here,
            come,
            come_length: 0,
            left,
            start,
            name: (0, 0),
        };
        Ok(walk)
    }

    fn directory(&self) -> BorrowedFd<'_> {
        self.here.as_ref().map_or(self.root, |here| here.as_fd())
    }

    /// Returns the name of the last component, or `.` if the walk ends at the directory [`Self::directory`] itself.
    fn name(&self) -> &CStr {
        let name = self.left.get(self.name.0..self.name.1).unwrap_or_default();
        CStr::from_bytes_with_nul(name).unwrap_or(c".")
    }

    /// Moves on to the next component of the path; returns false at the end of the path.
    fn next(&mut self) -> bool {
        let end = self.left.len() - 1;
        let rest = self.left.get(self.start..end).unwrap_or_default();
        let Some(skipped) = rest.iter().position(|byte| *byte != b'/') else {
            (self.start, self.name) = (end, (0, 0));
            return false;
        };
        let start = self.start + skipped;
        let rest = rest.get(skipped..).unwrap_or_default();
        let stop = start + rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        if let Some(byte) = self.left.get_mut(stop) {
            *byte = 0;
        }
        self.name = (start, stop + 1);
        self.start = (stop + 1).min(end);
        true
    }

    fn is_last(&self) -> bool {
        let end = self.left.len() - 1;
        self.left.get(self.start..end).unwrap_or_default().iter().all(|byte| *byte == b'/')
    }

    /// Walks to the last component. If `make` is given, missing directories before the last component are created with
    /// this mode.
    fn go(&mut self, make: Option<Mode>) -> Result<End, Errno> {
        let mut made = 0;
        while self.next() {
            match self.name().to_bytes() {
                b"." => continue,
                b".." => {
                    self.back()?;
                    continue;
                }
                _ => {}
            }
            let found = loop {
                match openat(self.directory(), self.name(), HERE, Mode::empty()) {
                    Err(Errno::NOENT) if self.is_last() => return Ok(End::Missing),
                    Err(Errno::NOENT) if made < LONGEST => {
                        let mode = make.ok_or(Errno::NOENT)?;
                        match mkdirat(self.directory(), self.name(), mode) {
                            Ok(()) | Err(Errno::EXIST) => made += 1,
                            Err(errno) => return Err(errno),
                        }
                    }
                    result => break result?,
                }
            };
            match kind_of(&found)? {
                FileType::Symlink if self.is_last() && self.links == Links::KeepLast => {
                    return Ok(End::Found(found));
                }
                FileType::Symlink => self.follow(&found)?,
                _ if self.is_last() => return Ok(End::Found(found)),
                FileType::Directory => self.enter(found)?,
                _ => return Err(Errno::NOTDIR),
            }
        }
        openat(self.directory(), c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map(End::Found)
    }

    /// Enters the directory of the current component.
    fn enter(&mut self, directory: OwnedFd) -> Result<(), Errno> {
        let name = self.left.get(self.name.0..self.name.1).unwrap_or_default();
        let end = self.come_length + name.len();
        let room = self.come.get_mut(self.come_length..end).ok_or(Errno::NAMETOOLONG)?;
        room.copy_from_slice(name);
        (self.come_length, self.here) = (end, Some(directory));
        Ok(())
    }

    /// Goes to the parent directory by walking there from the root. The root's parent is the root itself.
    fn back(&mut self) -> Result<(), Errno> {
        let come = self.come.get(..self.come_length.saturating_sub(1)).unwrap_or_default();
        self.come_length = come.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
        self.here = None;
        let come = self.come.get(..self.come_length).unwrap_or_default();
        for name in come.split_inclusive(|byte| *byte == 0) {
            let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
            let here = self.here.as_ref().map_or(self.root, |here| here.as_fd());
            let directory = openat(here, name, HERE | OFlags::DIRECTORY, Mode::empty());
            // The directory was replaced by a link or removed meanwhile.
            let directory = directory.map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::AGAIN,
                errno => errno,
            })?;
            self.here = Some(directory);
        }
        Ok(())
    }

    /// Inserts a link's text before the rest of the path.
    fn follow(&mut self, link: &OwnedFd) -> Result<(), Errno> {
        self.followed += 1;
        if self.links == Links::Refuse || self.followed > MOST_LINKS || self.is_magic(link)? {
            return Err(Errno::LOOP);
        }
        // The byte before `start` ended the link's name. This byte is no longer needed, and becomes the slash between
        // the link's text and the rest of the path.
        let slash = self.start.saturating_sub(1);
        let room = self.left.get_mut(..slash).unwrap_or_default();
        let longest = room.len();
        let length = readlinkat_raw(link, c"", room)?;
        if length == 0 || length >= longest.min(LONGEST) {
            return Err(if length == 0 { Errno::NOENT } else { Errno::NAMETOOLONG });
        }
        self.left.copy_within(..length, slash - length);
        if let Some(byte) = self.left.get_mut(slash) {
            *byte = b'/';
        }
        self.start = slash - length;
        if self.left.get(self.start) == Some(&b'/') {
            (self.here, self.come_length) = (None, 0);
            if is_off(Defence::ResolveInRoot) {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                self.here = Some(openat(CWD, c"/", flags, Mode::empty())?);
            }
        }
        Ok(())
    }

    /// Returns whether `link` is a magic link of procfs, which has no usable text. Links in procfs' own root (`self`,
    /// `mounts`) are ordinary.
    fn is_magic(&self, link: &OwnedFd) -> Result<bool, Errno> {
        Ok(fstatfs(link)?.f_type == PROC_SUPER_MAGIC
            && fstat(self.directory())?.st_ino != PROC_ROOT_INO)
    }
}

#[cfg(test)]
mod tests;
