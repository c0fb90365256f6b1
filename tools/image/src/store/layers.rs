//! Layers in the store.

use super::work::{rename_new, replace};
use super::{Store, Work};
use crate::digest::Digest;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// What is known of an unpacked layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LayerInfo {
    /// What it is called unpacked.
    pub diff_id: Digest,
    /// Bytes in its files.
    pub size: u64,
    /// Entries in its archive.
    pub entries: u64,
    /// Directories that it has without an entry of their own, since something in them has one. What they
    /// are like is for the layers below to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub implied: Vec<PathBuf>,
}

/// A layer that is in the store.
#[derive(Debug, Clone)]
pub struct Published {
    /// Its name: its diff-id or its chain-id.
    pub name: Digest,
    /// What is known of it.
    pub info: LayerInfo,
}

impl Store {
    /// The layer of that name, if it is there.
    ///
    /// # Errors
    /// Those of reading what is known of it.
    pub fn find_layer(&self, name: Digest) -> Result<Option<Published>> {
        if !self.layer(&name).is_dir() {
            return Ok(None);
        }
        let path = self.record(&name).join("info.json");
        let text = fs::read(&path).map_err(Error::at("read", &path))?;
        let info = crate::oci::parse(&text, &path.display().to_string())?;
        Ok(Some(Published { name, info }))
    }

    /// Where what else is known of a layer is.
    #[must_use]
    pub fn record(&self, name: &Digest) -> PathBuf {
        self.path("records", &name.hex())
    }

    /// Moves a layer that is whole from `work` into the store: its directory `layer` and its record `record`.
    /// If another command has been quicker, its layer stays.
    ///
    /// # Errors
    /// Those of writing and renaming.
    pub fn publish_layer(&self, work: &Work, name: Digest, info: LayerInfo) -> Result<Published> {
        let record = work.path().join("record");
        let file = record.join("info.json");
        let text =
            serde_json::to_vec(&info).map_err(|error| Error::at("write", &file)(error.into()))?;
        fs::write(&file, text).map_err(Error::at("write", &file))?;
        let layer = self.layer(&name);
        if !layer.exists() {
            // A record without a layer is one of a command killed between the two, or of one just there.
            replace(&record, &self.record(&name))?;
            rename_new(&work.path().join("layer"), &layer)?;
        }
        Ok(Published { name, info })
    }
}
