//! Sources of images: directories, archives, registries.

mod archive;
mod docker;
mod layout;
mod scratch;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{
    DOCUMENT, Descriptor, INDEX, ImageConfig, Index, MANIFEST, Manifest, Platform, parse,
};
use crate::platform::choose;
use crate::reference::Reference;
use crate::registry::{Access, Remote};
use crate::unpack::Limits;
use archive::Archive;
use report::count::counted;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Blobs, addressed by digest.
#[derive(Debug)]
pub enum Blobs {
    /// A directory in OCI layout.
    Layout(PathBuf),
    /// An archive of a directory in OCI layout, or of `docker save`.
    Archive(Archive),
    /// A repository of a registry.
    Registry(Box<Remote>),
}

impl Blobs {
    /// Opens a blob. Its contents are not verified here.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn open(&self, blob: &Descriptor) -> Result<Box<dyn Read + Send + '_>> {
        match self {
            Self::Layout(directory) => {
                let path = directory.join("blobs/sha256").join(blob.digest.hex());
                let file = File::open(&path).map_err(Error::at("open", &path))?;
                Ok(Box::new(file))
            }
            Self::Archive(archive) => archive.blob(&blob.digest),
            Self::Registry(remote) => remote.blob(blob),
        }
    }

    /// Reads a document and checks its digest.
    ///
    /// # Errors
    /// Those of reading, [`Error::Size`] and [`Error::Digest`].
    pub fn document(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        if let Self::Registry(remote) = self
            && (INDEX.contains(&blob.media_type.as_str())
                || MANIFEST.contains(&blob.media_type.as_str()))
        {
            return remote.manifest_of(blob);
        }
        let (digest, expected) = (blob.digest, blob.size);
        if expected > DOCUMENT {
            return Err(Error::Unfit(format!("document {digest} is longer than {DOCUMENT} bytes")));
        }
        let mut text = Vec::new();
        self.open(blob)?
            .take(expected + 1)
            .read_to_end(&mut text)
            .map_err(Error::at("read", digest.to_string()))?;
        if text.len() as u64 != expected {
            return Err(Error::Size { blob: digest, expected, found: text.len() as u64 });
        }
        digest.check(&text, "the document")?;
        Ok(text)
    }
}

/// An image that can be imported: its documents, and the source of its layers.
#[derive(Debug)]
pub struct Source {
    /// The source of the layers.
    pub blobs: Blobs,
    /// The text of the manifest.
    pub manifest_text: Vec<u8>,
    /// The manifest.
    pub manifest: Manifest,
    /// The text of the configuration.
    pub config_text: Vec<u8>,
    /// The configuration.
    pub config: ImageConfig,
    /// The names of the image in the source.
    pub names: Vec<Reference>,
    /// Whether the manifest was generated here from the archive's contents, and therefore cannot be used to verify
    /// them.
    pub is_manifest_made: bool,
}

