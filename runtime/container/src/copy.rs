//! `cp`: copies files and directories between the host and a container, and out of a stopped one.
//!
//! The container may change its files meanwhile, so paths in it are resolved below its root (openat2(2) with
//! RESOLVE_IN_ROOT), everything below is opened by name in an open directory without following links, and a file is read
//! or written only after its descriptor is known to be one of a regular file: never a device or a FIFO.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, fchmod, fstat,
    futimens, mkdirat, openat, openat2, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, read, write};
use rustix::process::{getegid, geteuid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use sys::Context;

use crate::cache::directory::open_directory;
use crate::layered::view::view;
use crate::{Container, Error, Status, Unless as _};

/// The permission bits that are copied: set-user-ID bits would be those of another owner.
const PERMISSIONS: u32 = 0o777;
/// The size in bytes of the buffer for the content of files.
const BUFFER: usize = 1 << 16;

/// A tree of files: the host's or a container's.
#[derive(Debug)]
pub struct Place {
    /// The container's root; `None` for the host.
    root: Option<OwnedFd>,
    /// The ids, as seen by this process, to which copies belong.
    owner: (Uid, Gid),
}

impl Place {
    /// Returns the host's files. Copies belong to the caller.
    pub fn host() -> Self {
        Self { root: None, owner: (geteuid(), getegid()) }
    }

    /// Returns the files that a container's processes see. Copies belong to the container's root.
    ///
    /// # Errors
    /// [`Error::NotRunning`]; failing system calls.
    pub fn of(container: &Container) -> Result<Self, Error> {
        let root = container.open_of_init("root", OFlags::PATH | OFlags::DIRECTORY)?;
        let first = |file: &str| {
            let map = container.open_of_init(file, OFlags::RDONLY).ok();
            let text = map.and_then(|map| sys::fs::read_all(&map).ok()).unwrap_or_default();
            first_id(&String::from_utf8_lossy(&text)).unwrap_or(0)
        };
        let owner = (first("uid_map"), first("gid_map"));
        Ok(Self { root: Some(root), owner: (Uid::from_raw(owner.0), Gid::from_raw(owner.1)) })
    }

    /// Returns the files to copy from: those that a container's processes see or, if it is stopped, those of its root
    /// filesystem.
    ///
    /// # Errors
    /// If a stopped container's files are gone; failing system calls.
    pub fn from(container: &Container) -> Result<Self, Error> {
        let record = &container.record;
        let root = match (container.status()?, &record.layered) {
            (Status::Stopped, Some(layered)) => view(layered)?,
            (Status::Stopped, None) => {
                sys::fs::open_dir(CWD, record.rootfs.as_str()).context("open", &record.rootfs)?
            }
            _ => return Self::of(container),
        };
        Ok(Self { root: Some(root), ..Self::host() })
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let Some(root) = &self.root else { return openat(CWD, path, flags, Mode::empty()) };
        let below = match path.trim_start_matches('/') {
            "" => ".",
            below => below,
        };
        openat2(root, below, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    /// Runs `make` with the rights of the owner, so that what it makes belongs to the owner, also on an id-mapped
    /// mount, where other ids have none.
    fn as_owner<T>(&self, make: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        let (own, (uid, gid)) = ((geteuid(), getegid()), self.owner);
        if own == self.owner {
            return make();
        }
        set_thread_res_gid(None, gid, None)?;
        let made = set_thread_res_uid(None, uid, None).and_then(|()| make());
        set_thread_res_uid(None, own.0, None)?;
        set_thread_res_gid(None, own.1, None)?;
        made
    }
}

/// Returns the id to which a map of a user namespace maps 0.
fn first_id(map: &str) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (inside, outside) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (inside == 0).then_some(outside)
    })
}

/// Splits a path into the directory and the name in it. There is no name if the path ends in `.`, `..` or is `/`: then
/// the directory's contents are meant.
fn split(path: &str) -> (&str, Option<&str>) {
    let bare = match path.trim_end_matches('/') {
        "" => return ("/", None),
        bare => bare,
    };
    let (directory, name) = match bare.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(pair) => pair,
        None => (".", bare),
    };
    if matches!(name, "." | "..") { (bare, None) } else { (directory, Some(name)) }
}

/// Copies the file or directory `source`. If `destination` is a directory, the copy is made in it; otherwise, it gets
/// this name. A source that ends in `/.` is a directory whose contents are copied.
///
/// # Errors
/// Failing system calls; files that are neither regular files, directories nor symbolic links.
pub fn copy(from: (&Place, &str), to: (&Place, &str)) -> Result<(), Error> {
    let ((from, source), (to, destination)) = (from, to);
    let directory = OFlags::PATH | OFlags::DIRECTORY;
    let (above, name) = split(source);
    let above = from.open(above, directory).context("open", above)?;
    let (below, new) = match to.open(destination, directory) {
        Ok(below) => (below, name),
        Err(errno @ (Errno::NOENT | Errno::NOTDIR)) => {
            let (parent, new) = split(destination);
            if new.is_none() || destination.ends_with('/') {
                return Err(sys::Error::new("open", destination, errno).into());
            }
            (to.open(parent, directory).context("open", parent)?, new)
        }
        Err(errno) => return Err(sys::Error::new("open", destination, errno).into()),
    };
    let mut copy = Copy { to, buffer: vec![0; BUFFER].into() };
    match (name, new) {
        (Some(name), Some(new)) => copy.entry(above.as_fd(), name, below.as_fd(), new),
        (None, Some(new)) => {
            let below = copy.directory(below.as_fd(), new)?;
            copy.contents(above.as_fd(), below.as_fd())
        }
        (_, None) => copy.contents(above.as_fd(), below.as_fd()),
    }
}

