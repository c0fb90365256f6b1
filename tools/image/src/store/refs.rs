//! Images in the store and their names.
//!
//! A name is stored in its shortest form (`rootfs::name`), so all spellings of a name are one link. Links of older
//! versions, which stored names as they were written, are still found, and are removed together with the name.

use super::Store;
use super::work::{Work, remove_tree, rename, replace};
use crate::digest::Digest;
use crate::error::{Error, Result, if_there, unfit};
use crate::reference::Reference;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// An image in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of the image's manifest.
    pub digest: Digest,
    /// The directory of the image.
    pub path: PathBuf,
}

impl Image {
    /// Reads one of the image's files.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path.join(name);
        fs::read(&path).map_err(Error::at("read", &path))
    }
}

/// An image that was looked up.
#[derive(Debug)]
pub struct Named {
    /// The image.
    pub image: Image,
    /// The name of the image, if it was found by name.
    pub name: Option<Reference>,
    /// A sentence for the user that states the full name, if only the last part of the name was given.
    pub remark: Option<String>,
}

impl Store {
    /// Moves a complete image from `work` (its directory `image`) into the store, replacing an older one with the same
    /// manifest.
    ///
    /// # Errors
    /// Those of renaming.
    pub fn publish_image(&self, work: &Work, digest: Digest) -> Result<Image> {
        let (from, path) = (work.path().join("image"), self.image(&digest));
        replace(&from, &path)?;
        Ok(Image { digest, path })
    }

    /// Makes `reference` refer to an image.
    ///
    /// # Errors
    /// Those of creating and renaming the link.
    pub fn set_ref(&self, reference: &Reference, image: Digest) -> Result<()> {
        let work = self.work()?;
        let (link, path) = (work.path().join("ref"), self.path("refs", &reference.file_name()));
        symlink(format!("../images/{}", image.hex()), &link).map_err(Error::at("make", &link))?;
        fs::rename(&link, &path).map_err(Error::at("rename to", &path))?;
        self.remove_old_spelling(reference).map(|_| ())
    }

    /// Returns the image with exactly this name, if any.
    ///
    /// # Errors
    /// Those of reading directories and links.
    pub fn image_of(&self, reference: &Reference) -> Result<Option<Digest>> {
        let found = self.refs()?.into_iter().find(|(name, _)| name == reference);
        Ok(found.map(|(_, image)| image))
    }

    /// Removes the link that earlier versions of dayfly created for the name, if those versions encoded the name
    /// differently. Returns whether the link existed.
    fn remove_old_spelling(&self, reference: &Reference) -> Result<bool> {
        match reference.old_file_name() {
            Some(old) => remove(&self.path("refs", &old)),
            None => Ok(false),
        }
    }

    /// Removes a name. Returns whether the name still existed: another command may have removed it before.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn remove_ref(&self, reference: &Reference) -> Result<bool> {
        let old = self.remove_old_spelling(reference)?;
        Ok(remove(&self.path("refs", &reference.file_name()))? || old)
    }

    /// Returns all names, sorted, with their images.
    ///
    /// # Errors
    /// Those of reading directories and links.
    pub fn refs(&self) -> Result<Vec<(Reference, Digest)>> {
        let mut all = Vec::new();
        let files = self.names("refs")?;
        for file in &files {
            let reference = Reference::from_file_name(file).ok();
            // A link of an older version is skipped if the name also has a newer link, because lookups find the newer
            // one.
            let is_old = reference.as_ref().map(Reference::file_name).filter(|new| new != file);
            if is_old.is_some_and(|new| files.contains(&new)) {
                continue;
            }
            let path = self.path("refs", file);
            let target = if_there(fs::read_link(&path)).map_err(Error::at("read", &path))?;
            all.extend(reference.zip(target.as_deref().and_then(digest_of)));
        }
        all.sort_by_key(|(reference, _)| reference.to_string());
        Ok(all)
    }

    /// Returns the names of an image, sorted.
    ///
    /// # Errors
    /// Those of reading directories and links.
    pub fn names_of(&self, image: &Image) -> Result<Vec<Reference>> {
        let refs = self.refs()?.into_iter().filter(|(_, digest)| *digest == image.digest);
        Ok(refs.map(|(name, _)| name).collect())
    }

    /// Returns all images, including those without a name.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn images(&self) -> Result<Vec<Image>> {
        let names = self.names("images")?;
        let digests = names.iter().filter_map(|name| Digest::from_hex(name));
        Ok(digests.map(|digest| Image { digest, path: self.image(&digest) }).collect())
    }

    /// Finds the image for `text`: a reference, a manifest digest, or a prefix of such a digest.
    ///
    /// # Errors
    /// [`Error::NoImage`] if there is none, [`Error::Unfit`] if there are several.
    pub fn find_named(&self, text: &str) -> Result<Named> {
        let found = rootfs::image::look_up(&self.root.to_string_lossy(), text)?;
        let remark = found.remark(text);
        let path = PathBuf::from(found.directory);
        let digest =
            digest_of(&path).ok_or_else(|| unfit!("{} is not an image", path.display()))?;
        let name = found.name.and_then(|name| Reference::parse(&name).ok());
        Ok(Named { image: Image { digest, path }, name, remark })
    }

    /// Returns the names in a directory of the store.
    pub(super) fn names(&self, part: &str) -> Result<Vec<String>> {
        let path = self.root.join(part);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(Error::at("read", &path))? {
            let name = entry.map_err(Error::at("read", &path))?.file_name();
            names.extend(name.into_string());
        }
        Ok(names)
    }

    /// Removes an object: hides it by renaming it to `work`, and then deletes it.
    pub(super) fn discard(&self, work: &Work, part: &str, name: &str) -> Result<()> {
        let (from, to) = (self.path(part, name), work.path().join(name));
        match rename(&from, &to, RenameFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::at("remove", &from)(errno)),
            Ok(()) => remove_tree(&to),
        }
    }
}

/// Returns the digest of an image, which is the name of its directory.
fn digest_of(directory: &Path) -> Option<Digest> {
    Digest::from_hex(directory.file_name()?.to_str()?)
}

/// Removes a link. Returns whether the link existed.
fn remove(path: &Path) -> Result<bool> {
    let removed = if_there(fs::remove_file(path)).map_err(Error::at("remove", path))?;
    Ok(removed.is_some())
}
