//! Taking mounts from the host: detached copies with their final attributes.
//!
//! By the parent, or by an init whose caller may not.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, fstat, makedev};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, attr, clone_with, mount_setattr};

use crate::slots::Slots;
use crate::step::{CloneTree, DeviceSource, Propagation, Slot};

/// What could not be done with a source.
#[derive(Debug)]
pub struct Failed {
    /// The operation.
    pub op: &'static str,
    /// What to add to the name of the source.
    pub hint: &'static str,
    /// The kernel's answer.
    pub errno: Errno,
}

fn failed(op: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { op, hint: "", errno }
}

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// A mount tree.
///
/// # Errors
/// What could not be done.
pub fn tree(tree: &CloneTree<'_>, slots: &Slots) -> Result<OwnedFd, Failed> {
    let mut flags = CLONE;
    if tree.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let is_root = tree.slot == Slot::ROOT;
    if is_root || tree.keep_link {
        flags |= OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    }
    let fd = open_tree(CWD, tree.source, flags).map_err(failed("open_tree"))?;
    if is_root {
        let mode = fstat(&fd).map_err(failed("fstat"))?.st_mode;
        if FileType::from_raw_mode(mode) != FileType::Directory {
            let hint = " (invalid rootfs: not a directory, or a symlink)";
            return Err(Failed { op: "open_tree", hint, errno: Errno::NOTDIR });
        }
    }
    set_up(&fd, tree, slots)?;
    Ok(fd)
}

/// A mount tree of the container's own, from something in it that was opened.
pub(crate) fn tree_of(
    place: impl AsFd,
    tree: &CloneTree<'_>,
    slots: &Slots,
) -> Result<OwnedFd, Failed> {
    let mut flags = CLONE | OpenTreeFlags::AT_EMPTY_PATH;
    if tree.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let fd = open_tree(place, c"", flags).map_err(failed("open_tree"))?;
    set_up(&fd, tree, slots)?;
    Ok(fd)
}

/// The operation of what only a bug of the plan's can bring about.
pub const OUT_OF_ORDER: &str = "steps out of order";

/// Gives a detached copy what it is to have.
fn set_up(fd: &OwnedFd, tree: &CloneTree<'_>, slots: &Slots) -> Result<(), Failed> {
    for Propagation { kind, recursive } in tree.propagation {
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
        let user_namespace = user_namespace.map_err(failed(OUT_OF_ORDER))?;
        map_ids(fd, user_namespace, id_map.recursive)?;
    }
    Ok(())
}

/// Maps the ids of a detached tree by those of a user namespace.
///
/// # Errors
/// What could not be done.
pub fn map_ids(
    tree: &OwnedFd,
    user_namespace: BorrowedFd<'_>,
    recursive: bool,
) -> Result<(), Failed> {
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

/// What a device node is lent with: its inode is the host's, whose mode, owner, times and attributes the
/// container's root would else change (uid 0 owns it). A device on a read-only mount is written to all the same. Not
/// noexec: that forbids mmap(2) with PROT_EXEC, too, as of /dev/zero and /dev/sgx_enclave.
pub const LENT: MountAttr =
    MountAttr { set: attr::RDONLY | attr::NOSUID, clear: 0, propagation: 0, userns_fd: 0 };

/// What covers masked files has: nothing is executed there.
pub const COVER: MountAttr = MountAttr { set: LENT.set | attr::NOEXEC, ..LENT };

/// A device node as a mount, verified after it was taken.
///
/// # Errors
/// What could not be done; ENODEV for another device.
pub fn device(device: &DeviceSource<'_>) -> Result<OwnedFd, Failed> {
    let &DeviceSource { slot, path, file_type, major, minor } = device;
    let fd = match is_off(Defence::LentReadOnly) {
        true => open_tree(CWD, path, CLONE),
        false if slot == Slot::NULL => clone_with(CWD, path, &COVER),
        false => clone_with(CWD, path, &LENT),
    };
    let fd = fd.map_err(failed("open_tree"))?;
    let stat = fstat(&fd).map_err(failed("fstat"))?;
    let same = FileType::from_raw_mode(stat.st_mode) == FileType::from_raw_mode(file_type)
        && (file_type == FileType::Fifo.as_raw_mode() || stat.st_rdev == makedev(major, minor));
    match same {
        true => Ok(fd),
        false => {
            let hint = " (a device of another number)";
            Err(Failed { op: "open device", hint, errno: Errno::NODEV })
        }
    }
}
