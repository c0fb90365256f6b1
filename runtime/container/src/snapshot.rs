//! Root filesystems in containerd's format: a list of mounts from a snapshotter.
//!
//! The mounts are created as detached mounts and attached only in the container's mount namespace. If something needs
//! the root filesystem in the bundle's directory on the host ([`wants_host_root`]), the mounts are attached there
//! instead ([`mount_on_host`]). Options have the meaning defined by containerd's core/mount.
//!
//! The steps that assemble layers also assemble an overlay of containerd, with its `upperdir`, `workdir` and options
//! (`rootfs::Foreign`). For a bind mount, `clone tree` copies the given directory. For any other file system, `make
//! tree` takes the place of `clone tree`. Mounts below the root become the first mounts of the configuration.
//!
//! Ids of files are mapped only by the options `uidmap=` and `gidmap=`. If a container has a user namespace and these
//! options are missing, containerd has already changed the owners of the files.
//!
//! A killed `create` leaves no mounts on the host, because only descriptors hold them. Kernels that need attached
//! layers get them in `layers` in the container's own directory. The record names this directory, so that `delete` can
//! clear it.

mod host;
mod read;
mod words;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;

use plan::{GivenRoot, Kernel, RootSource};
use serde::Deserialize;
use spec::{InRoot, Spec, Str};

pub use self::host::{mount_on_host, unmount_on_host};
use self::read::{Reader, Root, refused};
use self::words::Ids;
use crate::annotations::PLACE;
use crate::bundle::Bundle;
use crate::layered::place;
use crate::layered::record::LayeredRecord;
use crate::options::{CreateOptions, Purpose};
use crate::{Error, Store, time};

/// A mount of a root filesystem in containerd's format.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RootMount<'a> {
    /// `bind`, `overlay`, or any other filesystem.
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    /// A directory, a device or a file; empty for an overlay.
    #[serde(borrow)]
    pub source: Str<'a>,
    /// The path below the root; empty for the root itself.
    #[serde(borrow)]
    pub target: Str<'a>,
    /// fstab-style options; each may contain several, separated by commas.
    #[serde(borrow)]
    pub options: Vec<Str<'a>>,
}

impl<'a> RootMount<'a> {
    /// Reads a JSON list of mounts, `[{"type", "source", "target", "options"}]`.
    ///
    /// # Errors
    /// If `json` is not such a list.
    pub fn list(json: &'a [u8]) -> Result<Vec<Self>, Error> {
        serde_json::from_slice(json)
            .map_err(|error| Error::Json { what: "mounts of a root filesystem".into(), error })
    }
}

/// Returns whether this module can create mounts of a type. It cannot create types that need a program of the host
/// (`fuse.…`) or containerd's mount manager (`format/overlay`).
pub fn is_supported(kind: &str) -> bool {
    !kind.is_empty()
        && !kind.contains('/')
        && !["fuse.", "fuse3."].iter().any(|prefix| kind.starts_with(prefix))
}

/// Returns whether the root filesystem must be mounted in the bundle's directory before the container is created. The
/// possible reasons are hooks that run outside the container and access the root filesystem there, the annotation
/// [`PLACE`], a mount that covers another one, and the caller's request (`is_set`). Returns false if there are no
/// mounts.
pub fn wants_host_root(spec: &Spec<'_>, mounts: &[RootMount<'_>], is_set: bool) -> bool {
    let hooks = &spec.hooks;
    let look = [&hooks.prestart, &hooks.create_runtime, &hooks.create_container];
    let mut annotations = spec.annotations.iter();
    let is_asked_for = annotations.any(|(key, value)| **key == *PLACE && **value == *"host");
    !mounts.is_empty()
        && (is_set
            || is_asked_for
            || look.iter().any(|hooks| !hooks.is_empty())
            || mounts.iter().skip(1).any(|mount| is_root(mount)))
}

fn is_root(mount: &RootMount<'_>) -> bool {
    InRoot::new(&*mount.target).relative().is_empty()
}

/// A prepared root filesystem. On some kernels, it uses temporary resources on the host. Dropping this value releases
/// the resources, unless the container's record already contains them.
#[derive(Debug)]
pub(crate) struct Snapshot {
    root: Root,
    ids: Option<Ids>,
    place: String,
    /// The record of layers that are temporarily attached on the host, on kernels that require this.
    pub record: Option<Box<LayeredRecord>>,
    kept: Cell<bool>,
}

impl Snapshot {
    /// Returns the root filesystem in the form that the plan's compiler accepts.
    pub fn root(&self) -> GivenRoot<'_> {
        let source = match &self.root {
            Root::Layers(recipe) => RootSource::Layers {
                recipe,
                ids: self.ids.as_ref().map(|(uids, gids)| (&**uids, &**gids)),
            },
            Root::Mount(mount) => RootSource::Mount(mount),
        };
        GivenRoot { source, place: &self.place }
    }

    /// Keeps the resources: the container's record contains them now.
    pub fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(record) = self.record.as_ref().filter(|_| !self.kept.get()) {
            let _ = record.release();
        }
    }
}

/// Prepares the root filesystem that is given as a list of mounts. Those below the root become the first mounts of the
/// configuration.
///
/// # Errors
/// If a mount is of an unsupported type or cannot be created; the message contains type and reason.
pub(crate) fn prepare(
    store: &Store,
    options: &CreateOptions<'_>,
    (first, below): (&RootMount<'_>, &[RootMount<'_>]),
    bundle: &Bundle,
    spec: &mut Spec<'_>,
    purpose: Purpose,
) -> Result<Snapshot, Error> {
    if options.layered.is_some() {
        return Err(Error::text("a root filesystem consists either of layers or of mounts"));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Error::text(
            "mounts of a root filesystem require root, at least of a user namespace",
        ));
    }
    if !is_root(first) {
        return Err(refused(first, "it has a target, and so is not the root filesystem itself"));
    }
    if let Some(second) = below.iter().find(|mount| is_root(mount)) {
        return Err(refused(second, "it covers the mount before it"));
    }
    let owner = format!("{}/{}", store.path(), options.id);
    let directory = format!("{owner}/layers");
    let version = Kernel::probe().version;
    let reader = Reader { version, mode: options.rootfs_mode, directory: &directory };
    let (root, ids) = reader.root(first)?;
    let is_labelled = spec.linux.as_ref().is_some_and(|linux| linux.mount_label.is_some());
    let mut mounts = Vec::with_capacity(below.len() + spec.mounts.len());
    for mount in below {
        mounts.push(reader.below(mount, is_labelled)?);
    }
    mounts.append(&mut spec.mounts);
    spec.mounts = mounts;
    let is_attached = matches!(&root, Root::Layers(recipe) if recipe.is_attached());
    let record = is_attached.then(|| {
        Box::new(LayeredRecord {
            directory: directory.clone(),
            attached: true,
            image: String::new(),
            store: String::new(),
            lease: None,
            since: time::now(),
            owner: owner.clone(),
        })
    });
    let place = place(&bundle.path, spec, options.no_pivot, false);
    // A plan has made nothing on the host that could be released.
    let kept = Cell::new(purpose == Purpose::Plan);
    Ok(Snapshot { root, ids, place, record, kept })
}
