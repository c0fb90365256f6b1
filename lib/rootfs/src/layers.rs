//! The layers of a root filesystem, grouped by mount, because a single open_tree(2) can clone the mount of a whole
//! group.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ffi::CStr;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode as Permissions, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use sys::Context;

use crate::Error;

/// The maximum number of layers of overlayfs (OVL_MAX_STACK).
pub const MOST_LAYERS: usize = 500;

/// The layers of a root filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    /// Directories that contain layers, one for each mount; each is id-mapped once.
    pub parents: Vec<CString>,
    /// The layers, top first, as overlayfs expects them.
    pub stack: Vec<Layer>,
}

/// A layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The index of the layer's parent directory in `parents`.
    pub parent: usize,
    /// The layer's path below the parent directory; `.` is the parent directory itself.
    pub name: CString,
}

impl Layers {
    /// Parses a list of layers: one absolute directory per line, the bottom layer first. All layers
    /// are assumed to be on the mount of their common directory. This is true for an image store,
    /// because nothing is mounted below a store.
    ///
    /// # Errors
    /// If there are no layers, too many layers, or a path that is not absolute.
    pub fn of_store(text: &str) -> Result<Self, Error> {
        let paths = paths(text)?;
        let all: Vec<(u64, &str)> = paths.iter().map(|path| (0, *path)).collect();
        Self::grouped(&all)
    }

    /// Parses a list of layers in any directories, and groups the layers by their mounts.
    ///
    /// # Errors
    /// As [`Layers::of_store`], and if a layer does not exist.
    pub fn anywhere(text: &str) -> Result<Self, Error> {
        Self::by_mount(paths(text)?)
    }

    /// Groups paths by their mounts as [`Layers::anywhere`] does; the top layer comes first.
    ///
    /// # Errors
    /// As [`Layers::anywhere`].
    pub fn stacked<'a>(stack: impl Iterator<Item = &'a str>) -> Result<Self, Error> {
        Self::by_mount(plain(stack)?)
    }

    fn by_mount(paths: Vec<&str>) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = statx(CWD, path, flags, StatxFlags::MNT_ID | StatxFlags::TYPE);
            let stat = stat.context("stat layer", path)?;
            if FileType::from_raw_mode(stat.stx_mode.into()) != FileType::Directory {
                return Err(sys::Error::new("open layer", path, Errno::NOTDIR).into());
            }
            all.push((stat.stx_mnt_id, path));
        }
        Self::grouped(&all)
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.stack.len()
    }

    /// Returns whether there are no layers. A parsed list always has some.
    pub fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }

    /// The path of a layer of the stack.
    pub(crate) fn path_of(&self, layer: &Layer) -> Result<CString, Error> {
        let parent = self.parents.get(layer.parent).map(|parent| parent.to_string_lossy());
        c_string(&format!("{}/{}", parent.unwrap_or_default(), layer.name.to_string_lossy()))
    }

    /// Groups the paths of layers by their mounts. In `all`, the top layer comes first.
    fn grouped(all: &[(u64, &str)]) -> Result<Self, Error> {
        let mut mounts: Vec<(u64, &str)> = Vec::new();
        for (mount, path) in all {
            match mounts.iter_mut().find(|(known, _)| known == mount) {
                Some((_, parent)) => *parent = common(parent, path),
                None => mounts.push((*mount, path)),
            }
        }
        let mut layers = Self { parents: Vec::new(), stack: Vec::with_capacity(all.len()) };
        for (_, parent) in &mounts {
            layers.parents.push(c_string(if parent.is_empty() { "/" } else { parent })?);
        }
        for (mount, path) in all {
            let parent = mounts.iter().position(|(known, _)| known == mount).unwrap_or_default();
            let above = mounts.get(parent).map_or("", |(_, parent)| parent);
            let name = path.get(above.len()..).unwrap_or_default().trim_start_matches('/');
            let name = c_string(if name.is_empty() { "." } else { name })?;
            layers.stack.push(Layer { parent, name });
        }
        Ok(layers)
    }
}

