//! The documents of the OCI image specification, as far as they are read here, and Docker's older names for
//! the same. Unknown members are left alone.

use crate::digest::Digest;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest document (index, manifest, configuration) that is read, in bytes: what registries and other clients take.
pub const DOCUMENT: u64 = 4 << 20;
/// Most words that a document may have in lists: annotations, labels, variables. Each takes many times its text
/// in memory.
const WORDS: usize = 20_000;
/// Most layers of an image. The kernel mounts 500; each is looked at from each above it.
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
/// The media type of a layer; `+gzip` and `+zstd` follow.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The annotation with an image's name.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation by which containerd, Docker and Podman name an image with its registry.
pub const FULL_NAME: &str = "io.containerd.image.name";

/// Lists of strings, such as annotations and labels, or `null`.
pub type Strings = Option<BTreeMap<String, String>>;

/// What a blob is called, and how long it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it holds.
    #[serde(default)]
    pub media_type: String,
    /// Its name.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Of a manifest: what it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Strings,
}

/// What an image runs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Such as `amd64`, as Go names it.
    pub architecture: String,
    /// `linux`.
    pub os: String,
    /// Such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A list of manifests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// 2.
    pub schema_version: u32,
    /// Its own media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The manifests, or further lists.
    pub manifests: Vec<Descriptor>,
}

/// The parts of one image.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// 2.
    pub schema_version: u32,
    /// Its own media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The configuration.
    pub config: Descriptor,
    /// The layers, the bottom one first.
    pub layers: Vec<Descriptor>,
    /// More about the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Strings,
}

/// An image's configuration.
#[derive(Debug, Clone, Deserialize)]
pub struct ImageConfig {
    /// When it was made, by RFC 3339.
    pub created: Option<String>,
    /// Who made it.
    pub author: Option<String>,
    /// The architecture, as Go names it.
    #[serde(default)]
    pub architecture: String,
    /// The operating system.
    #[serde(default)]
    pub os: String,
    /// The architecture's variant.
    pub variant: Option<String>,
    /// How it is run.
    #[serde(default)]
    pub config: Option<Execution>,
    /// What the layers are called unpacked.
    pub rootfs: RootFs,
}

impl ImageConfig {
    /// Refuses a configuration that says too much.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the limit.
    pub fn check(&self) -> Result<()> {
        let Some(run) = &self.config else { return Ok(()) };
        let lists = [&run.env, &run.entrypoint, &run.cmd];
        let words: usize = lists.into_iter().flatten().map(Vec::len).sum();
        few_words("configuration", words + run.labels.iter().flatten().count())
    }

    /// What the image runs on; empty where it does not say.
    #[must_use]
    pub fn platform(&self) -> Platform {
        Platform {
            architecture: self.architecture.clone(),
            os: self.os.clone(),
            variant: self.variant.clone(),
        }
    }
}

/// How a container of the image is run by default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Execution {
    /// `user`, `uid`, `user:group`, …
    pub user: Option<String>,
    /// `NAME=value` each.
    pub env: Option<Vec<String>>,
    /// The first words of the command.
    pub entrypoint: Option<Vec<String>>,
    /// The others, which whoever runs it may replace.
    pub cmd: Option<Vec<String>>,
    /// Where it begins.
    pub working_dir: Option<String>,
    /// More about it.
    pub labels: Strings,
    /// What asks it to end.
    pub stop_signal: Option<String>,
}

/// What the layers are called unpacked.
#[derive(Debug, Clone, Deserialize)]
pub struct RootFs {
    /// The digests of the plain archives, the bottom one first.
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
}

/// Reads a document; `what` names it.
///
/// # Errors
/// [`Error::Unfit`] when it is not JSON of that form.
pub fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Unfit(format!("{what} is not as it should be: {error}")))
}

fn few_words(what: &str, words: usize) -> Result<()> {
    if words <= WORDS {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "the image's {what} has {words} words, variables, labels or annotations, and {WORDS} are read"
    )))
}

impl Manifest {
    /// Refuses what is no container image, what is not all there, and what is too much.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the reason.
    pub fn check(&self) -> Result<()> {
        let kind = self.config.media_type.as_str();
        if !kind.is_empty() && !CONFIG.contains(&kind) {
            return Err(Error::Unfit(format!("this is no container image, but holds {kind}")));
        }
        if self.layers.len() > LAYERS {
            return Err(Error::Unfit(format!(
                "the image has {} layers, and {LAYERS} are read: put layers together",
                self.layers.len()
            )));
        }
        few_words("manifest", self.annotations.iter().flatten().count())?;
        for layer in &self.layers {
            if layer.media_type.ends_with("+encrypted") {
                return Err(Error::Unfit(format!(
                    "layer {} is encrypted; decrypt the image first",
                    layer.digest
                )));
            }
        }
        Ok(())
    }
}
