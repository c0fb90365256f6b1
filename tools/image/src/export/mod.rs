//! Exports an image from the store.

mod docker;
mod layer;
mod layout;

pub use layer::Compression;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::oci::{ImageConfig, Manifest, parse};
use crate::reference::Reference;
use crate::store::{Image, Store};
use clap::ValueEnum;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// An OCI image layout: a directory.
    Oci,
    /// An archive of an OCI image layout.
    OciArchive,
    /// An archive for `docker load`.
    DockerArchive,
}

impl Form {
    /// Returns the format suggested by a file name.
    #[must_use]
    pub fn of(destination: &Path) -> Self {
        let archive = destination.extension().is_some_and(|end| end == "tar");
        if archive || destination == Path::new("-") { Self::OciArchive } else { Self::Oci }
    }
}

/// An image that is exported.
struct Stored {
    names: Vec<Reference>,
    manifest: Manifest,
    config_text: Vec<u8>,
    config_digest: Digest,
    layers: Vec<Part>,
}

/// A layer of the image: its diff-id and the name of its directory.
#[derive(Clone, Copy)]
struct Part {
    diff_id: Digest,
    directory: Digest,
}

/// Writes `image` to `destination`, which must not exist. The written image has the name `name` if that is a name of
/// the image in the store, and otherwise all names of the image. Waits up to `patience` for a command that removes
/// objects from the store.
///
/// # Errors
/// Those of reading and writing; a layer that has changed since it was unpacked.
pub fn export(
    store: &Store,
    image: &Image,
    name: Option<Reference>,
    destination: &Path,
    form: Form,
    compression: Compression,
    patience: Duration,
) -> Result<()> {
    let _rely = store.rely(patience)?;
    let mut stored = read(store, image)?;
    if let Some(name) = name.filter(|name| stored.names.contains(name)) {
        stored.names = vec![name];
    }
    let work = store.work()?;
    let layout = work.path().join("layout");
    fs::create_dir(&layout).map_err(Error::at("make", &layout))?;
    match form {
        Form::Oci => {
            let unfinished = Unfinished::directory(destination)?;
            layout::write(store, &stored, &unfinished.path, compression)?;
            unfinished.keep(destination)
        }
        Form::OciArchive => {
            layout::write(store, &stored, &layout, compression)?;
            pack(&layout, destination)
        }
        Form::DockerArchive => {
            docker::write(store, &stored, &layout)?;
            pack(&layout, destination)
        }
    }
}

fn read(store: &Store, image: &Image) -> Result<Stored> {
    let file = |name: &str| {
        let path = image.path.join(name);
        fs::read(&path).map_err(Error::at("read", &path))
    };
    let manifest: Manifest = parse(&file("manifest.json")?, "manifest.json")?;
    let config_text = file("image.json")?;
    manifest.config.digest.check(&config_text, "the image's configuration in the store")?;
    let config: ImageConfig = parse(&config_text, "image.json")?;
    let info: serde_json::Value = parse(&file("info.json")?, "info.json")?;
    let names = info["layers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = |value: &serde_json::Value| value["directory"].as_str().and_then(Digest::from_hex);
    let layers: Vec<Part> = config
        .rootfs
        .diff_ids
        .iter()
        .zip(names.iter().filter_map(name))
        .map(|(&diff_id, directory)| Part { diff_id, directory })
        .collect();
    if layers.len() != config.rootfs.diff_ids.len() {
        return Err(Error::Unfit(format!(
            "info.json of image {} is damaged: import the image again",
            image.digest
        )));
    }
    let names = store.refs()?.into_iter().filter(|(_, digest)| *digest == image.digest);
    Ok(Stored {
        names: names.map(|(name, _)| name).collect(),
        config_digest: manifest.config.digest,
        manifest,
        config_text,
        layers,
    })
}

/// Packs the files of `directory` into an archive, sorted by name.
fn pack(directory: &Path, destination: &Path) -> Result<()> {
    if destination == Path::new("-") {
        return archive(directory, BufWriter::new(io::stdout().lock()))
            .map_err(Error::at("write", "standard output"));
    }
    let unfinished = Unfinished::file(destination)?;
    File::create_new(&unfinished.path)
        .and_then(|file| archive(directory, BufWriter::with_capacity(256 << 10, file)))
        .map_err(Error::at("write", &unfinished.path))?;
    unfinished.keep(destination)
}

fn archive(directory: &Path, out: impl Write) -> io::Result<()> {
    let mut builder = tar::Builder::new(out);
    builder.mode(tar::HeaderMode::Deterministic);
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let full = directory.join(&path);
        if full.is_dir() {
            if path != Path::new("") {
                builder.append_dir(&path, &full)?;
            }
            let names: io::Result<Vec<_>> =
                fs::read_dir(&full)?.map(|entry| Ok(entry?.file_name())).collect();
            let mut names = names?;
            names.sort();
            todo.extend(names.into_iter().rev().map(|name| path.join(name)));
        } else {
            builder.append_path_with_name(&full, &path)?;
        }
    }
    builder.into_inner()?.flush()
}

/// A temporary file or directory beside the destination, removed unless it is renamed into place.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn file(destination: &Path) -> Result<Self> {
        if destination.symlink_metadata().is_ok() {
            return Err(Error::Unfit(format!("{} is there already", destination.display())));
        }
        let name = destination
            .file_name()
            .ok_or_else(|| Error::Unfit(format!("{} is not a file name", destination.display())))?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", std::process::id()));
        Ok(Self { path: destination.with_file_name(hidden) })
    }

    fn directory(destination: &Path) -> Result<Self> {
        let unfinished = Self::file(destination)?;
        fs::create_dir(&unfinished.path).map_err(Error::at("make", &unfinished.path))?;
        Ok(unfinished)
    }

    fn keep(self, destination: &Path) -> Result<()> {
        fs::rename(&self.path, destination).map_err(Error::at("rename to", destination))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename, the temporary file no longer exists.
        let _ = if self.path.is_dir() {
            fs::remove_dir_all(&self.path)
        } else {
            fs::remove_file(&self.path)
        };
    }
}
