//! Layers in the store.

use super::work::{rename_new, replace};
use super::{Store, Work};
use crate::digest::Digest;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// The record of an unpacked layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerInfo {
    /// The diff-id of the layer.
    pub diff_id: Digest,
    /// The number of bytes in the layer's files.
    pub size: u64,
    /// The number of entries in the layer's archive.
    pub entries: u64,
    /// Directories without an entry of their own that the paths of other entries imply. Their attributes come from the
    /// layers below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub implied: Vec<PathBuf>,
}

impl Store {
    /// Returns the record of the layer with that name (its diff-id or its chain-id), if the layer exists.
    ///
    /// # Errors
    /// Those of reading its record.
    pub fn find_layer(&self, name: Digest) -> Result<Option<LayerInfo>> {
        if !self.layer(&name).is_dir() {
            return Ok(None);
        }
        let path = self.record(&name).join("info.json");
        let text = fs::read(&path).map_err(Error::at("read", &path))?;
        crate::oci::parse(&text, &path.display().to_string()).map(Some)
    }

    /// Returns the directory of a layer's record.
    pub fn record(&self, name: &Digest) -> PathBuf {
        self.path("records", &name.hex())
    }

    /// Moves a complete layer from `work` into the store: its directory `layer` and its record `record`. If another
    /// command has moved the same layer there first, that command's layer is kept.
    ///
    /// # Errors
    /// Those of writing and renaming.
    pub fn publish_layer(&self, work: &Work, name: Digest, info: &LayerInfo) -> Result<()> {
        let record = work.path().join("record");
        let file = record.join("info.json");
        let text = serde_json::to_vec(info).map_err(Error::at("write", &file))?;
        fs::write(&file, text).map_err(Error::at("write", &file))?;
        let layer = self.layer(&name);
        if !layer.exists() {
            // A record without a layer belongs to a command that was killed between the two renames, or to a command
            // that is about to perform the second one.
            replace(&record, &self.record(&name))?;
            rename_new(&work.path().join("layer"), &layer)?;
        }
        Ok(())
    }
}
