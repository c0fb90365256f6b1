//! The directory of a layer while it is filled. Nothing outside that directory can be reached.
//!
//! Names from the archive are never resolved from the host's root. A parent is opened by openat2(2) relative to the
//! layer's directory without following links. If the path of the parent contains links, the path is walked one
//! component at a time; `..` in a link's target returns to the directory that the walk came through. The last component
//! of an entry's name is created with O_EXCL or an equivalent.

mod links;

use super::attributes::{Attributes, through};
use super::directories::Directories;
use super::limits::Shared;
use crate::error::{Error, Result, c_path, if_there};
use crate::merged::{Found, Merged, Step, is_whiteout, walk, words};
use crate::store::Rights;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, XattrFlags, makedev, mkdirat, mknodat, openat,
    readlinkat, setxattr, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use sys::inside::{self, Links};

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const READABLE: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

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

/// A layer that is being filled.
#[derive(Debug)]
pub struct Tree<'a> {
    root: Place,
    rights: Rights,
    /// The layers below. `None` if they are not available: the layer is unpacked by itself. The bottom layer has none,
    /// so its stack is empty.
    below: Option<Merged>,
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
    pub fn new(
        root: &Path,
        rights: Rights,
        below: Option<Merged>,
        shared: &'a Shared,
    ) -> Result<Self> {
        let fd =
            rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(Error::at("open", root))?;
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
    /// An error for names that lead out of the layer; those of opening and creating directories.
    pub fn place(&mut self, path: &[u8]) -> Result<(Place, OsString)> {
        let path = Path::new(OsStr::from_bytes(path));
        if path.as_os_str().len() > LONGEST + LONGEST_NAME {
            return Err(Error::at("open", path)(Errno::NAMETOOLONG));
        }
        let words = words(path);
        let reason = words.iter().find_map(|word| match word.as_bytes() {
            b".." => Some("its name goes up by \"..\""),
            word if word.contains(&0) => Some("its name has a zero byte"),
            word if word.len() > 255 => Some("a part of its name is longer than 255 bytes"),
            _ => None,
        });
        if let Some(reason) = reason {
            return Err(Error::hostile(path, reason));
        }
        let (parent, name) = parent_and_name(words);
        if let Some((last, place)) = &self.last
            && *last == parent
        {
            return Ok((place.clone(), name));
        }
        let place = self
            .walk(&parent, true)?
            .ok_or_else(|| Error::NeedsBelow(parent.display().to_string()))?;
        self.last = Some((parent, place.clone()));
        Ok((place, name))
    }

    /// Opens the directory `path`. If the directory does not exist, it is created if `make` is true; otherwise, returns
    /// `None`.
    fn walk(&mut self, path: &Path, make: bool) -> Result<Option<Place>> {
        if path.as_os_str().is_empty() {
            return Ok(Some(self.root.clone()));
        }
        // A component takes at least a byte and a slash.
        self.count_steps(path.as_os_str().len() as u64 / 2)?;
        let root = self.root.clone();
        if let Ok(fd) = inside::open_beneath(root.fd.as_fd(), &c_path(path)?, DIRECTORY) {
            return Ok(Some(Place { path: path.to_owned(), fd: Rc::new(fd) }));
        }
        let step = |here: &Place, word: &OsStr, _| {
            self.count_steps(STEP)?;
            match openat(&here.fd, word, DIRECTORY, Mode::empty()) {
                Ok(fd) => Ok(Step::Into(Place { path: here.path.join(word), fd: Rc::new(fd) })),
                Err(Errno::NOENT) if make => self.imply(here, word),
                Err(Errno::NOENT) => Ok(Step::End),
                Err(Errno::NOTDIR | Errno::LOOP) => self.other(here, word, make),
                Err(errno) => Err(Error::at("open", here.path.join(word))(errno)),
            }
        };
        walk(&root, path, step, || Err(Error::at("open", path)(Errno::LOOP)))
    }

    /// Continues a walk at a parent that is not a directory, such as a link.
    fn other(&mut self, here: &Place, word: &OsStr, make: bool) -> Result<Step<Place>> {
        let path = here.path.join(word);
        match readlinkat(&here.fd, word, Vec::new()) {
            Ok(target) => {
                return Ok(Step::Along(OsString::from_vec(target.into_bytes()).into()));
            }
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(Error::at("read link", &path)(errno)),
        }
        if make && self.stat(here, word)?.is_some_and(|stat| is_whiteout(&stat)) {
            // The whiteout removes the directory of the layers below; this layer creates the directory again.
            unlinkat(&here.fd, word, AtFlags::empty()).map_err(Error::at("remove", &path))?;
            let place = self.make_implied(here, word, None)?;
            self.set_opaque(&place)?;
            return Ok(Step::Into(place));
        }
        Err(Error::at("open", path)(Errno::NOTDIR))
    }

    /// Continues a walk at a missing parent. If the parent is a symbolic link in the layers below, the link is
    /// followed. Otherwise, the parent is created, with the attributes that it has in the layers below if it exists
    /// there.
    fn imply(&mut self, here: &Place, word: &OsStr) -> Result<Step<Place>> {
        let below = match self.find_below(&here.path, word)? {
            None => None,
            Some(Found::Directory(below)) => below.into_iter().next(),
            Some(Found::Link(target)) => return Ok(Step::Along(target.into())),
            Some(Found::Other(_)) => {
                return Err(Error::at("open", here.path.join(word))(Errno::NOTDIR));
            }
        };
        self.make_implied(here, word, below).map(Step::Into)
    }

    fn make_implied(
        &mut self,
        here: &Place,
        word: &OsStr,
        below: Option<Rc<OwnedFd>>,
    ) -> Result<Place> {
        let path = here.path.join(word);
        // The directory takes as much space as one with an entry.
        self.directories.shared().count_entry()?;
        let place = make_directory(here, word)?;
        let attributes = Attributes::of_top(below)?;
        self.directories.insert(path, attributes, true)?;
        Ok(place)
    }

    /// Looks up a name in the layers below, unless this layer hides it.
    fn find_below(&self, directory: &Path, name: &OsStr) -> Result<Option<Found>> {
        let Some(below) = &self.below else { return Ok(None) };
        if below.is_empty() || self.directories.hides_below(directory) {
            return Ok(None);
        }
        let found = match below.walk(directory, true)? {
            Some(Found::Directory(directory)) => below.find(&directory, name)?,
            _ => None,
        };
        self.count_steps(below.looked_up() * LOOK_UP)?;
        Ok(found)
    }

    fn count_steps(&self, steps: u64) -> Result<()> {
        self.directories.shared().count_steps(steps)
    }

    /// Returns the metadata of a name, if it exists.
    fn stat(&self, place: &Place, name: &OsStr) -> Result<Option<Stat>> {
        if_there(statat(&place.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from))
            .map_err(Error::at("look up", place.path.join(name)))
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
        result.map_err(Error::at(op, place.path.join(name)))
    }

    /// Removes the file or directory that an earlier entry created.
    fn clear(&mut self, place: &Place, name: &OsStr) -> Result<()> {
        let path = place.path.join(name);
        self.replaced = true;
        self.last = None;
        let flags = match self.stat(place, name)? {
            None => return Ok(()),
            Some(stat) if is_directory(&stat) => {
                self.directories.forget(&path);
                let fd = openat(&place.fd, name, READABLE, Mode::empty())
                    .map_err(Error::at("open", &path))?;
                rootfs::empty(fd.as_fd()).map_err(Error::at("remove", &path))?;
                AtFlags::REMOVEDIR
            }
            Some(_) => AtFlags::empty(),
        };
        unlinkat(&place.fd, name, flags).map_err(Error::at("remove", &path))
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
            match self.stat(place, name)? {
                Some(stat) if is_directory(&stat) => {}
                None => drop(make_directory(place, name)?),
                Some(stat) => {
                    self.clear(place, name)?;
                    let made = make_directory(place, name)?;
                    if is_whiteout(&stat) {
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
        match self.stat(place, name)? {
            None => self.node(place, name, FileType::CharacterDevice, 0, (0, 0)),
            Some(stat) if is_directory(&stat) => {
                let fd = openat(&place.fd, name, DIRECTORY, Mode::empty())
                    .map_err(Error::at("open", place.path.join(name)))?;
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
            let path = through(place.fd.as_fd());
            setxattr(&path, self.rights.opaque(), b"y", XattrFlags::empty())
                .map_err(Error::at("make opaque", &place.path))?;
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
            let below = self.below.as_ref().and_then(|below| below.root().into_iter().next());
            let attributes = Attributes::of_top(below)?;
            self.directories.insert(PathBuf::new(), attributes, true)?;
        }
        for (path, attributes) in self.directories.innermost_first() {
            self.directories.shared().go_on()?;
            let directory = open_inside(self.root.fd.as_fd(), path, READABLE)
                .map_err(Error::at("open", path))?;
            attributes.apply_to_file(&directory, path)?;
        }
        self.directories.into_implied()
    }
}

/// Opens a file of a layer. Symbolic links are not followed.
///
/// # Errors
/// Those of openat2(2).
pub fn open_inside(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<File> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    Ok(inside::open(root, &name, flags, Links::Refuse)?.into())
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Splits the words of a path into the path of the parent directory and the last word.
fn parent_and_name(mut words: Vec<OsString>) -> (PathBuf, OsString) {
    let name = if words.is_empty() { OsString::new() } else { words.remove(0) };
    (words.iter().rev().collect(), name)
}

fn make_directory(place: &Place, name: &OsStr) -> Result<Place> {
    let path = place.path.join(name);
    // Through links, an archive can create a tree that is deeper than the longest path allows.
    if path.as_os_str().len() > LONGEST {
        return Err(Error::at("make", path)(Errno::NAMETOOLONG));
    }
    mkdirat(&place.fd, name, Mode::RWXU).map_err(Error::at("make", &path))?;
    let fd = openat(&place.fd, name, DIRECTORY, Mode::empty()).map_err(Error::at("open", &path))?;
    Ok(Place { path, fd: Rc::new(fd) })
}
