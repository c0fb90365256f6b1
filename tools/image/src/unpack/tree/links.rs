//! Hard links: to files of the layer, and to files of the layers below, which are copied up first.

use super::{Place, Tree, parent_and_name};
use crate::error::{Error, Result};
use crate::merged::{Found, is_whiteout, words};
use crate::unpack::attributes::Attributes;
use rustix::fs::{AtFlags, linkat};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes of memory charged for a copied file of a layer below.
const COPIED: u64 = 64;

impl Tree<'_> {
    /// Creates a hard link to the file `target`. A file of a layer below is copied up first, as overlayfs would do.
    ///
    /// # Errors
    /// [`Error::NeedsBelow`] if the file is not in this layer and the layers below are not available; else those of
    /// linkat(2).
    pub fn hard_link(&mut self, place: &Place, name: &OsStr, target: &[u8]) -> Result<()> {
        let needed = || Error::NeedsBelow(String::from_utf8_lossy(target).into_owned());
        let (from, old) = match self.existing(target)? {
            Some(found) => found,
            None => self.copy_up(target)?.ok_or_else(needed)?,
        };
        if from.path.join(&old) == place.path.join(name) {
            return Ok(());
        }
        if self.stat(&from, &old)?.is_some_and(|stat| is_whiteout(&stat)) {
            return Err(needed());
        }
        self.make(place, name, "link", || linkat(&from.fd, &old, &place.fd, name, AtFlags::empty()))
    }

    /// Returns the directory and the name of the object `target`, if this layer contains the object.
    fn existing(&mut self, target: &[u8]) -> Result<Option<(Place, OsString)>> {
        let path = Path::new(OsStr::from_bytes(target));
        let words = words(path);
        if words.is_empty() || words.iter().any(|word| word == "..") {
            return Err(Error::hostile(path, "a hard link may not lead there"));
        }
        let (parent, name) = parent_and_name(words);
        let Some(place) = self.walk(&parent, false)? else { return Ok(None) };
        Ok(self.stat(&place, &name)?.is_some().then_some((place, name)))
    }

    /// Copies up the file `target` from the layers below. Returns the directory and the name of the copy.
    fn copy_up(&mut self, target: &[u8]) -> Result<Option<(Place, OsString)>> {
        let Some(below) = &self.below else { return Ok(None) };
        let path = Path::new(OsStr::from_bytes(target));
        let Some(node) = below.file(path)? else { return Ok(None) };
        let (place, name) = self.place(target)?;
        if !matches!(self.find_below(&place.path, &name)?, Some(Found::Other(_))) {
            return Ok(None);
        }
        if !self.copied.insert((node.stat.st_dev, node.stat.st_ino)) {
            let reason = "the layer removes the file after its copy-up, and then links to it again";
            return Err(Error::hostile(path, reason));
        }
        let shared = self.directories.shared();
        shared.count_entry()?;
        shared.count_bytes(node.stat.st_size.cast_unsigned())?;
        shared.keep(COPIED)?;
        let from = node.open()?.into();
        let attributes = Attributes::of(&from, &node.stat)?;
        let to = self.file(&place, &name, attributes.mode)?.into();
        rootfs::with_holes(&from, &to, node.stat.st_size.cast_unsigned())
            .map_err(Error::at("copy", path))?;
        attributes.apply_to_file(&to, path)?;
        Ok(Some((place, name)))
    }
}
