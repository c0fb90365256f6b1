//! The store on disk.
//!
//! | in the store | is |
//! |---|---|
//! | `layers/HEX/` | an unpacked layer, in overlayfs's form, named by its diff-id; by its chain-id if it is made for the layers below it |
//! | `records/HEX/` | what else is known of that layer: `info.json`, and `frame`, its archive without the files' contents |
//! | `images/HEX/` | an image, named by its manifest's digest: what a container is started from, and its documents |
//! | `refs/NAME` | a symbolic link to an image; `/` is written `%2F` |
//! | `containers/ID/` | the writable layer of a container, made by the runtime; its link `image` keeps the image |
//! | `mounts/PLACE/` | the same of what `dayfly rootfs mount` has mounted |
//! | `work/RANDOM/` | what is not finished, locked by its maker |
//! | `lock` | held by all who rely on what no reference names yet; exclusively by who removes |
//!
//! Whatever is in one of the first four places is whole: it was made in `work` and renamed.

mod gc;
mod layers;
mod lock;
mod refs;
mod work;

pub use gc::Freed;
pub use layers::{LayerInfo, Published};
pub use lock::{Holder, Lock};
pub use refs::Image;
pub use work::Work;

use crate::digest::Digest;
use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What this process may do to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Root of the host: everything.
    Root,
    /// Root of a user namespace: owners as far as they are mapped, no devices.
    Namespace,
    /// A user: everything belongs to him.
    User,
}

impl Rights {
    fn look_up() -> Self {
        if !rustix::process::geteuid().is_root() {
            return Self::User;
        }
        if sys::user_namespace::is_nested() { Self::Namespace } else { Self::Root }
    }

    /// The extended attribute that makes a directory hide those below it.
    #[must_use]
    pub fn opaque(self) -> &'static str {
        match self {
            Self::Root => "trusted.overlay.opaque",
            Self::Namespace | Self::User => "user.overlay.opaque",
        }
    }
}

/// A store that is open.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// What this process may do there.
    pub rights: Rights,
}

impl Store {
    /// Opens the store in the absolute `directory`, makes it if need be, and removes what killed commands left
    /// unfinished.
    ///
    /// # Errors
    /// Those of making directories.
    pub fn open(directory: &Path) -> Result<Self> {
        let rights = Rights::look_up();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        for part in ["layers", "records", "images", "refs", "containers", "mounts", "work"] {
            let path = directory.join(part);
            builder.create(&path).map_err(Error::at("make", &path))?;
        }
        // Lines of `layers` files are paths, and dayfly reads these without asking what a link means.
        let root = fs::canonicalize(directory).map_err(Error::at("find", directory))?;
        let store = Self { root, rights };
        store.sweep()?;
        Ok(store)
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the store.
    #[must_use]
    pub fn path(&self, part: &str, name: &str) -> PathBuf {
        self.root.join(part).join(name)
    }

    /// Where the layer of that name is.
    #[must_use]
    pub fn layer(&self, name: &Digest) -> PathBuf {
        self.path("layers", &name.hex())
    }

    /// Where the image is.
    #[must_use]
    pub fn image(&self, manifest: &Digest) -> PathBuf {
        self.path("images", &manifest.hex())
    }
}
