//! The number of layers of the host's images, from the manifests in its engines' stores.

use crate::facts::Facts;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs;
use std::path::Path;

/// The directories where engines keep manifests, or configurations that list layers.
const PLACES: [(&str, &str); 4] = [
    ("dayfly", "/var/lib/dayfly/images"),
    ("containerd", "/var/lib/containerd/io.containerd.content.v1.content/blobs/sha256"),
    ("docker", "/var/lib/docker/image/overlay2/imagedb/content/sha256"),
    ("podman", "/var/lib/containers/storage/overlay-images"),
];

/// The maximum size of a manifest or configuration, in bytes. Larger files are layers.
const LARGEST: u64 = 1 << 20;

/// The fields of a manifest or a configuration that list layers.
#[derive(Deserialize)]
struct Image {
    layers: Option<Vec<IgnoredAny>>,
    rootfs: Option<RootFs>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<IgnoredAny>>,
}

/// Returns the largest number of layers that an image of this host has, with the engine in whose store it is; `None` if
/// there are no images.
pub fn largest(facts: &Facts) -> Option<(&'static str, u64)> {
    let stores = PLACES.map(|(name, place)| {
        let paths = fs::read_dir(facts.path(place)).into_iter().flatten().flatten();
        (name, paths.map(|entry| of_store(&entry.path())).max().unwrap_or(0))
    });
    stores.into_iter().filter(|(_, layers)| *layers > 0).max_by_key(|(_, layers)| *layers)
}

/// Returns the number of layers of an entry of a store. An entry of dayfly's store is a directory that contains a list of
/// the layers, and one of Podman's a directory that contains the manifest.
fn of_store(entry: &Path) -> u64 {
    match fs::read_to_string(entry.join("layers")) {
        Ok(list) => list.lines().count() as u64,
        Err(_) if entry.is_dir() => layers(&entry.join("manifest")).unwrap_or(0),
        Err(_) => layers(entry).unwrap_or(0),
    }
}

fn layers(file: &Path) -> Option<u64> {
    fs::metadata(file).ok().filter(|file| file.is_file() && file.len() <= LARGEST)?;
    let image: Image = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let listed = image.layers.or_else(|| image.rootfs?.diff_ids)?;
    Some(listed.len() as u64)
}
