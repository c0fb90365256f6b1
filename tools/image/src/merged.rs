//! A merged view of layers without a mount, as overlayfs would show them.

use crate::error::{Error, Result, ensure};
use crate::store::Rights;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use sys::fs::open_dir;

/// The maximum number of symbolic links in a path, as in the kernel.
const LINKS: usize = 40;

/// A stack of layers, the top one first.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    layers: Vec<Rc<OwnedFd>>,
    opaque: &'static str,
    /// The number of lookups of names since the last query.
    looked_up: Rc<Cell<u64>>,
}

/// A merged directory: one directory from each contributing layer, the top one first.
pub type Directory = Vec<Rc<OwnedFd>>;

/// The result of looking up a name in a merged directory.
#[derive(Debug)]
pub enum Found {
    /// A directory.
    Directory(Directory),
    /// A symbolic link with its target.
    Link(OsString),
    /// Something else.
    Other(Node),
}

/// A file that is neither a directory nor a link.
#[derive(Debug)]
pub struct Node {
    /// The directory that contains the file, in the file's layer.
    pub directory: Rc<OwnedFd>,
    /// The name of the file in that directory.
    pub name: OsString,
    /// The metadata of the file.
    pub stat: Stat,
}

impl Node {
    /// Opens the file for reading.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn open(&self) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.directory, &self.name, flags, Mode::empty())
            .map(File::from)
            .map_err(Error::at("open", Path::new(&self.name)))
    }

    /// Returns whether the node is a regular file.
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }
}

impl Merged {
    /// Opens a stack of layers' directories, the top one first.
    ///
    /// # Errors
    /// Those of opening the directories.
    pub fn open<'a>(layers: impl Iterator<Item = &'a Path>, rights: Rights) -> Result<Self> {
        let open = |path| open_dir(CWD, path).map(Rc::new).map_err(Error::at("open", path));
        let layers = layers.map(open).collect::<Result<_>>()?;
        Ok(Self { layers, opaque: rights.opaque(), looked_up: Rc::default() })
    }

    /// Returns whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Returns the number of lookups of names in single layers since the last call.
    pub fn looked_up(&self) -> u64 {
        self.looked_up.take()
    }

    /// Returns the root directory.
    pub fn root(&self) -> Directory {
        self.layers.clone()
    }

    /// Looks up `name` in `directory`.
    ///
    /// # Errors
    /// Those of the lookup; a missing name is not an error.
    pub fn find(&self, directory: &Directory, name: &OsStr) -> Result<Option<Found>> {
        let mut found = Directory::new();
        for layer in directory {
            self.looked_up.set(self.looked_up.get() + 1);
            let stat = match statat(layer, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT | Errno::NAMETOOLONG) => continue,
                Err(errno) => return Err(Error::at("look up", Path::new(name))(errno)),
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if kind == FileType::Directory {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let lower = openat(layer, name, flags, Mode::empty())
                    .map_err(Error::at("open", Path::new(name)))?;
                let opaque = self.is_opaque(&lower);
                found.push(Rc::new(lower));
                if opaque {
                    break;
                }
                continue;
            }
            // A non-directory hides the layers below; a whiteout hides the name altogether.
            if !found.is_empty() || is_whiteout(&stat) {
                break;
            }
            if kind == FileType::Symlink {
                let target = readlinkat(layer, name, Vec::new())
                    .map_err(Error::at("read link", Path::new(name)))?;
                return Ok(Some(Found::Link(OsString::from_vec(target.into_bytes()))));
            }
            let directory = Rc::clone(layer);
            return Ok(Some(Found::Other(Node { directory, name: name.to_owned(), stat })));
        }
        Ok((!found.is_empty()).then_some(Found::Directory(found)))
    }

    fn is_opaque(&self, directory: impl AsFd) -> bool {
        let mut value = [0u8; 2];
        let name = self.opaque;
        matches!(rustix::fs::fgetxattr(directory, name, &mut value[..]), Ok(1) if value[0] == b'y')
    }

    /// Returns the regular file `path`, following symbolic links inside the root. Returns `None` if there is no such
    /// file.
    ///
    /// # Errors
    /// Those of looking up the components of `path`.
    pub fn file(&self, path: &Path) -> Result<Option<Node>> {
        Ok(match self.walk(path, true)? {
            Some(Found::Other(node)) if node.is_file() => Some(node),
            _ => None,
        })
    }

    /// Returns the contents of the regular file `path`. Returns `None` if there is no such file.
    ///
    /// # Errors
    /// Those of the lookup and of reading; the file is longer than `limit` bytes.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(node) = self.file(Path::new(path))? else { return Ok(None) };
        let mut text = Vec::new();
        node.open()?.take(limit + 1).read_to_end(&mut text).map_err(Error::at("read", path))?;
        ensure!(text.len() as u64 <= limit, "the image's {path} is longer than {limit} bytes");
        Ok(Some(text))
    }

    /// Resolves `path` inside the root. If `follow` is false, symbolic links are not followed: `path` may be one, but may
    /// not lead through one.
    ///
    /// # Errors
    /// Those of looking up the components of `path`.
    pub fn walk(&self, path: &Path, follow: bool) -> Result<Option<Found>> {
        let mut end = None;
        let find = |directory: &Directory, name: &OsStr, is_last| {
            Ok(match self.find(directory, name)? {
                Some(Found::Directory(directory)) => Step::Into(directory),
                Some(Found::Link(target)) if follow => Step::Along(target.into()),
                other => {
                    end = other.filter(|_| is_last);
                    Step::End
                }
            })
        };
        let directory = walk(&self.layers, path, find, || Ok(None))?;
        Ok(directory.map(Found::Directory).or(end))
    }
}

/// A step of a walk.
#[derive(Debug)]
pub enum Step<D> {
    /// Into this directory.
    Into(D),
    /// Along a symbolic link with this target.
    Along(PathBuf),
    /// The walk ends here.
    End,
}

/// Walks from `root` along `path` without leaving `root`: `..` returns to the directory that the walk came through.
/// `step` gets the current directory, the next name, and whether this is the last one. Returns the directory reached, or
/// `None` if `step` ends the walk. After too many symbolic links, returns what `too_many` returns.
///
/// # Errors
/// Those of `step` and `too_many`.
pub fn walk<D: Clone>(
    root: &D,
    path: &Path,
    mut step: impl FnMut(&D, &OsStr, bool) -> Result<Step<D>>,
    too_many: impl FnOnce() -> Result<Option<D>>,
) -> Result<Option<D>> {
    let (mut todo, mut way, mut links) = (words(path), Vec::new(), 0);
    while let Some(word) = todo.pop() {
        if word == ".." {
            way.pop();
            continue;
        }
        match step(way.last().unwrap_or(root), &word, todo.is_empty())? {
            Step::Into(directory) => way.push(directory),
            Step::Along(_) if links == LINKS => return too_many(),
            Step::Along(target) => {
                links += 1;
                if target.is_absolute() {
                    way.clear();
                }
                todo.extend(words(&target));
            }
            Step::End => return Ok(None),
        }
    }
    Ok(Some(way.pop().unwrap_or_else(|| root.clone())))
}

/// Returns whether a file is a whiteout, which hides a name of the layers below.
pub fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Returns the components of a path in reverse order, including `..`.
pub fn words(path: &Path) -> Vec<OsString> {
    let word = |part: Component<'_>| match part {
        Component::Normal(word) => Some(word.to_owned()),
        Component::ParentDir => Some(OsStr::from_bytes(b"..").to_owned()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(word).collect()
}