impl Source {
    /// Returns the manifest's digest, which identifies the image.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest_text)
    }

    /// Returns the diff-ids of the layers with their blobs.
    ///
    /// # Errors
    /// [`Error::Unfit`] if manifest and configuration disagree.
    pub fn layers(&self) -> Result<Vec<(Digest, &Descriptor)>> {
        let (ids, blobs) = (&self.config.rootfs.diff_ids, &self.manifest.layers);
        if ids.len() != blobs.len() {
            return Err(Error::Unfit(format!(
                "the image's manifest has {} and its configuration {}",
                counted(blobs.len(), "layer"),
                ids.len()
            )));
        }
        Ok(ids.iter().copied().zip(blobs).collect())
    }

    /// Fetches the documents of the image `reference` from its registry.
    ///
    /// # Errors
    /// Those of the network and the registry; there is no image for `platform`.
    pub fn pull(reference: &Reference, platform: &Platform, access: &Access) -> Result<Self> {
        let remote = Remote::of(reference, access)?;
        let (found, text) = remote.find(reference)?;
        let blobs = Blobs::Registry(Box::new(remote));
        Self::follow_text(blobs, found, text, platform, vec![reference.clone()])
    }

    /// Opens the image that `descriptor` refers to. The descriptor's blob is a manifest, or an index of images for
    /// several platforms.
    ///
    /// # Errors
    /// Those of reading documents; there is no image for `platform`.
    pub fn follow(
        blobs: Blobs,
        descriptor: &Descriptor,
        platform: &Platform,
        names: Vec<Reference>,
    ) -> Result<Self> {
        let text = blobs.document(descriptor)?;
        Self::follow_text(blobs, descriptor.clone(), text, platform, names)
    }

    /// Opens the image of `descriptor`, given the text of the descriptor's blob.
    fn follow_text(
        blobs: Blobs,
        mut descriptor: Descriptor,
        mut text: Vec<u8>,
        platform: &Platform,
        names: Vec<Reference>,
    ) -> Result<Self> {
        // An index may contain indexes, but they are never nested deeply.
        for _ in 0..4 {
            if is_index(&descriptor, &text) {
                let index: Index = parse(&text, "the image's index")?;
                descriptor = choose(&index.manifests, platform)?.clone();
                text = blobs.document(&descriptor)?;
                continue;
            }
            let manifest: Manifest = parse(&text, "the image's manifest")?;
            manifest.check()?;
            let config_text = blobs.document(&manifest.config)?;
            let config: ImageConfig = parse(&config_text, "the image's configuration")?;
            config.check()?;
            return Ok(Self {
                blobs,
                manifest_text: text,
                manifest,
                config_text,
                config,
                names,
                is_manifest_made: false,
            });
        }
        Err(Error::Unfit("the image's indexes are nested too deeply".to_owned()))
    }

    /// Opens the image that `text` names on this host: the path of a directory or a file. A transport such as
    /// `oci-archive:` may precede the path, and `:TAG` may follow it.
    ///
    /// # Errors
    /// Those of reading it; several images match.
    pub fn local(text: &str, platform: &Platform, scratch: &Path, limits: &Limits) -> Result<Self> {
        let plain = ["layout:", "oci:", "oci-archive:", "docker-archive:", "archive:"]
            .iter()
            .find_map(|transport| text.strip_prefix(transport))
            .unwrap_or(text);
        let (path, tag) = split_tag(plain);
        if path.is_dir() {
            return layout::open(path, tag, platform);
        }
        let archive = Archive::open(path, scratch, limits)?;
        if archive.has("index.json") {
            return layout::open_archive(archive, path, tag, platform);
        }
        if archive.has("manifest.json") {
            return docker::open(archive, tag);
        }
        Err(Error::Unfit(format!(
            "{} contains no image: neither index.json (OCI) nor manifest.json (Docker) is in it",
            path.display()
        )))
    }
}

/// Splits a text into a path and the tag after it. A text that exists as a path has no tag.
fn split_tag(text: &str) -> (&Path, Option<&str>) {
    if text == "-" || Path::new(text).exists() {
        return (Path::new(text), None);
    }
    let (path, tag) = text.split_at(text.len() - tag_length(text));
    let tag = tag.strip_prefix(':').filter(|tag| !tag.is_empty());
    if tag.is_some() { (Path::new(path), tag) } else { (Path::new(text), None) }
}

/// Returns the length of the tag with its colon. The tag may contain colons, so the path is the shortest part before a
/// colon that exists as a path. If there is no such part, the tag begins at the last colon.
fn tag_length(text: &str) -> usize {
    let mut colons = text.match_indices(':').map(|(at, _)| at);
    let found = colons.find(|&at| Path::new(&text[..at]).exists());
    found.or_else(|| text.rfind(':')).map_or(0, |at| text.len() - at)
}

fn is_index(descriptor: &Descriptor, text: &[u8]) -> bool {
    if MANIFEST.contains(&descriptor.media_type.as_str()) {
        return false;
    }
    INDEX.contains(&descriptor.media_type.as_str()) || serde_json::from_slice::<Index>(text).is_ok()
}
