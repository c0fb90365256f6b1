//! The documents of the OCI image specification, as far as they are used here, and Docker's older media types for them.
//! Unknown members are ignored.

use crate::digest::Digest;
use crate::error::{Error, Result, ensure, unfit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The maximum length of a document (index, manifest, configuration) in bytes; the same limit as in registries and
/// other clients.
pub const DOCUMENT: u64 = 4 << 20;
/// The maximum number of strings in a document's lists: annotations, labels, variables. In memory, each string takes
/// many times its length.
const WORDS: usize = 20_000;
/// The maximum number of layers of an image. The kernel mounts at most 500 layers. An image with more layers would take
/// long to import, because each layer is searched for every layer above it.
const LAYERS: usize = 1000;

/// Media types of an index (a list of manifests).
pub const INDEX: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// Media types of a manifest.
pub const MANIFEST: &[&str] = &[
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
/// Media types of an image's configuration.
pub const CONFIG: &[&str] =
    &["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// The media type of a layer, followed by `+gzip` or `+zstd`.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The annotation with an image's name.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation in which containerd, Docker and Podman put an image's name with its registry.
pub const FULL_NAME: &str = "io.containerd.image.name";

/// A map of strings, such as annotations and labels, or `null`.
pub type Strings = Option<BTreeMap<String, String>>;

/// A reference to a blob.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type of the blob.
    #[serde(default)]
    pub media_type: String,
    /// The digest of the blob.
    pub digest: Digest,
    /// The length of the blob, in bytes.
    pub size: u64,
    /// The platform of a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Strings,
}

impl Descriptor {
    /// Returns a descriptor without a platform and annotations.
    pub fn new(kind: &str, digest: Digest, size: u64) -> Self {
        Self { media_type: kind.to_owned(), digest, size, platform: None, annotations: None }
    }

    /// Returns an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// Returns the error of a blob that is longer or shorter than the descriptor states. If it is too long, `found` is
    /// the number of bytes read so far.
    pub fn wrong_size(&self, found: u64) -> Error {
        let Self { digest, size, .. } = self;
        let most = if found > *size { "at least " } else { "" };
        unfit!("blob {digest} must have {size} bytes and has {most}{found}")
    }

    /// Returns whether the media type is one of `kinds`.
    pub fn is(&self, kinds: &[&str]) -> bool {
        kinds.contains(&self.media_type.as_str())
    }
}

/// The platform of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Go's name of the architecture, such as `amd64`.
    pub architecture: String,
    /// The operating system: `linux`.
    pub os: String,
    /// The variant of the architecture, such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A list of manifests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The version of the format: 2.
    pub schema_version: u32,
    /// The media type of the index itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests, or further lists.
    pub manifests: Vec<Descriptor>,
}

/// The parts of one image.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The version of the format: 2.
    pub schema_version: u32,
    /// The media type of the manifest itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// The layers, the bottom one first.
    pub layers: Vec<Descriptor>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Strings,
}

/// An image's configuration.
#[derive(Debug, Clone, Deserialize)]
pub struct ImageConfig {
    /// The time at which the image was created, in RFC 3339 format.
    pub created: Option<String>,
    /// The author.
    pub author: Option<String>,
    /// Go's name of the architecture.
    #[serde(default)]
    pub architecture: String,
    /// The operating system.
    #[serde(default)]
    pub os: String,
    /// The architecture's variant.
    pub variant: Option<String>,
    /// The defaults for containers of the image.
    #[serde(default)]
    pub config: Option<Execution>,
    /// The diff-ids of the layers.
    pub rootfs: RootFs,
}

impl ImageConfig {
    /// Rejects a configuration with too many strings.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the limit.
    pub fn check(&self) -> Result<()> {
        let Some(run) = &self.config else { return Ok(()) };
        let lists = [&run.env, &run.entrypoint, &run.cmd];
        let words: usize = lists.into_iter().flatten().map(Vec::len).sum();
        few_words("configuration", words + run.labels.iter().flatten().count())
    }

    /// Returns the platform of the image. Strings that the image does not state are empty.
    pub fn platform(&self) -> Platform {
        Platform {
            architecture: self.architecture.clone(),
            os: self.os.clone(),
            variant: self.variant.clone(),
        }
    }
}

/// The default process of a container.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Execution {
    /// The user of the process: `user`, `uid`, `user:group`, …
    pub user: Option<String>,
    /// The environment variables, each as `NAME=value`.
    pub env: Option<Vec<String>>,
    /// The fixed first words of the command.
    pub entrypoint: Option<Vec<String>>,
    /// The other words, which the user may replace.
    pub cmd: Option<Vec<String>>,
    /// The working directory.
    pub working_dir: Option<String>,
    /// Labels.
    pub labels: Strings,
    /// The signal that stops the container.
    pub stop_signal: Option<String>,
}

/// The diff-ids of the layers.
#[derive(Debug, Clone, Deserialize)]
pub struct RootFs {
    /// The digests of the uncompressed archives, the bottom one first.
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
}

/// Parses a document; `what` names it in errors.
///
/// # Errors
/// [`Error::Unfit`] if it is not valid JSON of that type.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| unfit!("{what} is invalid: {error}"))
}

fn few_words(what: &str, words: usize) -> Result<()> {
    ensure!(
        words <= WORDS,
        "the image's {what} has {words} words, variables, labels or annotations, and {WORDS} are read"
    );
    Ok(())
}

impl Manifest {
    /// Returns an OCI manifest.
    pub fn new(config: Descriptor, layers: Vec<Descriptor>, annotations: Strings) -> Self {
        let media_type = Some(MANIFEST[0].to_owned());
        Self { schema_version: 2, media_type, config, layers, annotations }
    }

    /// Rejects a manifest that is not of a container image, is incomplete, or exceeds a limit.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the reason.
    pub fn check(&self) -> Result<()> {
        let kind = self.config.media_type.as_str();
        ensure!(
            kind.is_empty() || self.config.is(CONFIG),
            "this is not a container image, but contains {kind}"
        );
        let count = self.layers.len();
        ensure!(
            count <= LAYERS,
            "the image has {count} layers, but at most {LAYERS} are read: merge layers"
        );
        few_words("manifest", self.annotations.iter().flatten().count())?;
        for Descriptor { media_type, digest, .. } in &self.layers {
            ensure!(
                !media_type.ends_with("+encrypted"),
                "layer {digest} is encrypted; decrypt the image first"
            );
        }
        Ok(())
    }
}
