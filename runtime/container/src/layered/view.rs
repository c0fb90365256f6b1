//! The files of a stopped container whose root filesystem consists of layers, for `cp`.

use alloc::format;
use alloc::string::String;

use plan::Kernel;
use rootfs::{Foreign, Layers, Mode, Recipe, SETTINGS, Upper};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Access, CWD, access};
use sys::Context;
use sys::fs::c_path;
use sys::mount::{MountAttr, attr, mount_setattr};

use super::assemble;
use super::record::LayeredRecord;
use crate::Error;

/// Returns the files of an image with a container's changes, as a detached mount that cannot be written. The changes
/// are the top layer: as upper layer, overlayfs would change them.
///
/// # Errors
/// If the changes are gone; errors of overlayfs.
pub(crate) fn view(record: &LayeredRecord) -> Result<OwnedFd, Error> {
    let LayeredRecord { directory, image, .. } = record;
    if let Ok(copy) = sys::fs::open_dir(CWD, format!("{directory}/copy").as_str()) {
        return Ok(copy);
    }
    let changes = format!("{directory}/upper");
    if image.is_empty() || access(changes.as_str(), Access::EXISTS).is_err() {
        return Err(Error::text(
            "the container is stopped, and its files are gone: only changes of an image are kept, and not with \
             --ephemeral or --read-only",
        ));
    }
    let path = format!("{image}/layers");
    let text: String = sys::fs::read_text(path.as_str()).context("read", path)?;
    let layers = Layers::anywhere(&format!("{text}\n{changes}\n"))?;
    let in_user_namespace = sys::user_namespace::is_nested();
    // The container's overlay has had these options; a mount without changes has not, by default.
    let foreign = Foreign {
        source: c"dayfly".into(),
        options: SETTINGS.map(|(key, value)| (key.into(), Some(value.into()))).into(),
        ..Foreign::default()
    };
    let recipe = Recipe {
        mode: Mode::choose(Kernel::probe().version, &layers, false),
        layers,
        upper: Upper::None,
        directory: c_path(&**directory).context("find", directory)?,
        root: None,
        volatile: false,
        label: None,
        user_xattr: in_user_namespace,
        foreign: Some(foreign).filter(|_| !in_user_namespace),
        files: Default::default(),
    };
    let tree = assemble(&recipe, None)?;
    let set = attr::RDONLY | attr::NODEV | attr::NOSUID;
    mount_setattr(tree.as_fd(), false, &MountAttr { set, ..MountAttr::default() })
        .context("mount_setattr", "overlay")?;
    Ok(tree)
}
