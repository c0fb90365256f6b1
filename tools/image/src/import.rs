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

use crate::bar::Bar;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::merged::{Found, Merged};
use crate::oci::{Descriptor, REF_NAME};
use crate::reference::Reference;
use crate::runtime;
use crate::source::{Blobs, Source};
use crate::store::{Image, LayerInfo, Store, Work};
use crate::unpack::{
    Attributes, Below, Keep, LONG_WINDOW, LOOK_UP, Limits, Shared, Task, WINDOW, Way, check,
    keep_names, unpack,
};
use report::count::counted;
use rustix::fs::{Mode, OFlags, open, syncfs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Options of an import.
#[derive(Debug)]
pub struct Options {
    /// The image's names; by default those of the source.
    pub names: Vec<Reference>,
    /// Limits on the unpacked size.
    pub limits: Limits,
    /// Whether to ignore the owners of files. Root of the host keeps owners nevertheless.
    pub ignore_owners: bool,
    /// The containers' seccomp profile in config.json's format; `None` for containers without a filter.
    pub seccomp: Option<Value>,
    /// The time to wait for a command that removes objects from the store.
    pub patience: Duration,
    /// Whether everything is synced to disk before the image becomes visible.
    pub sync: bool,
    /// The number of layers unpacked concurrently.
    pub jobs: usize,
    /// When to show a progress bar.
    pub progress: Bar,
}

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

impl Layer {
    fn made(name: Digest, info: LayerInfo, work: Work) -> Self {
        Self { name, directory: work.path().join("layer"), info, work: Some(work) }
    }
}

/// Imports `source` into the store.
///
/// # Errors
/// Errors of the image, with the layer named; those of the store.
pub fn import(store: &Store, source: &Source, options: &Options) -> Result<Imported> {
    let names = if options.names.is_empty() { &source.names } else { &options.names };
    if names.is_empty() {
        return Err(Error::Unfit(
            "the source contains no name of the image: use --name".to_owned(),
        ));
    }
    if source.manifest.layers.is_empty() {
        return Err(Error::Unfit(
            "the image has no layers, so nothing could be run in it".to_owned(),
        ));
    }
    // While the lock is held, no layer is removed: neither a newly unpacked layer that belongs to no image yet, nor a
    // layer that was found in the store.
    let _rely = store.rely(options.patience)?;
    let importer = Importer {
        store,
        source,
        layers: source.layers()?,
        keep: Keep::new(store.rights, options.ignore_owners),
        shared: Shared::new(options.limits),
    };
    let made = importer.unpack_alone(options)?;
    let layers = importer.settle(made)?;
    let image = importer.image(&layers, options)?;
    if options.sync {
        let root = open(store.root(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(Error::errno("open", store.root()))?;
        syncfs(&root).map_err(Error::errno("sync", store.root()))?;
    }
    let unpacked = layers.iter().filter(|layer| layer.work.is_some()).count();
    let count = layers.len();
    for layer in layers {
        if let Some(work) = &layer.work {
            store.publish_layer(work, layer.name, layer.info)?;
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
        names: names.clone(),
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
    fn unpack_alone(&self, options: &Options) -> Result<Made> {
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
        let (next, made) = (AtomicUsize::new(0), Mutex::new(Made::new()));
        let failed = Mutex::new(None);
        let work = || {
            while let Some(&at) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (diff_id, blob) = self.layers[at];
                let below = if at == 0 { Below::Known(Merged::default()) } else { Below::Unknown };
                let result = match self.unpack(at, diff_id, below) {
                    Err(Error::NeedsBelow { .. }) if at > 0 => Ok(None),
                    result => result.map(Some),
                };
                match result {
                    Ok(layer) => {
                        made.lock().unwrap_or_else(PoisonError::into_inner).insert(diff_id, layer);
                    }
                    Err(error) => {
                        self.shared.stop.store(true, Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.get_or_insert(error.of_layer(blob.digest));
                        return;
                    }
                }
            }
        };
        let title = format!("{} of {}", todo.len(), counted(self.layers.len(), "layer"));
        options.progress.watch(&title, all, &self.shared.read, || {
            thread::scope(|scope| {
                for _ in 1..options.jobs.min(todo.len()) {
                    scope.spawn(work);
                }
                work();
            });
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(made.into_inner().unwrap_or_else(PoisonError::into_inner)),
        }
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
            let twice = || {
                let same = layers.iter().find(|layer| layer.name == diff_id)?;
                Some((same.directory.clone(), same.info.clone()))
            };
            let alone = match made.remove(&diff_id) {
                Some(layer) => layer,
                None => match twice() {
                    Some((directory, info)) => {
                        Some(Layer { name: diff_id, directory, info, work: None })
                    }
                    None => self.stored(diff_id)?,
                },
            };
            let below = Merged::open(
                layers.iter().rev().map(|layer| layer.directory.as_path()),
                self.store.rights,
            )?;
            let layer = match alone {
                Some(layer) if self.fits(&layer.info, &below)? => layer,
                _ => self
                    .unpack(at, chain, Below::Known(below))
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
            let found = below.exactly(Path::new(path))?;
            self.shared.count_steps(below.looked_up() * LOOK_UP)?;
            match found {
                None => {}
                Some(Found::Directory(directories)) => {
                    let top = directories.first().map(Attributes::of_directory).transpose()?;
                    if !top.is_none_or(|top| top.is_plain()) {
                        return Ok(false);
                    }
                }
                Some(Found::Link(_) | Found::Other(_)) => return Ok(false),
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
        let check = |window| {
            let source = self.source.blobs.open(blob)?;
            check(source, blob, diff_id, &self.shared, window)
        };
        let result = match check(WINDOW) {
            Err(Error::NeedsWindow) => check(LONG_WINDOW),
            result => result,
        };
        result.map_err(|error| error.of_layer(blob.digest))
    }

    fn stored(&self, name: Digest) -> Result<Option<Layer>> {
        let layer = self.store.find_layer(name)?;
        if let Some(layer) = &layer {
            keep_names(&self.shared, &layer.info.implied)?;
        }
        Ok(layer.map(|layer| Layer {
            name,
            directory: self.store.layer(&name),
            info: layer.info,
            work: None,
        }))
    }

    fn unpack(&self, at: usize, name: Digest, below: Below) -> Result<Layer> {
        let (diff_id, blob) = self.layers[at];
        let try_unpack = |below, way, window| {
            let work = self.store.work()?;
            let source = self.source.blobs.open(blob)?;
            let task = Task { source, blob, diff_id, below, way, window };
            unpack(task, &work, &self.keep, &self.shared).map(|info| Layer::made(name, info, work))
        };
        let unpack = |below: Below, way| match try_unpack(below.clone(), way, WINDOW) {
            Err(Error::NeedsWindow) => {
                let one = &self.shared.long_window;
                let _one = one.lock().unwrap_or_else(PoisonError::into_inner);
                try_unpack(below, way, LONG_WINDOW)
            }
            result => result,
        };
        match unpack(below.clone(), Way::Files) {
            Err(Error::NeedsFrame) => unpack(below, Way::Frame),
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
    fn image(&self, layers: &[Layer], options: &Options) -> Result<Work> {
        let source = self.source;
        let root = Merged::open(
            layers.iter().rev().map(|layer| layer.directory.as_path()),
            self.store.rights,
        )?;
        let runtime =
            runtime::configure(&source.config, &source.manifest, &root, options.seccomp.as_ref())?;
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
                Error::Unfit(format!(
                    "the store's path {} must be UTF-8 in one line",
                    path.display()
                ))
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
#[must_use]
pub fn default_jobs(blobs: &Blobs) -> usize {
    let cpus = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let jobs = if matches!(blobs, Blobs::Registry(_)) { cpus.max(4) } else { cpus };
    jobs.min(MOST_JOBS)
}
