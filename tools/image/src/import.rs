//! Imports an image into the store.
//!
//! Layers are unpacked concurrently, each into its own directory. That works for most layers, because their archives do
//! not depend on the layers below. There are three exceptions: a directory without an entry of its own, which gets the
//! attributes that it has in the layers below; an entry whose parent directory is a symbolic link in a layer below; and
//! a hard link to a file in a layer below, which is copied up. Such a layer is unpacked again with the layers below
//! available. It is stored under its chain-id instead of its diff-id, because its content would be different in another
//! image.
//!
//! A layer that is already in the store is not read again, because the manifest has its digest. A docker-archive has no
//! OCI manifest: its layers are hashed, and compressed ones are unpacked first (`check`).

use crate::apart::{cpus, each};
use crate::digest::Digest;
use crate::error::{Error, Result, ensure, unfit};
use crate::merged::{Found, Merged};
use crate::oci::{Descriptor, REF_NAME};
use crate::options::Bringing;
use crate::reference::Reference;
use crate::runtime;
use crate::source::{Blobs, Source};
use crate::store::{Image, LayerInfo, Store, Work};
use crate::unpack::{
    Attributes, Keep, LONG_WINDOW, LOOK_UP, Shared, Task, WINDOW, Way, check, keep_names, unpack,
};
use report::count::counted;
use rustix::fs::{Mode, OFlags, open, syncfs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::PoisonError;

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// The image.
    pub image: Image,
    /// The names of the image.
    pub names: Vec<Reference>,
    /// The names that referred to another image before, with that image.
    pub moved: Vec<(Reference, Digest)>,
    /// The number of newly unpacked layers.
    pub unpacked: usize,
    /// The total number of the image's layers.
    pub layers: usize,
    /// Attributes that could not be kept.
    pub losses: Vec<String>,
}

/// A layer during the import.
struct Layer {
    name: Digest,
    directory: PathBuf,
    info: LayerInfo,
    /// The working directory of the layer, until the layer is in the store.
    work: Option<Work>,
}