struct Copy<'a> {
    to: &'a Place,
    buffer: alloc::boxed::Box<[u8]>,
}

impl Copy<'_> {
    fn entry(
        &mut self,
        from: BorrowedFd<'_>,
        name: &str,
        to: BorrowedFd<'_>,
        new: &str,
    ) -> Result<(), Error> {
        let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW).context("stat", name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.file(from, name, to, new),
            FileType::Directory => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let from = openat(from, name, flags, Mode::empty()).context("open", name)?;
                let below = self.directory(to, new)?;
                self.contents(from.as_fd(), below.as_fd())?;
                self.finish(below.as_fd(), &stat).context("change", new).map_err(Error::from)
            }
            FileType::Symlink => {
                let target = readlinkat(from, name, vec![]).context("readlink", name)?;
                let make = || symlinkat(&target, to, new);
                let made = match self.to.as_owner(make) {
                    Err(Errno::EXIST) => {
                        unlinkat(to, new, AtFlags::empty()).and_then(|()| self.to.as_owner(make))
                    }
                    made => made,
                };
                made.context("symlink", new).map_err(Error::from)
            }
            _ => Err(Error::Text(format!("{name}: cp copies files, directories and links only"))),
        }
    }

    /// Opens the directory `new`, which is made if it does not exist.
    fn directory(&self, to: BorrowedFd<'_>, new: &str) -> Result<OwnedFd, Error> {
        let made = self.to.as_owner(|| mkdirat(to, new, Mode::from_raw_mode(0o755)));
        made.unless(Errno::EXIST).context("mkdir", new)?;
        open_directory(to, new).context("open", new).map_err(Error::from)
    }

    fn contents(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Error> {
        let listed = sys::fs::open_dir(from, ".").context("open", ".")?;
        for entry in Dir::new(listed).context("read", ".")? {
            let entry = entry.context("read", ".")?;
            let name = entry.file_name().to_string_lossy();
            if !matches!(&*name, "." | "..") {
                self.entry(from, &name, to, &name).map_err(|error| within(&name, error))?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        name: &str,
        to: BorrowedFd<'_>,
        new: &str,
    ) -> Result<(), Error> {
        let (from, stat) = regular(from, name, OFlags::RDONLY).context("open", name)?;
        let mode = Mode::from_raw_mode(stat.st_mode & PERMISSIONS);
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let make = || self.to.as_owner(|| openat(to, new, create, mode));
        let made = match make() {
            Err(Errno::EXIST) => match regular(to, new, OFlags::WRONLY | OFlags::TRUNC) {
                // What is there, such as a link, is replaced.
                Err(Errno::INVAL) => unlinkat(to, new, AtFlags::empty()).and_then(|()| make()),
                opened => opened.map(|(file, _)| file),
            },
            made => made,
        };
        let to = made.context("create", new)?;
        loop {
            let count = read(&from, &mut self.buffer[..]).context("read", name)?;
            let mut rest = self.buffer.get(..count).unwrap_or_default();
            if rest.is_empty() {
                return self.finish(to.as_fd(), &stat).context("change", new).map_err(Error::from);
            }
            while !rest.is_empty() {
                let count = write(&to, rest).context("write", new)?;
                rest = rest.get(count..).unwrap_or_default();
            }
        }
    }

    /// Sets permissions and times of a copy.
    fn finish(&self, copy: BorrowedFd<'_>, stat: &Stat) -> Result<(), Errno> {
        self.to.as_owner(|| {
            fchmod(copy, Mode::from_raw_mode(stat.st_mode & PERMISSIONS))?;
            futimens(copy, &sys::fs::times(stat))
        })
    }
}

/// Opens a regular file; fails with EINVAL for any other. It is opened without effects first, and only then, by its
/// descriptor, with `flags`.
fn regular(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<(OwnedFd, Stat), Errno> {
    let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(directory, name, look, Mode::empty())?;
    let stat = fstat(&found)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok((openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?, stat))
}

/// Adds the directory to the object of an error.
fn within(name: &str, error: Error) -> Error {
    match error {
        Error::System(mut cause) if cause.object != name => {
            cause.object = format!("{name}/{}", cause.object);
            Error::System(cause)
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_ids() {
        assert_eq!(split("/etc/hosts"), ("/etc", Some("hosts")));
        assert_eq!(split("/etc/"), ("/", Some("etc")));
        assert_eq!(split("a"), (".", Some("a")));
        assert_eq!(split("/"), ("/", None));
        assert_eq!(split("a/."), ("a/.", None));
        assert_eq!(split(".."), ("..", None));
        assert_eq!(first_id("         0     100000      65536\n"), Some(100_000));
        assert_eq!(first_id("1 2 3\n0 1000 1\n"), Some(1000));
        assert_eq!(first_id(""), None);
    }
}
