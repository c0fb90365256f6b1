//! The OCI image layout.

use super::Stored;
use super::layer::{self, Compression};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{
    CONFIG, Descriptor, FULL_NAME, INDEX, Index, LAYER, MANIFEST, Manifest, REF_NAME,
};
use crate::reference::Reference;
use crate::store::Store;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Writes an image into the empty directory `to`.
pub(super) fn write(
    store: &Store,
    stored: &Stored,
    to: &Path,
    compression: Compression,
) -> Result<()> {
    let blobs = to.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(Error::at("make", &blobs))?;
    let written = layers(store, stored, &blobs, compression)?;
    let kind = format!("{LAYER}{}", compression.suffix());
    let layers = written
        .into_iter()
        .zip(&stored.manifest.layers)
        .map(|((digest, size), old)| Descriptor {
            annotations: old.annotations.clone(),
            ..descriptor(&kind, digest, size)
        })
        .collect();
    let config = blob(&blobs, CONFIG[0], &stored.config_text)?;
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST[0].to_owned()),
        config,
        layers,
        annotations: stored.manifest.annotations.clone(),
    };
    let manifest = blob(&blobs, MANIFEST[0], &text(&manifest)?)?;
    let named = |name: &Reference| Descriptor {
        annotations: Some(BTreeMap::from([
            (REF_NAME.to_owned(), name.to_string()),
            (FULL_NAME.to_owned(), name.full()),
        ])),
        ..manifest.clone()
    };
    let mut manifests: Vec<Descriptor> = stored.names.iter().map(named).collect();
    if manifests.is_empty() {
        manifests.push(manifest.clone());
    }
    let index = Index { schema_version: 2, media_type: Some(INDEX[0].to_owned()), manifests };
    file(&to.join("index.json"), &text(&index)?)?;
    file(&to.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)
}

/// Writes the layers' blobs, several concurrently.
fn layers(
    store: &Store,
    stored: &Stored,
    blobs: &Path,
    compression: Compression,
) -> Result<Vec<(Digest, u64)>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&part) = stored.layers.get(at) else { return };
            let path = blobs.join(format!("layer{at}"));
            let result =
                layer::write(store, part, &path, compression).and_then(|(digest, size)| {
                    let to = blobs.join(digest.hex());
                    fs::rename(&path, &to).map_err(Error::at("rename to", &to))?;
                    Ok((digest, size))
                });
            if result.is_err() {
                next.store(stored.layers.len(), Ordering::Relaxed);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
        }
    };
    thread::scope(|scope| {
        for _ in 1..thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(work);
        }
        work();
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

fn blob(blobs: &Path, kind: &str, text: &[u8]) -> Result<Descriptor> {
    let digest = Digest::of(text);
    file(&blobs.join(digest.hex()), text)?;
    Ok(descriptor(kind, digest, text.len() as u64))
}

fn descriptor(kind: &str, digest: Digest, size: u64) -> Descriptor {
    Descriptor { media_type: kind.to_owned(), digest, size, platform: None, annotations: None }
}

fn text(document: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(document).map_err(|error| Error::at("write", "a document")(error.into()))
}

fn file(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).map_err(Error::at("write", path))
}
