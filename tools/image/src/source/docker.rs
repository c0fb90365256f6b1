//! Archives of `docker save` and `podman save`: `manifest.json`, configurations and layers.

use super::archive::Archive;
use super::{Blobs, Source};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{CONFIG, Descriptor, ImageConfig, LAYER, MANIFEST, Manifest, parse};
use crate::reference::Reference;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Item {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Opens the image `tag` of an archive. The archive has no OCI manifest, so a manifest is generated. The same archive
/// always gets the same manifest.
///
/// # Errors
/// Those of reading; several images match.
pub fn open(mut archive: Archive, tag: Option<&str>) -> Result<Source> {
    let items: Vec<Item> = parse(&archive.read("manifest.json")?, "manifest.json")?;
    let item = choose(&items, tag)?;
    let config_text = archive.read(&item.config)?;
    let config: ImageConfig = parse(&config_text, &item.config)?;
    config.check()?;
    let digest = Digest::of(&config_text);
    let mut manifest = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST[0].to_owned()),
        config: descriptor(CONFIG[0], digest, config_text.len() as u64),
        layers: vec![descriptor(LAYER, digest, 0); item.layers.len()],
        annotations: None,
    };
    // The manifest is checked before layers are read.
    manifest.check()?;
    let (mut blobs, mut hashed) = (BTreeMap::new(), BTreeMap::new());
    for (name, layer) in item.layers.iter().zip(&mut manifest.layers) {
        // Many names may refer to the same file.
        let place = archive.place(name)?;
        let (digest, size) = match hashed.get(&place) {
            Some(&known) => known,
            None => *hashed.entry(place).or_insert(archive.hash(name)?),
        };
        blobs.insert(digest, name.clone());
        *layer = descriptor(LAYER, digest, size);
    }
    let manifest_text = serde_json::to_vec(&manifest)
        .map_err(|error| Error::at("write", "manifest")(error.into()))?;
    archive.name_blobs(blobs);
    let tags = item.repo_tags.iter().flatten();
    let names = tags.filter_map(|tag| Reference::parse(tag).ok()).collect();
    Ok(Source {
        blobs: Blobs::Archive(archive),
        manifest_text,
        manifest,
        config_text,
        config,
        names,
        is_manifest_made: true,
    })
}

fn choose<'a>(items: &'a [Item], tag: Option<&str>) -> Result<&'a Item> {
    let tags = |item: &'a Item| item.repo_tags.iter().flatten();
    let named = |item: &&Item, tag: &str| {
        item.repo_tags
            .iter()
            .flatten()
            .any(|name| name == tag || name.ends_with(&format!(":{tag}")))
    };
    match (items, tag) {
        ([one], None) => Ok(one),
        (_, Some(tag)) if items.iter().any(|item| named(&item, tag)) => {
            items.iter().find(|item| named(item, tag)).ok_or_else(|| Error::Unfit(String::new()))
        }
        _ => {
            let there: Vec<&str> = items.iter().flat_map(tags).map(String::as_str).collect();
            Err(Error::Unfit(format!(
                "add :NAME to the path of the archive, which contains {}",
                there.join(", ")
            )))
        }
    }
}

fn descriptor(kind: &str, digest: Digest, size: u64) -> Descriptor {
    Descriptor { media_type: kind.to_owned(), digest, size, platform: None, annotations: None }
}
