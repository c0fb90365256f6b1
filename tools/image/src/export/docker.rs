//! The format of `docker load`: layers as plain archives, and `manifest.json`.

use super::Stored;
use super::layer;
use crate::error::{Error, Result};
use crate::options::Compression;
use crate::store::Store;
use serde_json::json;
use std::fs;
use std::path::Path;

/// Writes an image into the new directory `to`.
pub(super) fn write(store: &Store, stored: &Stored, to: &Path) -> Result<()> {
    fs::create_dir(to).map_err(Error::at("make", to))?;
    let mut layers: Vec<String> = Vec::new();
    for &part in &stored.layers {
        let name = format!("{}.tar", part.diff_id.hex());
        if !layers.contains(&name) {
            layer::write(store, part, &to.join(&name), Compression::None)?;
        }
        layers.push(name);
    }
    let config = format!("{}.json", stored.manifest.config.digest.hex());
    let names: Vec<String> = stored.names.iter().map(ToString::to_string).collect();
    let manifest = json!([{ "Config": config, "RepoTags": names, "Layers": layers }]).to_string();
    for (name, text) in [(&*config, &*stored.config_text), ("manifest.json", manifest.as_bytes())] {
        let path = to.join(name);
        fs::write(&path, text).map_err(Error::at("write", &path))?;
    }
    Ok(())
}