/// Returns the lines in reverse order: the top layer first.
fn paths(text: &str) -> Result<Vec<&str>, Error> {
    plain(text.lines().rev().filter(|line| !line.is_empty()))
}

/// Checks that paths are absolute and have no `.`, `..` or empty components.
fn plain<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<&'a str>, Error> {
    let mut paths = Vec::new();
    for line in lines {
        let path = line.trim_end_matches('/');
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        if !path.strip_prefix('/').is_some_and(|path| path.split('/').all(plain)) {
            return Err(Error::BadLayer(line.to_string()));
        }
        paths.push(path);
    }
    match paths.len() {
        0 => Err(Error::NoLayers),
        count if count > MOST_LAYERS => Err(Error::TooManyLayers(count)),
        _ => Ok(paths),
    }
}

/// Returns the deepest directory that contains both paths or is equal to one of them.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let mut end = 0;
    for part in one.split_inclusive('/') {
        let next = end + part.len();
        let name = one.get(..next).unwrap_or_default().trim_end_matches('/');
        let rest = other.strip_prefix(name);
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            break;
        }
        end = next;
    }
    one.get(..end).unwrap_or_default().trim_end_matches('/')
}

pub(crate) fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::BadLayer(String::from(text)))
}

/// Opens a directory, without following a symbolic link in the last component.
pub(crate) fn open_directory(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Permissions::empty())
}

/// Opens a layer below its parent, without following symbolic links.
pub(crate) fn open_layer(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    sys::inside::open(parent, name, flags, sys::inside::Links::Refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(layers: &Layers) -> Vec<(usize, &str)> {
        layers.stack.iter().map(|layer| (layer.parent, layer.name.to_str().unwrap())).collect()
    }

    #[test]
    fn layers_of_a_store_have_one_parent() {
        let layers = Layers::of_store("/s/layers/aa\n/s/layers/ab\n\n/s/layers/b\n").unwrap();
        assert_eq!(layers.parents, [c"/s/layers".to_owned()]);
        assert_eq!(names(&layers), [(0, "b"), (0, "ab"), (0, "aa")]);
    }

    #[test]
    fn snapshots_have_the_directory_above_them_all() {
        let layers = Layers::of_store("/var/snap/1/fs\n/var/snap/12/fs/\n").unwrap();
        assert_eq!(layers.parents, [c"/var/snap".to_owned()]);
        assert_eq!(names(&layers), [(0, "12/fs"), (0, "1/fs")]);
        let apart = Layers::of_store("/a\n/b\n").unwrap();
        assert_eq!(apart.parents, [c"/".to_owned()]);
        assert_eq!(names(&apart), [(0, "b"), (0, "a")]);
    }

    #[test]
    fn each_mount_has_a_parent_of_its_own() {
        let layers = Layers::grouped(&[(7, "/a/x"), (9, "/m"), (7, "/a/y")]).unwrap();
        assert_eq!(layers.parents, [c"/a".to_owned(), c"/m".to_owned()]);
        assert_eq!(names(&layers), [(0, "x"), (1, "."), (0, "y")]);
    }

    #[test]
    fn a_parent_that_is_a_layer_itself() {
        let layers = Layers::of_store("/a/b\n/a/b/c\n").unwrap();
        assert_eq!(layers.parents, [c"/a/b".to_owned()]);
        assert_eq!(names(&layers), [(0, "c"), (0, ".")]);
    }

    #[test]
    fn paths_are_absolute_and_plain() {
        for bad in ["a", "/", "/a/../b", "/a//b", "/./a"] {
            assert_eq!(Layers::of_store(bad), Err(Error::BadLayer(bad.into())), "{bad}");
        }
    }

    #[test]
    fn a_layer_that_is_not_there() {
        assert!(matches!(Layers::anywhere("/no/such/layer"), Err(Error::System(_))));
        let layers = Layers::anywhere("/usr\n/usr/bin\n").unwrap();
        assert_eq!(layers.len(), 2);
    }
}
