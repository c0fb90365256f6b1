//! Archives of `docker save` and `podman save`: `manifest.json`, configurations and layers.

use super::Source;
use super::archive::Archive;
use crate::digest::Digest;
use crate::error::{Result, unfit};
use crate::oci::{CONFIG, Descriptor, ImageConfig, LAYER, Manifest, parse};
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
    let layers = vec![Descriptor::new(LAYER, digest, 0); item.layers.len()];
    let config_blob = Descriptor::new(CONFIG[0], digest, config_text.len() as u64);
    let mut manifest = Manifest::new(config_blob, layers, None);
    // The manifest is checked before layers are read.
    manifest.check()?;
    let mut hashed = BTreeMap::new();
    for (name, layer) in item.layers.iter().zip(&mut manifest.layers) {
        // Many names may refer to the same file.
        let place = archive.place(name)?;
        let (digest, size) = match hashed.get(&place) {
            Some(&known) => known,
            None => *hashed.entry(place).or_insert(archive.hash(name)?),
        };
        archive.blobs.insert(digest, name.clone());
        *layer = Descriptor::new(LAYER, digest, size);
    }
    let tags = item.repo_tags.iter().flatten();
    let names = tags.filter_map(|tag| Reference::parse(tag).ok()).collect();
    Source::made(archive, manifest, config_text, config, names)
}

fn choose<'a>(items: &'a [Item], tag: Option<&str>) -> Result<&'a Item> {
    let tags = |item: &'a Item| item.repo_tags.iter().flatten().map(String::as_str);
    let found = match (items, tag) {
        ([one], None) => Some(one),
        (_, None) => None,
        (_, Some(tag)) => {
            let end = format!(":{tag}");
            let is = |name: &str| name == tag || name.ends_with(&end);
            items.iter().find(|item| tags(item).any(is))
        }
    };
    found.ok_or_else(|| {
        let there: Vec<&str> = items.iter().flat_map(tags).collect();
        unfit!("add :NAME to the path of the archive, which contains {}", there.join(", "))
    })
}
