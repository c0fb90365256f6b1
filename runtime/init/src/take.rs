//! Copying mounts of the host: detached copies with their final attributes.
//!
//! Used by the parent, or by init if the parent lacks permission.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, makedev};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, Top, attr, clone_with, mount_setattr, propagation};

use crate::slots::Slots;
use crate::step::{CloneTree, DeviceSource, Propagation, Slot};

/// A failure to copy a mount source.
#[derive(Debug)]
pub struct Failed {
    /// The failed operation.
    pub op: &'static str,
    /// An explanation that follows the source's name in the error message; may be empty.
    pub hint: &'static str,
    /// The errno.
    pub errno: Errno,
}

fn failed(op: &'static str) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { op, hint: "", errno }
}

const CLONE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC);

/// A detached copy of a mount tree or a device node, and its top if somebody had to look at it.
#[derive(Debug)]
pub struct Taken {
    /// The copy.
    pub fd: OwnedFd,
    /// The top of the copy.
    pub top: Option<Top>,
}

/// Copies a mount tree.
///
/// # Errors
/// The failed operation.
pub fn tree(tree: &CloneTree<'_>, slots: &Slots) -> Result<Taken, Failed> {
    let fd = open_on_host(tree).map_err(failed("open_tree"))?;
    let mut top = None;
    if tree.slot == Slot::ROOT {
        let root = sys::mount::top(fd.as_fd()).map_err(failed("statx"))?;
        if root.file_type != FileType::Directory {
            let hint = " (invalid rootfs: not a directory, or a symlink)";
            return Err(Failed { op: "open_tree", hint, errno: Errno::NOTDIR });
        }
        top = Some(root);
    }
    set_up(&fd, tree, slots)?;
    Ok(Taken { fd, top })
}

/// Copies a mount tree like [`tree`], but without pinned mount namespaces, which are mounts of their files
/// (namespaces(7), "The /proc/pid/ns/ directory"). open_tree(2) copies these mounts, but a new mount namespace does not
/// contain them. So a child process copies the tree in a mount namespace of its own, as runc does. The copy is in the
/// same peer groups. This takes as long as a copy of the mount table.
///
/// # Errors
/// The failed operation; EINVAL if the source is a link of procfs to a mount of another mount namespace.
pub fn tree_without_pins(tree: &CloneTree<'_>, slots: &Slots) -> Result<OwnedFd, Failed> {
    let copy = || {
        sys::ns::unshare(CloneFlags::NEWNS)?;
        open_on_host(tree)
    };
    let fd = sys::errand::fetch(copy).map_err(failed("open_tree in a copy of the mount table"))?;
    set_up(&fd, tree, slots)?;
    Ok(fd)
}

/// Copies a mount tree of the container; `place` is the opened top of the tree.
pub(crate) fn tree_of(
    place: impl AsFd,
    tree: &CloneTree<'_>,
    slots: &Slots,
) -> Result<OwnedFd, Failed> {
    let fd = open(place.as_fd(), c"", OpenTreeFlags::AT_EMPTY_PATH, tree);
    let fd = fd.map_err(failed("open_tree"))?;
    set_up(&fd, tree, slots)?;
    Ok(fd)
}

/// Makes a detached copy of a tree of the host, as [`open`] does.
fn open_on_host(tree: &CloneTree<'_>) -> Result<OwnedFd, Errno> {
    let flags = match tree.slot == Slot::ROOT || tree.keep_link {
        true => OpenTreeFlags::AT_SYMLINK_NOFOLLOW,
        false => OpenTreeFlags::empty(),
    };
    open(CWD, tree.source, flags, tree)
}

/// Makes a detached copy. The first change of the propagation is part of the call that copies, if it concerns the same
/// mounts.
fn open(
    directory: BorrowedFd<'_>,
    path: &CStr,
    mut flags: OpenTreeFlags,
    tree: &CloneTree<'_>,
) -> Result<OwnedFd, Errno> {
    if tree.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    match split(tree) {
        (Some(first), _) => {
            let attr = MountAttr { propagation: first.kind, ..MountAttr::default() };
            clone_with(directory, path, flags, &attr)
        }
        (None, _) => open_tree(directory, path, flags | CLONE),
    }
}

/// Returns the change of the propagation that [`open`] makes, if any, and those that [`set_up`] makes.
fn split<'t>(tree: &CloneTree<'t>) -> (Option<&'t Propagation>, &'t [Propagation]) {
    match tree.propagation {
        [first, rest @ ..] if first.recursive == tree.recursive => (Some(first), rest),
        changes => (None, changes),
    }
}

/// The name of the operation in errors that only a bug in the plan can cause.
pub const OUT_OF_ORDER: &str = "steps out of order";

/// Makes the other changes of the propagation of a detached copy, and sets its attributes and id mapping.
fn set_up(fd: &OwnedFd, tree: &CloneTree<'_>, slots: &Slots) -> Result<(), Failed> {
    for Propagation { kind, recursive } in split(tree).1 {
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

/// Maps the ids of a detached tree with the mapping of a user namespace.
///
/// # Errors
/// The failed operation.
pub fn map_ids(
    tree: &OwnedFd,
    user_namespace: BorrowedFd<'_>,
    recursive: bool,
) -> Result<(), Failed> {
    let attr = MountAttr::id_mapped(user_namespace);
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

/// The attributes of bind mounts of the host's device nodes. The inode is the host's and belongs to uid 0. Without
/// these attributes, root of the container could change the inode's mode, owner, times and extended attributes. A
/// device on a read-only mount can still be written to. The mounts are not noexec, which would also forbid mmap(2) with
/// PROT_EXEC, for example of /dev/zero and /dev/sgx_enclave. The mounts are private: the host's /dev is shared where
/// systemd runs, and a mount of the container over a peer of /dev/null would appear over the host's.
pub const LENT: MountAttr = MountAttr {
    set: attr::RDONLY | attr::NOSUID,
    clear: 0,
    propagation: propagation::PRIVATE,
    userns_fd: 0,
};

/// The attributes of the mounts that cover masked files: those of [`LENT`], and noexec.
pub const COVER: MountAttr = MountAttr { set: LENT.set | attr::NOEXEC, ..LENT };

/// Makes a detached bind mount of a device node, and verifies the type and number of the mounted node.
///
/// # Errors
/// The failed operation; ENODEV if the file is a different device.
pub fn device(device: &DeviceSource<'_>) -> Result<Taken, Failed> {
    let &DeviceSource { slot, path, file_type, major, minor } = device;
    let fd = match is_off(Defence::LentReadOnly) {
        true => open_tree(CWD, path, CLONE),
        false if slot == Slot::NULL => clone_with(CWD, path, OpenTreeFlags::empty(), &COVER),
        false => clone_with(CWD, path, OpenTreeFlags::empty(), &LENT),
    };
    let fd = fd.map_err(failed("open_tree"))?;
    let top = sys::mount::top(fd.as_fd()).map_err(failed("statx"))?;
    let same = top.file_type == FileType::from_raw_mode(file_type)
        && (file_type == FileType::Fifo.as_raw_mode() || top.device == makedev(major, minor));
    match same {
        true => Ok(Taken { fd, top: Some(top) }),
        false => {
            let hint = " (a device of another number)";
            Err(Failed { op: "open device", hint, errno: Errno::NODEV })
        }
    }
}
