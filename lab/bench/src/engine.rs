//! Mounts root filesystems from layers, for runtimes that take a directory. As an engine does, this module mounts an
//! overlay on the host before `run`, and unmounts it afterwards.
//!
//! If the container has a user namespace, the layers get the container's ids by id-mapped mounts: one for each layer,
//! or one for the directory that contains all of them. These mounts are in the host's mount table until overlayfs has
//! cloned them. The overlay is in the host's mount table while the container runs. It has the same mount options as
//! dayfly's overlays.

use crate::base::*;
use crate::config::{self, IDS, MAPPED_ROOT};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};
use std::os::unix::fs::lchown;
use std::sync::Arc;
use sys::mount::{MountAttr, attr, mount_setattr, propagation};

/// The directory of the root filesystem, in the bundle.
const ROOT: &str = "rootfs";
/// The directory of the layers' mount points.
const PLACES: &str = "mnt";
/// The directories of overlayfs.
const UPPER: &str = "upper";
const WORK: &str = "work";

/// The method by which layers get the ids of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Ids are not mapped: the container has no user namespace.
    None,
    /// One id-mapped mount of the directory that contains all layers.
    Parent,
    /// One id-mapped mount for each layer.
    PerLayer,
}

/// The layers of which the root filesystems of an entrant's containers consist.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// The directory that contains the layers.
    directory: PathBuf,
    /// The names of the layers in `directory`, the top layer first.
    names: Vec<String>,
    mapping: Mapping,
    /// The directory for mount points and overlayfs's directories of each bundle; `None`: the bundle itself.
    elsewhere: Option<PathBuf>,
    /// The user namespace with the container's ids; `None` if ids are not mapped.
    user_namespace: Option<Arc<OwnedFd>>,
}

impl Image {
    /// Describes an image. Its layers are the subdirectories `names` of `directory`, the top layer first.
    ///
    /// # Errors
    /// Those of making a user namespace.
    pub(crate) fn new(
        directory: &Path,
        names: Vec<String>,
        mapping: Mapping,
        elsewhere: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let user_namespace = match mapping {
            Mapping::None => None,
            Mapping::Parent | Mapping::PerLayer => Some(Arc::new(user_namespace()?)),
        };
        Ok(Self { directory: directory.to_owned(), names, mapping, elsewhere, user_namespace })
    }

    /// Changes the configuration of a container: the root filesystem is in the bundle. If the ids of the layers are
    /// mapped, the container gets a user namespace.
    pub(crate) fn configure(&self, config: &mut Value) {
        config["root"]["path"] = json!(ROOT);
        if self.user_namespace.is_some() && config["linux"]["uidMappings"].is_null() {
            config::map_ids(config);
        }
    }

    /// Mounts the root filesystem of the container with this bundle.
    ///
    /// # Errors
    /// Those of mount_setattr(2) and of overlayfs. Adding the layers one by one requires Linux 6.7.
    pub(crate) fn mount(&self, bundle: &Path) -> Result<(), Error> {
        let (root, base) = (bundle.join(ROOT), self.base(bundle));
        let [places, upper, work] = [PLACES, UPPER, WORK].map(|name| base.join(name));
        if base != bundle {
            fs::create_dir_all(&base).map_err(Error::at("make", &base))?;
        }
        for directory in [&root, &places, &upper, &work] {
            fs::create_dir(directory).map_err(Error::at("make", directory))?;
        }
        let mut attached = Attached::default();
        let mut below = &self.directory;
        if let Some(user_namespace) = &self.user_namespace {
            // The overlay's root directory has the owner of the upper directory.
            lchown(&upper, Some(MAPPED_ROOT), Some(MAPPED_ROOT))
                .map_err(Error::at("chown", &upper))?;
            if self.mapping == Mapping::Parent {
                attached.attach(&self.directory, &places, user_namespace.as_fd())?;
            } else {
                for name in &self.names {
                    let place = places.join(name);
                    fs::create_dir(&place).map_err(Error::at("make", &place))?;
                    attached.attach(&self.directory.join(name), &place, user_namespace.as_fd())?;
                }
            }
            below = &places;
        }
        let layers = self.names.iter().map(|name| below.join(name));
        let tree =
            overlay(layers, &upper, &work).map_err(Error::errno("mount overlay with", &upper))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", CWD, &root, flags).map_err(Error::errno("mount overlay on", &root))
    }

