//! The OCI image layout.

use super::Stored;
use super::layer;
use crate::apart::{cpus, each};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{
    CONFIG, Descriptor, FULL_NAME, INDEX, Index, LAYER, MANIFEST, Manifest, REF_NAME,
};
use crate::options::Compression;
use crate::store::Store;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Writes an image into the new directory `to`.
pub(super) fn write(
    store: &Store,
    stored: &Stored,
    to: &Path,
    compression: Compression,
) -> Result<()> {
    let blobs = to.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::at("make", &blobs))?;
    let kind = format!("{LAYER}{}", compression.suffix());
    let all: Vec<_> = stored.layers.iter().zip(&stored.manifest.layers).enumerate().collect();
    let layers = each(&all, cpus(), &AtomicBool::default(), |&(at, (&part, old))| {
        let path = blobs.join(format!("layer{at}"));
        let (digest, size) = layer::write(store, part, &path, compression)?;
        let to = blobs.join(digest.hex());
        fs::rename(&path, &to).map_err(Error::at("rename to", &to))?;
        let annotations = old.annotations.clone();
        Ok(Descriptor { annotations, ..Descriptor::new(&kind, digest, size) })
    })?;
    let config = blob(&blobs, CONFIG[0], &stored.config_text)?;
    let manifest = Manifest::new(config, layers, stored.manifest.annotations.clone());
    let manifest = blob(&blobs, MANIFEST[0], &text(&manifest)?)?;
    let mut manifests = vec![manifest; stored.names.len().max(1)];
    for (entry, name) in manifests.iter_mut().zip(&stored.names) {
        let names = [(REF_NAME, name.to_string()), (FULL_NAME, name.full())];
        entry.annotations = Some(BTreeMap::from(names.map(|(key, name)| (key.to_owned(), name))));
    }
    let index = Index { schema_version: 2, media_type: Some(INDEX[0].to_owned()), manifests };
    file(&to.join("index.json"), &text(&index)?)?;
    file(&to.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)
}

fn blob(blobs: &Path, kind: &str, text: &[u8]) -> Result<Descriptor> {
    let digest = Digest::of(text);
    file(&blobs.join(digest.hex()), text)?;
    Ok(Descriptor::new(kind, digest, text.len() as u64))
}

fn text(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(Error::at("write", "a document"))
}

fn file(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).map_err(Error::at("write", path))
}
