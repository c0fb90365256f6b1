//! The store on disk.
//!
//! | in the store | is |
//! |---|---|
//! | `layers/HEX/` | an unpacked layer, in overlayfs's form, named by its diff-id, or by its chain-id if its content depends on the layers below |
//! | `records/HEX/` | further data of the layer `layers/HEX`: `info.json`, and `frame`, its archive without the files' contents |
//! | `images/HEX/` | an image, named by its manifest's digest: its documents, and the files for starting containers |
//! | `refs/NAME` | a symbolic link to an image; `/` is written `%2F` |
//! | `containers/ID/` | the writable layer of a container, made by the runtime; its link `image` protects the image |
//! | `mounts/PLACE/` | the writable layer of a mount of `dayfly rootfs mount`; its link `image` protects the image |
//! | `work/RANDOM/` | an unfinished object, locked by the command that creates it |
//! | `lock` | locked shared by commands that use objects without a reference yet; locked exclusively for removal |
//!
//! Everything in the first four directories is complete: it was created in `work` and renamed.

mod gc;
mod layers;
mod lock;
mod refs;
mod work;

pub use gc::Freed;
pub use layers::LayerInfo;
pub use lock::{Holder, Lock};
pub use refs::{Image, Named};
pub use work::Work;

use crate::digest::Digest;
use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The privileges of this process on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root of the host: any owner, and devices.
    Root,
    /// Root of a user namespace: only mapped owners, and no devices.
    Namespace,
    /// An unprivileged user: all files belong to the user.
    User,
}

impl Rights {
    fn look_up() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::User;
        }
        if sys::user_namespace::is_nested() { Self::Namespace } else { Self::Root }
    }

    /// Returns the extended attribute that makes a directory opaque.
    pub fn opaque(self) -> &'static str {
        match self {
            Self::Root => "trusted.overlay.opaque",
            Self::Namespace | Self::User => "user.overlay.opaque",
        }
    }
}

/// The directories of a store.
const PARTS: [&str; 7] = ["layers", "records", "images", "refs", "containers", "mounts", "work"];

/// An open store.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// The privileges of this process on the store's files.
    pub rights: Rights,
}

impl Store {
    /// Opens the store in the absolute `directory`, creates the store if needed, and removes
    /// unfinished objects of killed commands.
    ///
    /// # Errors
    /// Those of making directories.
    pub fn open(directory: &Path) -> Result<Self> {
        let rights = Rights::look_up();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for part in PARTS {
            let path = directory.join(part);
            builder.create(&path).map_err(Error::at("make", &path))?;
        }
        // The files named `layers` contain paths, which dayfly opens without following links.
        let root = fs::canonicalize(directory).map_err(Error::at("find", directory))?;
        let store = Self { root, rights };
        store.sweep()?;
        Ok(store)
    }

    /// Opens the store in the absolute `directory` as [`Self::open`] does, but only if there is one. An empty directory
    /// counts as an empty store.
    ///
    /// # Errors
    /// [`Error::NoStore`]; those of [`Self::open`].
    pub fn existing(directory: &Path) -> Result<Self> {
        let is_empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
        // A killed command may have created only some of the directories.
        match is_empty || PARTS.iter().any(|part| directory.join(part).is_dir()) {
            true => Self::open(directory),
            false => Err(Error::NoStore(directory.to_owned())),
        }
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a path in the store.
    pub fn path(&self, part: &str, name: &str) -> PathBuf {
        self.root.join(part).join(name)
    }

    /// Returns the directory of a layer.
    pub fn layer(&self, name: &Digest) -> PathBuf {
        self.path("layers", &name.hex())
    }

    /// Returns the directory of an image.
    pub fn image(&self, manifest: &Digest) -> PathBuf {
        self.path("images", &manifest.hex())
    }
}
