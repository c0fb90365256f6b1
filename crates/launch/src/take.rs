//! Taking mounts from the host: detached copies with their final attributes.
//!
//! By the host actor, or by an init whose caller may not; so without allocation.

use plan::step::{CloneTree, DeviceSource, Propagation, Slot};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, fstat, makedev};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use sys::mount::{MountAttr, attr, mount_setattr};

use crate::slots::Slots;

/// What could not be done with a source.
pub(crate) struct Failed {
    pub op: &'static str,
    /// What to add to the name of the source.
    pub hint: &'static str,
    pub errno: Errno,
}

fn failed(op: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { op, hint: "", errno }
}

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// A mount tree.
pub(crate) fn tree(tree: &CloneTree, slots: &Slots) -> Result<OwnedFd, Failed> {
    let mut flags = CLONE;
    if tree.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let is_root = tree.slot == Slot::ROOT;
    if is_root {
        flags |= OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    }
    let fd = open_tree(CWD, &tree.source, flags).map_err(failed("open_tree"))?;
    if is_root {
        let mode = fstat(&fd).map_err(failed("fstat"))?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::Directory {
            let hint = " (invalid rootfs: not a directory, or a symlink)";
            return Err(Failed { op: "open_tree", hint, errno: Errno::NOTDIR });
        }
    }
    for Propagation { kind, recursive } in &tree.propagation {
        let attr = MountAttr { propagation: *kind, ..MountAttr::default() };
        mount_setattr(fd.as_fd(), *recursive, &attr).map_err(failed("mount_setattr"))?;
    }
    for (attr, recursive) in [(tree.attr, false), (tree.recursive_attr, true)] {
        if !attr.is_empty() {
            mount_setattr(fd.as_fd(), recursive, &attr).map_err(failed("mount_setattr"))?;
        }
    }
    if let Some(id_map) = &tree.id_map {
        let user_namespace = slots.get(id_map.user_namespace).ok_or(Errno::CHILD);
        let user_namespace = user_namespace.map_err(failed("steps out of order"))?;
        map_ids(&fd, user_namespace, id_map.recursive)?;
    }
    Ok(fd)
}

/// Maps the ids of a detached tree by those of a user namespace.
fn map_ids(tree: &OwnedFd, user_namespace: BorrowedFd<'_>, recursive: bool) -> Result<(), Failed> {
    let attr = MountAttr {
        set: attr::IDMAP,
        userns_fd: user_namespace.as_raw_fd() as u64,
        ..MountAttr::default()
    };
    mount_setattr(tree.as_fd(), recursive, &attr).map_err(|errno| {
        let hint = match errno {
            Errno::INVAL => {
                " (maybe the filesystem used doesn't support idmap mounts on this kernel?)"
            }
            Errno::PERM => {
                " (is its filesystem owned by another user namespace, or id-mapped already?)"
            }
            _ => "",
        };
        Failed { op: "failed to set MOUNT_ATTR_IDMAP on", hint, errno }
    })
}

/// A device node as a mount, verified after it was taken.
pub(crate) fn device(device: &DeviceSource) -> Result<OwnedFd, Failed> {
    let DeviceSource { path, file_type, major, minor, .. } = device;
    let fd = open_tree(CWD, path, CLONE).map_err(failed("open_tree"))?;
    let stat = fstat(&fd).map_err(failed("fstat"))?;
    let same = FileType::from_raw_mode(stat.st_mode) == FileType::from_raw_mode(*file_type)
        && (*file_type == FileType::Fifo.as_raw_mode() || stat.st_rdev == makedev(*major, *minor));
    match same {
        true => Ok(fd),
        false => {
            let hint = " (a device of another number)";
            Err(Failed { op: "open device", hint, errno: Errno::NODEV })
        }
    }
}
