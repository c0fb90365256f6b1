//! The directory of a layer while it is filled. Nothing outside that directory can be reached.
//!
//! Names from the archive are never resolved from the host's root. A parent is opened by openat2(2) relative to the
//! layer's directory without following links. If the path of the parent contains links, the path is walked one
//! component at a time; `..` in a link's target returns to the directory that the walk came through. The last component
//! of an entry's name is created with O_EXCL or an equivalent.

mod links;

use super::attributes::Attributes;
use super::directories::Directories;
use super::limits::Shared;
use crate::error::{Error, Result};
use crate::merged::{Directory, Found, LINKS, Merged, words};
use crate::store::Rights;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, makedev, mkdirat, mknodat, openat, openat2,
    readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use sys::inside::{self, Links};

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The cost of a step of a walk, in lookups.
const STEP: u64 = 16;
/// The cost of a lookup in a layer below.
pub const LOOK_UP: u64 = 4;
/// The maximum length of a path in bytes (PATH_MAX without the terminator).
const LONGEST: usize = 4095;

/// The maximum length of a name in bytes (NAME_MAX), with a slash.
const LONGEST_NAME: usize = 256;

/// A directory in the layer: its path without links, and its descriptor.
#[derive(Debug, Clone)]
pub struct Place {
    /// The path relative to the layer.
    pub path: PathBuf,
    /// The descriptor, opened with O_PATH.
    pub fd: Rc<OwnedFd>,
}

/// The layers below the layer that is being unpacked.
#[derive(Debug, Clone)]
pub enum Below {
    /// Not available: the layer is unpacked by itself.
    Unknown,
    /// The layers below. The bottom layer has none, so its stack is empty.
    Known(Merged),
}

/// A layer that is being filled.
#[derive(Debug)]
pub struct Tree<'a> {
    root: Place,
    rights: Rights,
    below: Below,
    /// The directory of the last entry, with the directory's name in the archive. The next entry is often in the same
    /// directory.
    last: Option<(PathBuf, Place)>,
    /// The final attributes of directories.
    directories: Directories<'a>,
    /// The device and inode numbers of files that have been copied up from layers below.
    copied: BTreeSet<(u64, u64)>,
    /// Whether an entry replaced an earlier one of the same archive.
    pub replaced: bool,
}

impl<'a> Tree<'a> {
    /// Returns the tree of the empty directory `root`. The cost of filling it is counted in `shared`.
    ///
    /// # Errors
    /// Those of opening the directory.
    pub fn new(root: &Path, rights: Rights, below: Below, shared: &'a Shared) -> Result<Self> {
        let fd =
            rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(Error::errno("open", root))?;
        let root = Place { path: PathBuf::new(), fd: Rc::new(fd) };
        Ok(Self {
            root,
            rights,
            below,
            last: None,
            directories: Directories::new(shared),
            copied: BTreeSet::new(),
            replaced: false,
        })
    }

    /// Returns the directory of an entry, and the entry's name in this directory. The directory is created if it does
    /// not exist. The name is empty if the entry is the layer's root itself.
    ///
    /// # Errors
    /// [`Error::Hostile`] for names that lead out of the layer; those of opening and creating directories.
    pub fn place(&mut self, path: &[u8]) -> Result<(Place, OsString)> {
        let path = Path::new(OsStr::from_bytes(path));
        let hostile = |reason| Error::Hostile { entry: path.display().to_string(), reason };
        if path.as_os_str().len() > LONGEST + LONGEST_NAME {
            return Err(Error::errno("open", path)(Errno::NAMETOOLONG));
        }
        let mut words = words(path);
        if words.iter().any(|word| word == "..") {
            return Err(hostile("its name goes up by \"..\""));
        }
        if words.iter().any(|word| word.as_bytes().contains(&0)) {
            return Err(hostile("its name has a zero byte"));
        }
        if words.iter().any(|word| word.len() > 255) {
            return Err(hostile("a part of its name is longer than 255 bytes"));
        }
        let name = if words.is_empty() { OsString::new() } else { words.remove(0) };
        let parent: PathBuf = words.iter().rev().collect();
        if let Some((last, place)) = &self.last
            && *last == parent
        {
            return Ok((place.clone(), name));
        }
        let place = self
            .walk(&parent, true)?
            .ok_or_else(|| Error::NeedsBelow { path: parent.display().to_string() })?;
        self.last = Some((parent, place.clone()));
        Ok((place, name))
    }

