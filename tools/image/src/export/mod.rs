//! Exports an image from the store.

mod docker;
mod layer;
mod layout;

use crate::digest::Digest;
use crate::error::{Error, Result, ensure, unfit, warn};
use crate::oci::{ImageConfig, Manifest, parse};
use crate::options::{Export, Form};
use crate::reference::Reference;
use crate::store::{Image, Named, Store};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// An image that is exported.
struct Stored {
    names: Vec<Reference>,
    manifest: Manifest,
    config_text: Vec<u8>,
    layers: Vec<Part>,
}

/// A layer of the image: its diff-id and the name of its directory.
#[derive(Clone, Copy)]
struct Part {
    diff_id: Digest,
    directory: Digest,
}

/// Writes an image to a destination, which must not exist. The written image has the given name if that is a name of
/// the image in the store, and otherwise all names of the image.
///
/// # Errors
/// Those of reading and writing; a layer that has changed since it was unpacked.
pub fn export(store: &Store, options: &Export) -> Result<()> {
    let Named { image, remark, .. } = store.find_named(&options.image)?;
    let to = options.destination.as_path();
    let form = options.format.unwrap_or_else(|| Form::of(to));
    ensure!(
        form != Form::Oci || to != Path::new("-"),
        "a directory cannot be written to standard output: use --format oci-archive"
    );
    if let Some(remark) = remark {
        warn(&remark);
    }
    let _rely = store.rely(options.waiting.wait)?;
    let mut stored = read(store, &image)?;
    let name = Reference::parse(&options.image).ok();
    if let Some(name) = name.filter(|name| stored.names.contains(name)) {
        stored.names = vec![name];
    }
    let work = store.work()?;
    let layout = work.path().join("layout");
    match form {
        Form::Oci => {
            let unfinished = Unfinished::beside(to)?;
            layout::write(store, &stored, &unfinished.inner(), options.compress)?;
            return unfinished.keep(to);
        }
        Form::OciArchive => layout::write(store, &stored, &layout, options.compress)?,
        Form::DockerArchive => docker::write(store, &stored, &layout)?,
    }
    if to == Path::new("-") {
        let out = BufWriter::new(io::stdout().lock());
        return archive(&layout, out).map_err(Error::at("write", "standard output"));
    }
    let unfinished = Unfinished::beside(to)?;
    File::create_new(unfinished.inner())
        .and_then(|file| archive(&layout, BufWriter::with_capacity(256 << 10, file)))
        .map_err(Error::at("write", to))?;
    unfinished.keep(to)
}

fn read(store: &Store, image: &Image) -> Result<Stored> {
    let manifest: Manifest = parse(&image.read("manifest.json")?, "manifest.json")?;
    let config_text = image.read("image.json")?;
    let found = Digest::of(&config_text);
    manifest.config.digest.check(found, "the image's configuration in the store")?;
    let config: ImageConfig = parse(&config_text, "image.json")?;
    let info: serde_json::Value = parse(&image.read("info.json")?, "info.json")?;
    let names = info["layers"].as_array().into_iter().flatten();
    let names = names.filter_map(|layer| Digest::from_hex(layer["directory"].as_str()?));
    let diff_ids = &config.rootfs.diff_ids;
    let layers: Vec<Part> = diff_ids
        .iter()
        .zip(names)
        .map(|(&diff_id, directory)| Part { diff_id, directory })
        .collect();
    ensure!(
        layers.len() == diff_ids.len(),
        "info.json of image {} is damaged: import the image again",
        image.digest
    );
    Ok(Stored { names: store.names_of(image)?, manifest, config_text, layers })
}

/// Packs the files of `directory` into an archive, sorted by name.
fn archive(directory: &Path, out: impl Write) -> io::Result<()> {
    let mut builder = tar::Builder::new(out);
    builder.mode(tar::HeaderMode::Deterministic);
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let full = directory.join(&path);
        if path != Path::new("") {
            builder.append_path_with_name(&full, &path)?;
        }
        if full.is_dir() {
            let inside = |entry: io::Result<fs::DirEntry>| Ok(path.join(entry?.file_name()));
            let inside: io::Result<BTreeSet<_>> = fs::read_dir(&full)?.map(inside).collect();
            todo.extend(inside?.into_iter().rev());
        }
    }
    builder.into_inner()?.flush()
}

/// A directory beside the destination, which is removed. What is inside is renamed to the destination when it is
/// complete.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(destination: &Path) -> Result<Self> {
        let shown = destination.display();
        ensure!(destination.symlink_metadata().is_err(), "{shown} is there already");
        let name = destination.file_name().ok_or_else(|| unfit!("{shown} is not a file name"))?;
        let name = format!(".{}.{}", name.display(), std::process::id());
        let path = destination.with_file_name(name);
        fs::create_dir(&path).map_err(Error::at("make", &path))?;
        Ok(Self(path))
    }

    fn inner(&self) -> PathBuf {
        self.0.join("inner")
    }

    fn keep(self, destination: &Path) -> Result<()> {
        fs::rename(self.inner(), destination).map_err(Error::at("rename to", destination))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