    /// Returns the directory of a bundle's mount points.
    fn base(&self, bundle: &Path) -> PathBuf {
        let name = bundle.file_name().unwrap_or_default();
        self.elsewhere.as_ref().map_or_else(|| bundle.to_owned(), |directory| directory.join(name))
    }

    /// Removes what is outside the bundle.
    pub(crate) fn clear(&self, bundle: &Path) {
        let base = self.base(bundle);
        if base != bundle {
            let _ = fs::remove_dir_all(base);
        }
    }

    /// Unmounts the root filesystem of the container with this bundle.
    ///
    /// # Errors
    /// Those of umount2(2).
    pub(crate) fn unmount(bundle: &Path) -> Result<(), Error> {
        let root = bundle.join(ROOT);
        unmount(&root, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(Error::errno("unmount", &root))
    }
}

/// Attached mounts, which are unmounted when this is dropped, the last one first.
#[derive(Debug, Default)]
struct Attached(Vec<PathBuf>);

impl Attached {
    /// Clones `directory` as an id-mapped, read-only mount, and attaches the clone at `place`.
    fn attach(
        &mut self,
        directory: &Path,
        place: &Path,
        user_namespace: BorrowedFd<'_>,
    ) -> Result<(), Error> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let tree =
            open_tree(CWD, directory, flags).map_err(Error::errno("open_tree", directory))?;
        let change = MountAttr {
            set: attr::RDONLY | attr::IDMAP,
            propagation: propagation::PRIVATE,
            userns_fd: user_namespace.as_raw_fd() as u64,
            ..MountAttr::default()
        };
        mount_setattr(tree.as_fd(), false, &change)
            .map_err(Error::errno("map ids of", directory))?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", CWD, place, flags).map_err(Error::errno("mount layer on", place))?;
        self.0.push(place.to_owned());
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        while let Some(place) = self.0.pop() {
            // If this fails, the mount is unmounted when the stand's directory is removed.
            let _ = unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
    }
}

/// Returns an overlay as a detached mount.
fn overlay(
    layers: impl Iterator<Item = PathBuf>,
    upper: &Path,
    work: &Path,
) -> Result<OwnedFd, Errno> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let context = context.as_fd();
    for layer in layers {
        fsconfig_set_string(context, "lowerdir+", layer)?;
    }
    fsconfig_set_string(context, "upperdir", upper)?;
    fsconfig_set_string(context, "workdir", work)?;
    for (key, value) in [("index", "off"), ("metacopy", "on"), ("redirect_dir", "on")] {
        fsconfig_set_string(context, key, value)?;
    }
    fsconfig_set_flag(context, "volatile")?;
    fsconfig_create(context)?;
    fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Makes a user namespace in which the container's ids are mapped.
fn user_namespace() -> Result<OwnedFd, Error> {
    let path = Path::new("/proc");
    let proc = File::open(path).map_err(Error::at("open", path))?;
    let map = format!("0 {MAPPED_ROOT} {IDS}\n");
    sys::user_namespace::make(proc.as_fd(), &map, &map)
        .map_err(|error| Error::Unfit(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_mapped_layers_has_these_ids() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let names = vec!["0".to_owned()];
        let image =
            Image::new(Path::new("/layers"), names, Mapping::PerLayer, None).expect("namespace");
        let mut config = config::podman(config::Profile::Plain);
        image.configure(&mut config);
        assert_eq!(config["root"]["path"], "rootfs");
        assert_eq!(config["linux"]["uidMappings"][0]["hostID"], MAPPED_ROOT);
        assert_eq!(config["linux"]["uidMappings"], config["linux"]["gidMappings"]);
        let namespaces = config["linux"]["namespaces"].as_array().expect("list");
        assert!(namespaces.iter().any(|namespace| namespace["type"] == "user"));
    }
}
