//! The number of layers of the host's images, from the manifests in its engines' stores.

use crate::facts::Facts;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// An engine's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The engine.
    pub name: &'static str,
    /// The largest number of layers that an image in the store has.
    pub layers: u64,
}

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
    layers: Option<Vec<serde::de::IgnoredAny>>,
    rootfs: Option<RootFs>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Option<Vec<serde::de::IgnoredAny>>,
}

/// Returns the stores that contain images.
#[must_use]
pub fn stores(facts: &Facts) -> Vec<Store> {
    let store = |&(name, place): &(&'static str, &str)| {
        let layers = largest(&facts.path(place));
        (layers > 0).then_some(Store { name, layers })
    };
    PLACES.iter().filter_map(store).collect()
}

fn largest(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .map(|path| if path.is_dir() { of_directory(&path) } else { layers(&path) })
        .max()
        .unwrap_or(0)
}

/// Returns the number of layers of the image in a directory. For dayfly the directory contains a list of the layers,
/// and for Podman the manifest.
fn of_directory(image: &Path) -> u64 {
    match fs::read_to_string(image.join("layers")) {
        Ok(list) => list.lines().count() as u64,
        Err(_) => layers(&image.join("manifest")),
    }
}

fn layers(file: &Path) -> u64 {
    let small = fs::metadata(file).is_ok_and(|file| file.is_file() && file.len() <= LARGEST);
    let Some(text) = small.then(|| fs::read(file).ok()).flatten() else { return 0 };
    if text.first() != Some(&b'{') {
        return 0;
    }
    let Ok(image) = serde_json::from_slice::<Image>(&text) else { return 0 };
    let listed = image.layers.map(|layers| layers.len());
    let differences = image.rootfs.and_then(|rootfs| rootfs.diff_ids).map(|ids| ids.len());
    listed.or(differences).unwrap_or(0) as u64
}