    /// Opens the directory `path`. If the directory does not exist, it is created if `make` is true; otherwise, returns
    /// `None`.
    fn walk(&mut self, path: &Path, make: bool) -> Result<Option<Place>> {
        if path.as_os_str().is_empty() {
            return Ok(Some(self.root.clone()));
        }
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        // A component takes at least a byte and a slash.
        self.count_steps(path.as_os_str().len() as u64 / 2)?;
        match openat2(&self.root.fd, path, DIRECTORY, Mode::empty(), resolve) {
            Ok(fd) => return Ok(Some(Place { path: path.to_owned(), fd: Rc::new(fd) })),
            // ENOSYS or EPERM comes from a seccomp filter that does not know openat2.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::AGAIN
                | Errno::NOSYS
                | Errno::PERM,
            ) => {}
            Err(errno) => return Err(Error::errno("open", path)(errno)),
        }
        let mut stack = vec![self.root.clone()];
        let mut todo = words(path);
        let mut links = 0;
        while let Some(word) = todo.pop() {
            let Some(here) = stack.last().cloned() else { return Ok(None) };
            self.count_steps(STEP)?;
            if word == ".." {
                stack.truncate((stack.len() - 1).max(1));
                continue;
            }
            let step = match openat(&here.fd, &word, DIRECTORY, Mode::empty()) {
                Ok(fd) => Step::Into(Place { path: here.path.join(&word), fd: Rc::new(fd) }),
                Err(Errno::NOENT) if make => self.imply(&here, &word)?,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR | Errno::LOOP) => self.other(&here, &word, make)?,
                Err(errno) => return Err(Error::errno("open", here.path.join(&word))(errno)),
            };
            match step {
                Step::Into(place) => stack.push(place),
                Step::Along(target) => {
                    links += 1;
                    if links > LINKS {
                        return Err(Error::errno("open", path)(Errno::LOOP));
                    }
                    if target.is_absolute() {
                        stack.truncate(1);
                    }
                    todo.extend(words(&target));
                }
            }
        }
        Ok(stack.pop())
    }

    /// Continues a walk at a parent that is not a directory, such as a link.
    fn other(&mut self, here: &Place, word: &OsStr, make: bool) -> Result<Step> {
        let path = here.path.join(word);
        match readlinkat(&here.fd, word, Vec::new()) {
            Ok(target) => {
                return Ok(Step::Along(PathBuf::from(OsString::from_vec(target.into_bytes()))));
            }
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(Error::errno("read link", &path)(errno)),
        }
        if make && self.is_whiteout(here, word)? {
            // The whiteout removes the directory of the layers below; this layer creates the directory again.
            unlinkat(&here.fd, word, AtFlags::empty()).map_err(Error::errno("remove", &path))?;
            let place = self.make_implied(here, word, None)?;
            self.set_opaque(&place)?;
            return Ok(Step::Into(place));
        }
        Err(Error::errno("open", path)(Errno::NOTDIR))
    }

    /// Continues a walk at a missing parent. If the parent is a symbolic link in the layers below, the link is
    /// followed. Otherwise, the parent is created, with the attributes that it has in the layers below if it exists
    /// there.
    fn imply(&mut self, here: &Place, word: &OsStr) -> Result<Step> {
        match self.find_below(&here.path, word)? {
            None => self.make_implied(here, word, None).map(Step::Into),
            Some(Found::Directory(below)) => {
                self.make_implied(here, word, Some(&below)).map(Step::Into)
            }
            Some(Found::Link(target)) => Ok(Step::Along(PathBuf::from(target))),
            Some(Found::Other(_)) => Err(Error::errno("open", here.path.join(word))(Errno::NOTDIR)),
        }
    }

    fn make_implied(
        &mut self,
        here: &Place,
        word: &OsStr,
        below: Option<&Directory>,
    ) -> Result<Place> {
        let path = here.path.join(word);
        // The directory takes as much space as one with an entry.
        self.directories.shared().count_entry()?;
        let place = make_directory(here, word)?;
        let attributes = match below.and_then(|below| below.first()) {
            Some(below) => Attributes::of_directory(below)?,
            None => Attributes::plain_directory(),
        };
        self.directories.insert(path, attributes, true)?;
        Ok(place)
    }

    /// Looks up a name in the layers below, unless this layer hides it.
    fn find_below(&self, directory: &Path, name: &OsStr) -> Result<Option<Found>> {
        let Below::Known(below) = &self.below else { return Ok(None) };
        if below.is_empty() || self.directories.hides_below(directory) {
            return Ok(None);
        }
        let found = match below.directory(directory)? {
            Some(directory) => below.find(&directory, name)?,
            None => None,
        };
        self.count_steps(below.looked_up() * LOOK_UP)?;
        Ok(found)
    }

    fn count_steps(&self, steps: u64) -> Result<()> {
        self.directories.shared().count_steps(steps)
    }

    /// Returns the file type of a name, if it exists.
    fn kind(&self, place: &Place, name: &OsStr) -> Result<Option<FileType>> {
        match statat(&place.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::errno("look up", place.path.join(name))(errno)),
        }
    }

    fn is_whiteout(&self, place: &Place, name: &OsStr) -> Result<bool> {
        match statat(&place.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let kind = FileType::from_raw_mode(stat.st_mode);
                Ok(kind == FileType::CharacterDevice && stat.st_rdev == 0)
            }
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::errno("look up", place.path.join(name))(errno)),
        }
    }

    /// Calls `make`; if something exists at that name, removes it and tries again.
    fn make<T>(
        &mut self,
        place: &Place,
        name: &OsStr,
        op: &'static str,
        make: impl Fn() -> rustix::io::Result<T>,
    ) -> Result<T> {
        let result = match make() {
            Err(Errno::EXIST) => {
                self.clear(place, name)?;
                make()
            }
            result => result,
        };
        result.map_err(Error::errno(op, place.path.join(name)))
    }

    /// Removes the file or directory that an earlier entry created.
    fn clear(&mut self, place: &Place, name: &OsStr) -> Result<()> {
        let path = place.path.join(name);
        self.replaced = true;
        self.last = None;
        match self.kind(place, name)? {
            None => Ok(()),
            Some(FileType::Directory) => {
                self.directories.forget(&path);
                let directory =
                    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let fd = openat(&place.fd, name, directory, Mode::empty())
                    .map_err(Error::errno("open", &path))?;
                rootfs::empty(fd.as_fd()).map_err(Error::errno("remove", &path))?;
                unlinkat(&place.fd, name, AtFlags::REMOVEDIR).map_err(Error::errno("remove", &path))
            }
            Some(_) => {
                unlinkat(&place.fd, name, AtFlags::empty()).map_err(Error::errno("remove", &path))
            }
        }
    }

    /// Creates an empty file for writing.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn file(&mut self, place: &Place, name: &OsStr, mode: u32) -> Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o777);
        self.make(place, name, "make", || openat(&place.fd, name, flags, mode)).map(File::from)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Those of symlinkat(2).
    pub fn symlink(&mut self, place: &Place, name: &OsStr, target: &[u8]) -> Result<()> {
        let target = OsStr::from_bytes(target);
        self.make(place, name, "make link", || symlinkat(target, &place.fd, name))
    }

    /// Creates a device, a FIFO or a whiteout.
    ///
    /// # Errors
    /// Those of mknodat(2).
    pub fn node(
        &mut self,
        place: &Place,
        name: &OsStr,
        kind: FileType,
        mode: u32,
        device: (u32, u32),
    ) -> Result<()> {
        let (mode, device) = (Mode::from_raw_mode(mode & 0o777), makedev(device.0, device.1));
        self.make(place, name, "make node", || mknodat(&place.fd, name, kind, mode, device))
    }

    /// Creates a directory, which may exist already. [`Tree::finish`] sets its attributes.
    ///
    /// # Errors
    /// Those of mkdirat(2).
    pub fn directory(&mut self, place: &Place, name: &OsStr, attributes: Attributes) -> Result<()> {
        let path = place.path.join(name);
        if !name.is_empty() {
            match self.kind(place, name)? {
                Some(FileType::Directory) => {}
                None => drop(make_directory(place, name)?),
                Some(_) => {
                    let whiteout = self.is_whiteout(place, name)?;
                    self.clear(place, name)?;
                    let made = make_directory(place, name)?;
                    if whiteout {
                        self.set_opaque(&made)?;
                    }
                }
            }
        }
        self.directories.insert(path, attributes, false)
    }

    /// Hides a name of the layers below.
    ///
    /// # Errors
    /// Those of creating a whiteout.
    pub fn whiteout(&mut self, place: &Place, name: &OsStr) -> Result<()> {
        match self.kind(place, name)? {
            None => self.node(place, name, FileType::CharacterDevice, 0, (0, 0)),
            Some(FileType::Directory) => {
                let fd = openat(&place.fd, name, DIRECTORY, Mode::empty())
                    .map_err(Error::errno("open", place.path.join(name)))?;
                self.set_opaque(&Place { path: place.path.join(name), fd: Rc::new(fd) })
            }
            // An object of this layer hides the same name in the layers below.
            Some(_) => Ok(()),
        }
    }

    /// Hides the contents that the directory `place` has in the layers below.
    ///
    /// # Errors
    /// Those of setxattr(2).
    pub fn set_opaque(&mut self, place: &Place) -> Result<()> {
        if self.directories.hide_below(&place.path)? {
            let path = super::attributes::through(place.fd.as_fd());
            rustix::fs::setxattr(
                &path,
                self.rights.opaque(),
                b"y",
                rustix::fs::XattrFlags::empty(),
            )
            .map_err(Error::errno("make opaque", &place.path))?;
        }
        Ok(())
    }

    /// Sets the attributes of directories, the innermost first, when all entries exist: creating an entry would change
    /// the times, and would fail in a read-only directory. Returns the directories without an entry of their own.
    ///
    /// # Errors
    /// Those of opening and changing the directories.
    pub fn finish(mut self) -> Result<Vec<PathBuf>> {
        if !self.directories.contains(Path::new("")) {
            let attributes = match &self.below {
                Below::Known(below) => {
                    below.root().first().map(Attributes::of_directory).transpose()?
                }
                Below::Unknown => None,
            };
            let attributes = attributes.unwrap_or_else(Attributes::plain_directory);
            self.directories.insert(PathBuf::new(), attributes, true)?;
        }
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for (path, attributes) in self.directories.innermost_first() {
            self.directories.shared().go_on()?;
            let fd = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL);
            let fd = fd
                .and_then(|name| inside::open(self.root.fd.as_fd(), &name, readable, Links::Refuse))
                .map_err(Error::errno("open", path))?;
            attributes.apply_to_file(&fd, path)?;
        }
        self.directories.into_implied()
    }
}

/// The next step of a walk.
enum Step {
    Into(Place),
    Along(PathBuf),
}

fn make_directory(place: &Place, name: &OsStr) -> Result<Place> {
    let path = place.path.join(name);
    // Through links, an archive can create a tree that is deeper than the longest path allows.
    if path.as_os_str().len() > LONGEST {
        return Err(Error::errno("make", path)(Errno::NAMETOOLONG));
    }
    mkdirat(&place.fd, name, Mode::RWXU).map_err(Error::errno("make", &path))?;
    let fd =
        openat(&place.fd, name, DIRECTORY, Mode::empty()).map_err(Error::errno("open", &path))?;
    Ok(Place { path, fd: Rc::new(fd) })
}
