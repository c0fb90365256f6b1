//! Sources of images: directories, archives, registries.

mod archive;
mod docker;
mod layout;
mod rootfs;
mod scratch;

use crate::digest::Digest;
use crate::error::{Error, Result, ensure, unfit};
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
    /// Those of reading; the length or the digest differs.
    pub fn document(&self, blob: &Descriptor) -> Result<Vec<u8>> {
        let (digest, expected) = (blob.digest, blob.size);
        let text = match self {
            Self::Registry(remote) if blob.is(INDEX) || blob.is(MANIFEST) => {
                remote.manifest(&digest.to_string())?.1
            }
            _ => {
                ensure!(expected <= DOCUMENT, "document {digest} is longer than {DOCUMENT} bytes");
                let text = read_up_to(self.open(blob)?, expected + 1, digest.to_string())?;
                if text.len() as u64 != expected {
                    return Err(blob.wrong_size(text.len() as u64));
                }
                text
            }
        };
        digest.check(Digest::of(&text), "the document")?;
        Ok(text)
    }
}

/// Reads at most `most` bytes; `path` is used in errors.
fn read_up_to(from: impl Read, most: u64, path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(most).read_to_end(&mut text).map_err(Error::at("read", path))?;
    Ok(text)
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
    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest_text)
    }

    /// Returns the diff-ids of the layers with their blobs.
    ///
    /// # Errors
    /// [`Error::Unfit`] if manifest and configuration disagree.
    pub fn layers(&self) -> Result<Vec<(Digest, &Descriptor)>> {
        let (ids, blobs) = (&self.config.rootfs.diff_ids, &self.manifest.layers);
        ensure!(
            ids.len() == blobs.len(),
            "the image's manifest has {} and its configuration {}",
            counted(blobs.len(), "layer"),
            ids.len()
        );
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
        Self::follow(blobs, found, text, platform, vec![reference.clone()])
    }

    /// Opens the image of `descriptor`, whose blob has the contents `text`: a manifest, or an index of images for
    /// several platforms.
    ///
    /// # Errors
    /// Those of reading documents; there is no image for `platform`.
    fn follow(
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
            let (manifest_text, is_manifest_made) = (text, false);
            return Ok(Self {
                blobs,
                manifest_text,
                manifest,
                config_text,
                config,
                names,
                is_manifest_made,
            });
        }
        Err(unfit!("the image's indexes are nested too deeply"))
    }

    /// An image in an archive without a manifest of its own.
    fn made(
        archive: Archive,
        manifest: Manifest,
        config_text: Vec<u8>,
        config: ImageConfig,
        names: Vec<Reference>,
    ) -> Result<Self> {
        let manifest_text =
            serde_json::to_vec(&manifest).map_err(Error::at("write", "manifest"))?;
        let (blobs, is_manifest_made) = (Blobs::Archive(archive), true);
        Ok(Self { blobs, manifest_text, manifest, config_text, config, names, is_manifest_made })
    }

    /// Opens a root filesystem, of which an image is made.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn rootfs(
        text: &str,
        platform: &Platform,
        scratch: &Path,
        limits: &Limits,
    ) -> Result<Self> {
        rootfs::open(Path::new(text), platform, scratch, limits)
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
            let index = path.join("index.json");
            ensure!(
                index.exists(),
                "{} contains no image: an OCI layout has an index.json; --rootfs imports a root filesystem",
                path.display()
            );
            let file = File::open(&index).map_err(Error::at("open", &index))?;
            let text = read_up_to(file, DOCUMENT, &index)?;
            return layout::open(Blobs::Layout(path.to_owned()), &text, path, tag, platform);
        }
        let archive = Archive::open(path, scratch, limits)?;
        if archive.has("index.json") {
            let text = archive.read("index.json")?;
            return layout::open(Blobs::Archive(archive), &text, path, tag, platform);
        }
        ensure!(
            archive.has("manifest.json"),
            "{} contains no image: neither index.json (OCI) nor manifest.json (Docker) is in it; --rootfs \
             imports a root filesystem",
            path.display()
        );
        docker::open(archive, tag)
    }
}

/// Splits a text into a path and the tag after it. A text that exists as a path has no tag. The tag may contain colons,
/// so the path is the shortest part before a colon that exists as a path. If there is no such part, the tag begins at the
/// last colon.
fn split_tag(text: &str) -> (&Path, Option<&str>) {
    let exists = |path: &str| Path::new(path).exists();
    if text == "-" || exists(text) {
        return (Path::new(text), None);
    }
    let mut parts = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    match parts.find(|(path, _)| exists(path)).or_else(|| text.rsplit_once(':')) {
        Some((path, tag)) if !tag.is_empty() => (Path::new(path), Some(tag)),
        _ => (Path::new(text), None),
    }
}

fn is_index(descriptor: &Descriptor, text: &[u8]) -> bool {
    descriptor.is(INDEX)
        || (!descriptor.is(MANIFEST) && serde_json::from_slice::<Index>(text).is_ok())
}