/// Imports `source` into the store, with these names, or by default those of the source.
///
/// # Errors
/// Errors of the image, with the layer named; those of the store.
pub fn import(
    store: &Store,
    source: &Source,
    names: &[Reference],
    options: &Bringing,
) -> Result<Imported> {
    // The profile is read and checked before anything is unpacked.
    let seccomp = runtime::seccomp(&options.seccomp)?;
    let names = if names.is_empty() { &source.names } else { names };
    ensure!(!names.is_empty(), "the source contains no name of the image: use --name");
    ensure!(
        !source.manifest.layers.is_empty(),
        "the image has no layers, so nothing could be run in it"
    );
    // While the lock is held, no layer is removed: neither a newly unpacked layer that belongs to no image yet, nor a
    // layer that was found in the store.
    let _rely = store.rely(options.waiting.wait)?;
    let importer = Importer {
        store,
        source,
        layers: source.layers()?,
        keep: Keep::new(store.rights, options.ignore_owners),
        shared: Shared::new(options.limits),
    };
    let made = importer.unpack_alone(options)?;
    let layers = importer.settle(made)?;
    let image = importer.image(&layers, seccomp.as_ref())?;
    if options.sync {
        let root = open(store.root(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::at("open", store.root()))?;
        syncfs(&root).map_err(Error::at("sync", store.root()))?;
    }
    let unpacked = layers.iter().filter(|layer| layer.work.is_some()).count();
    let count = layers.len();
    for layer in layers {
        if let Some(work) = &layer.work {
            store.publish_layer(work, layer.name, &layer.info)?;
        }
    }
    let image = store.publish_image(&image, source.digest())?;
    let mut moved = Vec::new();
    for name in names {
        let old = store.image_of(name)?.filter(|old| *old != image.digest);
        moved.extend(old.map(|old| (name.clone(), old)));
        store.set_ref(name, image.digest)?;
    }
    Ok(Imported {
        image,
        names: names.to_vec(),
        moved,
        unpacked,
        layers: count,
        losses: importer.keep.losses(),
    })
}

struct Importer<'a> {
    store: &'a Store,
    source: &'a Source,
    layers: Vec<(Digest, &'a Descriptor)>,
    keep: Keep,
    shared: Shared,
}

/// The layers that were unpacked separately, by diff-id; `None` if a layer can't be unpacked separately.
type Made = BTreeMap<Digest, Option<Layer>>;

impl Importer<'_> {
    /// Unpacks the missing layers separately, without the layers below.
    fn unpack_alone(&self, options: &Bringing) -> Result<Made> {
        let mut todo = Vec::new();
        let mut seen = BTreeSet::new();
        for (at, chain) in self.chain().into_iter().enumerate() {
            let (diff_id, _) = self.layers[at];
            let there = self.store.find_layer(chain)?.or(self.store.find_layer(diff_id)?).is_some();
            if !there && seen.insert(diff_id) {
                todo.push(at);
            } else if there {
                self.check(at)?;
            }
        }
        // The longest first, so that the jobs finish at about the same time.
        todo.sort_by_key(|&at| std::cmp::Reverse(self.layers[at].1.size));
        let all = todo.iter().map(|&at| self.layers[at].1.size).sum();
        let title = format!("{} of {}", todo.len(), counted(self.layers.len(), "layer"));
        if let Some(bar) = options.progress.show(title, all) {
            let _ = self.shared.bar.set(bar);
        }
        let jobs = options.jobs.unwrap_or_else(|| default_jobs(&self.source.blobs)).max(1);
        let made = each(&todo, jobs, &self.shared.stop, |&at| {
            let (diff_id, blob) = self.layers[at];
            let below = (at == 0).then(Merged::default);
            match self.unpack(at, diff_id, below) {
                Err(Error::NeedsBelow(_)) if at > 0 => Ok((diff_id, None)),
                Err(error) => Err(error.of_layer(blob.digest)),
                Ok(layer) => Ok((diff_id, Some(layer))),
            }
        });
        if let Some(bar) = self.shared.bar.get() {
            bar.finish_and_clear();
        }
        Ok(made?.into_iter().collect())
    }

    /// Decides, from the bottom up, which layers can be used as they are, and unpacks the other layers again.
    fn settle(&self, mut made: Made) -> Result<Vec<Layer>> {
        let mut layers: Vec<Layer> = Vec::new();
        for (at, chain) in self.chain().into_iter().enumerate() {
            let (diff_id, blob) = self.layers[at];
            if let Some(layer) = self.stored(chain)? {
                layers.push(layer);
                continue;
            }
            // If the layer occurs twice in the image, its first occurrence has already moved it to `layers`.
            let alone = match made.remove(&diff_id) {
                Some(layer) => layer,
                None => match layers.iter().find(|layer| layer.name == diff_id) {
                    Some(Layer { name, directory, info, .. }) => {
                        let (directory, info) = (directory.clone(), info.clone());
                        Some(Layer { name: *name, directory, info, work: None })
                    }
                    None => self.stored(diff_id)?,
                },
            };
            let below = self.merged(&layers)?;
            let layer = match alone {
                Some(layer) if self.fits(&layer.info, &below)? => layer,
                _ => self
                    .unpack(at, chain, Some(below))
                    .map_err(|error| error.of_layer(blob.digest))?,
            };
            layers.push(layer);
        }
        Ok(layers)
    }

    /// Checks the directories that have no entry in a layer: returns whether each of them either has the assumed
    /// attributes in the layers below, or does not exist there.
    fn fits(&self, layer: &LayerInfo, below: &Merged) -> Result<bool> {
        if below.is_empty() {
            return Ok(true);
        }
        for path in &layer.implied {
            let found = below.walk(path, false)?;
            self.shared.count_steps(below.looked_up() * LOOK_UP)?;
            match found {
                None => {}
                Some(Found::Directory(top)) if Attributes::of_top(top.first())?.is_plain() => {}
                Some(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Checks that a layer found in the store equals the layer of the source, unless a verified digest already
    /// guarantees this.
    fn check(&self, at: usize) -> Result<()> {
        let (diff_id, blob) = self.layers[at];
        // The original manifest states the blob's digest. A generated manifest has the digests of the archive's files,
        // which were hashed: an uncompressed layer is verified if its digest is the diff-id.
        if !self.source.is_manifest_made || blob.digest == diff_id {
            return Ok(());
        }
        let result = self.with_windows(|window| {
            let source = self.source.blobs.open(blob)?;
            check(source, blob, diff_id, &self.shared, window)
        });
        result.map_err(|error| error.of_layer(blob.digest))
    }

    fn stored(&self, name: Digest) -> Result<Option<Layer>> {
        let Some(info) = self.store.find_layer(name)? else { return Ok(None) };
        keep_names(&self.shared, &info.implied)?;
        Ok(Some(Layer { name, directory: self.store.layer(&name), info, work: None }))
    }

    /// Returns the merged view of layers, whose bottom one is the first.
    fn merged(&self, layers: &[Layer]) -> Result<Merged> {
        Merged::open(layers.iter().rev().map(|layer| &*layer.directory), self.store.rights)
    }

    fn unpack(&self, at: usize, name: Digest, below: Option<Merged>) -> Result<Layer> {
        let (diff_id, blob) = self.layers[at];
        let unpack = |below: &Option<Merged>, way| {
            self.with_windows(|window| {
                let work = self.store.work()?;
                let source = self.source.blobs.open(blob)?;
                let task = Task { source, blob, diff_id, below: below.clone(), way, window };
                let info = unpack(task, &work, &self.keep, &self.shared)?;
                let directory = work.path().join("layer");
                Ok(Layer { name, directory, info, work: Some(work) })
            })
        };
        match unpack(&below, Way::Files) {
            Err(Error::NeedsFrame) => unpack(&below, Way::Frame),
            result => result,
        }
    }

    /// Does `work` with the usual length of a zstd window. If it needs a longer one, does it again when no other layer
    /// uses such a window.
    fn with_windows<T>(&self, work: impl Fn(u32) -> Result<T>) -> Result<T> {
        match work(WINDOW) {
            Err(Error::NeedsWindow) => {
                let one = &self.shared.long_window;
                let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
                work(LONG_WINDOW)
            }
            result => result,
        }
    }

    /// Returns the chain-ids: for each layer, a digest of that layer together with all layers below.
    fn chain(&self) -> Vec<Digest> {
        let mut chain: Vec<Digest> = Vec::new();
        for (diff_id, _) in &self.layers {
            chain.push(match chain.last() {
                Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
                // The bottom layer's chain-id equals its diff-id, under which it is shared by all images.
                None => *diff_id,
            });
        }
        chain
    }

    /// Writes the image's own files.
    fn image(&self, layers: &[Layer], seccomp: Option<&Value>) -> Result<Work> {
        let source = self.source;
        let root = self.merged(layers)?;
        let runtime = runtime::configure(&source.config, &source.manifest, &root, seccomp)?;
        let work = self.store.work()?;
        let directory = work.path().join("image");
        fs::create_dir(&directory).map_err(Error::at("make", &directory))?;
        let write = |name: &str, text: &[u8]| {
            let path = directory.join(name);
            fs::write(&path, text).map_err(Error::at("write", &path))
        };
        // overlayfs rejects duplicate directories; a layer that occurs twice takes effect at its upper position.
        let mut lines: Vec<String> = Vec::new();
        for layer in layers.iter().rev() {
            let path = self.store.layer(&layer.name);
            let line = path.to_str().filter(|line| !line.contains('\n')).ok_or_else(|| {
                unfit!("the store's path {} must be UTF-8 in one line", path.display())
            })?;
            if !lines.iter().any(|other| other == line) {
                lines.push(line.to_owned());
            }
        }
        lines.reverse();
        let blobs = self.layers.iter().map(|(_, blob)| blob);
        let list: Vec<_> = layers
            .iter()
            .zip(blobs)
            .map(|(layer, blob)| {
                json!({
                    "diff_id": layer.info.diff_id, "directory": layer.name.hex(),
                    "size": layer.info.size, "entries": layer.info.entries,
                    "blob": blob.digest, "blob_size": blob.size,
                })
            })
            .collect();
        let config = &source.config;
        let info = json!({
            "digest": source.digest(),
            "id": source.manifest.config.digest,
            "platform": format!("{}/{}", config.os, config.architecture),
            "created": config.created,
            "size": layers.iter().map(|layer| layer.info.size).sum::<u64>(),
            "annotations": source.manifest.annotations.clone().unwrap_or_default().into_iter()
                .filter(|(name, _)| name != REF_NAME).collect::<BTreeMap<_, _>>(),
            "layers": list,
        });
        write("config.json", format!("{:#}\n", runtime.config).as_bytes())?;
        write("layers", format!("{}\n", lines.join("\n")).as_bytes())?;
        write("entrypoint", format!("{}\n", runtime.entrypoint).as_bytes())?;
        write("manifest.json", &source.manifest_text)?;
        write("image.json", &source.config_text)?;
        write("info.json", format!("{info:#}\n").as_bytes())?;
        Ok(work)
    }
}

/// The maximum default number of layers that are unpacked concurrently. Each needs up to 14 MB of memory for buffers
/// and windows ([`WINDOW`]); one layer at a time may use up to 128 MiB more ([`LONG_WINDOW`]).
const MOST_JOBS: usize = 8;

/// Returns the default number of layers unpacked concurrently. It is the number of CPUs, but at most `MOST_JOBS`. For a
/// registry it is at least four, because downloads mostly wait for the network.
fn default_jobs(blobs: &Blobs) -> usize {
    let least = if matches!(blobs, Blobs::Registry(_)) { 4 } else { 1 };
    cpus().clamp(least, MOST_JOBS)
}
