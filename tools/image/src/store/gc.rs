//! Removes unused images and layers.
//!
//! An image is kept if a name refers to it, or the link `image` of a container or a mount.

use super::{Lock, Store};
use crate::digest::Digest;
use crate::error::{Error, Result, if_there};
use std::collections::BTreeSet;
use std::fs;

/// The numbers of removed images, layers and bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// The number of images.
    pub images: usize,
    /// The number of layers.
    pub layers: usize,
    /// The number of bytes in the files of the layers.
    pub bytes: u64,
}

impl Store {
    /// Removes images that have no name, container or mount, and layers that belong to no image.
    ///
    /// # Errors
    /// Those of reading and removing.
    pub fn collect(&self, _claim: &Lock) -> Result<Freed> {
        let mut freed = Freed::default();
        let work = self.work()?;
        let named = self.images_in_use()?;
        let mut used = BTreeSet::new();
        for name in self.names("images")? {
            if named.contains(&name) {
                used.extend(self.layers_of(&name)?);
            } else {
                self.discard(&work, "images", &name)?;
                freed.images += 1;
            }
        }
        for part in ["layers", "records"] {
            for name in self.names(part)?.into_iter().filter(|name| !used.contains(name)) {
                if part == "layers" {
                    let digest = Digest::from_hex(&name);
                    let info = digest.and_then(|digest| self.find_layer(digest).ok().flatten());
                    freed.layers += 1;
                    freed.bytes += info.map_or(0, |layer| layer.size);
                }
                self.discard(&work, part, &name)?;
            }
        }
        Ok(freed)
    }

    /// Returns the images that a reference, a container or a mount refers to.
    fn images_in_use(&self) -> Result<BTreeSet<String>> {
        let mut used = BTreeSet::new();
        // A name that this version cannot parse keeps its image as well.
        let names = self.names("refs")?;
        let mut links: Vec<_> = names.iter().map(|name| self.path("refs", name)).collect();
        for part in ["containers", "mounts"] {
            links.extend(self.names(part)?.iter().map(|name| self.path(part, name).join("image")));
        }
        for link in links {
            let target = if_there(fs::read_link(&link)).map_err(Error::at("read", &link))?;
            let name = target.as_ref().and_then(|target| target.file_name());
            used.extend(name.map(|name| name.to_string_lossy().into_owned()));
        }
        Ok(used)
    }

    /// Returns the names of an image's layers.
    fn layers_of(&self, image: &str) -> Result<Vec<String>> {
        let path = self.path("images", image).join("layers");
        let text = fs::read_to_string(&path).map_err(Error::at("read", &path))?;
        let name = |line: &str| line.rsplit('/').next().map(str::to_owned);
        Ok(text.lines().filter_map(name).collect())
    }
}
