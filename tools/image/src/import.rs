//! Brings an image into the store.
//!
//! Layers are unpacked at the same time, each in a directory of its own. Most can be: what a layer's archive says
//! does not depend on the layers below it. Three things do, and then the layer is unpacked again with those
//! below at hand, and kept under its chain-id instead of its diff-id, since for another image it would be another
//! one: a directory without an entry of its own, which looks like the one below; a parent that is a symbolic
//! link below; a hard link to a file below, which is copied up.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::merged::{Found, Merged};
use crate::oci::{Descriptor, REF_NAME};
use crate::progress::Progress;
use crate::reference::Reference;
use crate::runtime;
use crate::source::{Blobs, Source};
use crate::store::{Image, LayerInfo, Store, Work};
use crate::unpack::{
    Attributes, Below, Keep, LONG_WINDOW, LOOK_UP, Limits, Shared, Task, WINDOW, Way, check,
    keep_names, unpack,
};
use rustix::fs::{Mode, OFlags, open, syncfs};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How an image is brought in.
#[derive(Debug)]
pub struct Options {
    /// What it is called here; else as where it comes from.
    pub names: Vec<Reference>,
    /// How much it may unpack to.
    pub limits: Limits,
    /// Whether owners that cannot be kept are given up.
    pub ignore_owners: bool,
    /// The seccomp profile of containers, as config.json has it; none for containers without a filter.
    pub seccomp: Option<Value>,
    /// How long who removes from the store is waited for.
    pub patience: Duration,
    /// Whether all of it is on the disk before anything of it is visible.
    pub sync: bool,
    /// Layers unpacked at the same time.
    pub jobs: usize,
    /// When a bar is shown.
    pub progress: Progress,
}

/// What became of an import.
#[derive(Debug)]
pub struct Imported {
    /// The image.
    pub image: Image,
    /// Its names.
    pub names: Vec<Reference>,
    /// Those of them that were another image's, and that one.
    pub moved: Vec<(Reference, Digest)>,
    /// Layers that were not there before.
    pub unpacked: usize,
    /// All its layers.
    pub layers: usize,
    /// What was not kept.
    pub losses: Vec<String>,
}

/// A layer as far as it is.
struct Layer {
    name: Digest,
    directory: PathBuf,
    info: LayerInfo,
    /// Where it is, as long as it is not in the store.
    work: Option<Work>,
}

impl Layer {
    fn made(name: Digest, info: LayerInfo, work: Work) -> Self {
        Self { name, directory: work.path().join("layer"), info, work: Some(work) }
    }
}

/// Brings `source` into the store.
///
/// # Errors
/// Whatever is wrong with the image, with its layer named; those of the store.
pub fn import(store: &Store, source: &Source, options: &Options) -> Result<Imported> {
    let names = if options.names.is_empty() { &source.names } else { &options.names };
    if names.is_empty() {
        return Err(Error::Unfit(
            "the image has no name where it comes from: give it one by --name".to_owned(),
        ));
    }
    if source.manifest.layers.is_empty() {
        return Err(Error::Unfit(
            "the image has no layers, so nothing could be run in it".to_owned(),
        ));
    }
    // Layers without a name, new ones and those found, stay while this is held.
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

/// A layer unpacked by itself; none if it cannot be.
type Made = BTreeMap<Digest, Option<Layer>>;

impl Importer<'_> {
    /// Unpacks the layers that are not there, each by itself.
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
        // The longest first, so that none is left over at the end.
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
        let title = format!("{} of {} layers", todo.len(), self.layers.len());
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

    /// Decides, from the bottom up, which layers can be used as they are, and unpacks the others again.
    fn settle(&self, mut made: Made) -> Result<Vec<Layer>> {
        let mut layers: Vec<Layer> = Vec::new();
        for (at, chain) in self.chain().into_iter().enumerate() {
            let (diff_id, blob) = self.layers[at];
            if let Some(layer) = self.stored(chain)? {
                layers.push(layer);
                continue;
            }
            // A layer that is in the image twice has been moved to its first place.
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

    /// Whether the directories that a layer has without an entry are, below, as they were made, or not there.
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

    /// Refuses a layer that is in the store already, but is another one where it comes from: only where nothing else
    /// says so.
    fn check(&self, at: usize) -> Result<()> {
        let (diff_id, blob) = self.layers[at];
        // A file that is called as its contents are has been read.
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

    /// The chain-ids: the digest of a layer together with all below it.
    fn chain(&self) -> Vec<Digest> {
        let mut chain: Vec<Digest> = Vec::new();
        for (diff_id, _) in &self.layers {
            chain.push(match chain.last() {
                Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
                // The bottom layer's would be its diff-id, under which it is kept for all images.
                None => *diff_id,
            });
        }
        chain
    }

    /// Writes what is kept of the image itself.
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
        // overlayfs takes a directory once: what is in it twice is seen in its upper place.
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

/// Most layers that are unpacked at the same time by default: each takes memory, up to 14 MB of buffers and windows
/// ([`WINDOW`]); one at a time may have up to 128 MiB more ([`LONG_WINDOW`]).
const MOST_JOBS: usize = 8;

/// How many layers are unpacked at the same time by default: as many as there are CPUs; from a registry, a few
/// more, which wait for the network.
#[must_use]
pub fn default_jobs(blobs: &Blobs) -> usize {
    let cpus = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let jobs = if matches!(blobs, Blobs::Registry(_)) { cpus.max(4) } else { cpus };
    jobs.min(MOST_JOBS)
}
