//! Masked and read-only paths.
//!
//! All masks use the same two sources: /dev/null covers files, and one empty read-only tmpfs covers
//! directories. The source itself covers the first path, and copies of its mount cover the others.
//! So a hundred masked per-CPU directories need only one superblock (runc issue 5262). Without the
//! fast path `shared-masks`, each masked directory is covered by a tmpfs of its own.
//!
//! In a container with a user namespace on Linux 6.15 and later, a node that the parent makes takes the place of the
//! host's /dev/null (`launch/src/parent/nodes.rs`).
//!
//! A process with CAP_SYS_ADMIN in its container's user namespace can remove masks, because that namespace owns the
//! mount namespace in which they were made. The kernel locks only mounts that were copied from a mount namespace with
//! another owner; a second unshare(CLONE_NEWNS) in the same user namespace locks nothing (tried on 6.18). To prevent
//! this, a process outside would have to attach the tree, and init to enter a copy of it: one more process, one more
//! copy, and a message for each mount.

use core::ffi::CStr;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, MountAttrFlags, attr, mount_setattr};

use super::Init;
use super::mounts::attach;
use super::root::{Root, is_directory};
use crate::failure::{Failure, Op};
use crate::step::Slot;

fn clone_mount(fd: impl AsFd, recursive: bool) -> Result<OwnedFd, Failure> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(fd, c"", flags).op("open_tree")
}

impl Init<'_> {
    /// Covers a path so that it appears empty; a missing path needs no cover.
    pub(super) fn mask(
        &mut self,
        path: &CStr,
        shared: bool,
        context: Option<&CStr>,
    ) -> Result<(), Failure> {
        let Some(place) = self.root()?.find(path)? else { return Ok(()) };
        if is_directory(&place)? {
            let cover = match &self.directory_mask {
                Some(first) if shared => clone_mount(first, false)?,
                _ => empty_directory(context)?,
            };
            attach(&cover, place)?;
            self.directory_mask.get_or_insert(cover);
        } else {
            match &self.file_mask {
                Some(first) => attach(clone_mount(first, false)?, place)?,
                None => {
                    let null = self.null()?;
                    attach(&null, place)?;
                    self.file_mask = Some(null);
                }
            }
        }
        Ok(())
    }

    /// Returns the mount of the verified null device in [`Slot::NULL`]. The container's /dev/null is not used, because
    /// it could be any file (CVE-2025-31133).
    fn null(&self) -> Result<OwnedFd, Failure> {
        if is_off(Defence::VerifyDevice) {
            return clone_mount(self.root()?.open(c"dev/null", OFlags::PATH)?, false);
        }
        rustix::io::fcntl_dupfd_cloexec(self.fd(Slot::NULL)?, 3).op("dup")
    }
}

fn empty_directory(context: Option<&CStr>) -> Result<OwnedFd, Failure> {
    let tmpfs = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).op("fsopen")?;
    fsconfig_set_flag(&tmpfs, c"ro").op("fsconfig")?;
    if let Some(label) = context {
        fsconfig_set_string(&tmpfs, c"context", label).op("fsconfig context")?;
    }
    fsconfig_create(&tmpfs).op("fsconfig create")?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    fsmount(tmpfs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).op("fsmount")
}

/// Makes a path read-only by binding it over itself; a missing path is ignored.
pub(super) fn make_readonly(root: &Root<'_>, path: &CStr) -> Result<(), Failure> {
    let Some(place) = root.find(path)? else { return Ok(()) };
    let tree = clone_mount(&place, true)?;
    let readonly = MountAttr { set: attr::RDONLY, ..MountAttr::default() };
    // The mount is attached even if this call fails, because closing a detached mount waits for an RCU grace period.
    let changed = mount_setattr(tree.as_fd(), false, &readonly).op("mount_setattr");
    attach(&tree, &place)?;
    changed
}
