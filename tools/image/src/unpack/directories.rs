//! The state that is kept for a layer's directories until the layer is complete: attributes, and which directories are
//! opaque. An archive can require any amount of such state, so all of it is charged to the import's memory limit.

use super::attributes::Attributes;
use super::limits::Shared;
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// The number of bytes charged per directory, in addition to its name and extended attributes: its share of a
/// half-empty B-tree node, and the allocator's overhead.
const DIRECTORY: u64 = 256;
/// The number of bytes charged per directory without an entry. Such a directory takes a disk block, although the
/// archive has no bytes for it.
const IMPLIED: u64 = 1024;
/// The number of bytes charged per name, in addition to its length.
const NAME: u64 = 96;

/// A directory.
#[derive(Debug)]
struct Kept {
    attributes: Attributes,
    /// Whether the directory has no entry of its own.
    implied: bool,
}

/// The directories of one layer.
#[derive(Debug)]
pub struct Directories<'a> {
    all: BTreeMap<PathBuf, Kept>,
    opaque: BTreeSet<PathBuf>,
    shared: &'a Shared,
    /// The bytes of memory that are charged.
    charged: u64,
}

fn length(path: &Path) -> u64 {
    path.as_os_str().len() as u64
}

fn weight(path: &Path, kept: &Kept) -> u64 {
    let base = if kept.implied { IMPLIED } else { DIRECTORY };
    base + length(path) + kept.attributes.weight()
}

/// Shrinks the capacity of a key to the key's length.
fn exact(mut path: PathBuf) -> PathBuf {
    path.shrink_to_fit();
    path
}

impl<'a> Directories<'a> {
    /// Returns an empty set.
    pub fn new(shared: &'a Shared) -> Self {
        Self { all: BTreeMap::new(), opaque: BTreeSet::new(), shared, charged: 0 }
    }

    /// Returns the state shared by all layers.
    pub fn shared(&self) -> &'a Shared {
        self.shared
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        self.charged += bytes;
        self.shared.keep(bytes)
    }

    fn release(&mut self, bytes: u64) {
        self.charged -= bytes;
        self.shared.release(bytes);
    }

    /// Adds a directory with its final attributes.
    ///
    /// # Errors
    /// The memory limit is exceeded.
    pub fn insert(&mut self, path: PathBuf, attributes: Attributes, implied: bool) -> Result<()> {
        let kept = Kept { attributes, implied };
        self.charge(weight(&path, &kept))?;
        if let Some(old) = self.all.get(&path).map(|old| weight(&path, old)) {
            self.release(old);
        }
        self.all.insert(exact(path), kept);
        Ok(())
    }

    /// Returns whether the set contains the directory `path`.
    pub fn contains(&self, path: &Path) -> bool {
        self.all.contains_key(path)
    }

    /// Marks a directory as opaque. Returns true unless it was already marked.
    ///
    /// # Errors
    /// The memory limit is exceeded.
    pub fn hide_below(&mut self, path: &Path) -> Result<bool> {
        if self.opaque.contains(path) {
            return Ok(false);
        }
        self.charge(NAME + length(path))?;
        Ok(self.opaque.insert(exact(path.to_owned())))
    }

    /// Returns whether the directory or an ancestor is opaque.
    pub fn hides_below(&self, path: &Path) -> bool {
        !self.opaque.is_empty() && path.ancestors().any(|above| self.opaque.contains(above))
    }

    /// Removes a directory and everything below it. In the order of paths, these directories are adjacent.
    pub fn forget(&mut self, path: &Path) {
        let from = (Bound::Included(path), Bound::Unbounded);
        let inside = |other: &&PathBuf| other.starts_with(path);
        let gone: Vec<PathBuf> = self
            .all
            .range::<Path, _>(from)
            .map(|(path, _)| path)
            .take_while(inside)
            .cloned()
            .collect();
        for path in gone {
            if let Some(kept) = self.all.remove(&path) {
                self.release(weight(&path, &kept));
            }
        }
        let gone: Vec<PathBuf> =
            self.opaque.range::<Path, _>(from).take_while(inside).cloned().collect();
        for path in gone {
            self.opaque.remove(&path);
            self.release(NAME + length(&path));
        }
    }

    /// Iterates over all directories, the innermost first.
    pub fn innermost_first(&self) -> impl Iterator<Item = (&Path, &Attributes)> {
        self.all.iter().rev().map(|(path, kept)| (path.as_path(), &kept.attributes))
    }

    /// Returns the directories without an entry of their own. Their names stay charged until the end of the import.
    ///
    /// # Errors
    /// The memory limit is exceeded.
    pub fn into_implied(mut self) -> Result<Vec<PathBuf>> {
        let all = std::mem::take(&mut self.all).into_iter().filter(|(_, kept)| kept.implied);
        let mut implied: Vec<PathBuf> = all.map(|(path, _)| path).collect();
        implied.shrink_to_fit();
        let shared = self.shared;
        drop(self);
        keep_names(shared, &implied)?;
        Ok(implied)
    }
}

impl Drop for Directories<'_> {
    fn drop(&mut self) {
        self.shared.release(self.charged);
    }
}

/// Charges names that are kept until the end of the import.
///
/// # Errors
/// The memory limit is exceeded.
pub fn keep_names(shared: &Shared, names: &[PathBuf]) -> Result<()> {
    shared.keep(names.iter().map(|path| NAME + length(path)).sum())
}

#[cfg(test)]
mod tests {
    use super::super::limits::{Limits, USUAL};
    use super::*;

    #[test]
    fn what_is_forgotten_is_what_is_inside() {
        let shared = Shared::new(USUAL);
        let mut all = Directories::new(&shared);
        for path in ["a", "a/b", "a/b/c", "a b", "a-b", "a/b-c", "b"] {
            all.insert(path.into(), Attributes::plain_directory(), path == "a-b").expect("room");
            assert!(all.hide_below(Path::new(path)).expect("room"));
        }
        all.forget(Path::new("a/b"));
        assert!(all.hides_below(Path::new("a/b")), "by a");
        all.forget(Path::new("a"));
        assert!(!all.hides_below(Path::new("a/b/c")));
        let left: Vec<&Path> = all.innermost_first().map(|(path, _)| path).collect();
        assert_eq!(left, ["b", "a-b", "a b"].map(Path::new));
        assert_eq!(all.into_implied().expect("room"), [PathBuf::from("a-b")]);
    }

    #[test]
    fn what_is_released_can_be_kept_again() {
        let shared = Shared::new(Limits { memory: 1000, ..USUAL });
        for _ in 0..3 {
            let mut all = Directories::new(&shared);
            let mut insert =
                |path: &str| all.insert(path.into(), Attributes::plain_directory(), false);
            for path in ["a", "a", "a", "b", "c"] {
                insert(path).expect(path);
            }
            assert!(insert("d").is_err());
        }
        shared.keep(1000).expect("all of it");
    }
}
