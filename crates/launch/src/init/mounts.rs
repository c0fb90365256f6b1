//! Mounts: made detached with their final attributes, then attached by descriptor.

use alloc::ffi::CString;
use core::ffi::CStr;

use plan::step::{MountFs, Oversized, Target};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat};
use rustix::io::Errno;
use rustix::mount::{
    FsPickFlags, MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_reconfigure, fsconfig_set_flag, fspick, mount, mount_change, move_mount, unmount,
};
use sys::mount::{MountAttr, mount_setattr};

use super::confinement;
use super::copy_up::copy_up;
use super::root::{Root, is_directory};
use crate::failure::{Failure, Op};
use crate::filesystem;

/// Turns every mount of the copied table into a slave: the host's later mounts arrive, ours stay.
pub(crate) fn detach_propagation() -> Result<(), Failure> {
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .op("mount MS_SLAVE|MS_REC /")
}

/// Puts the root filesystem's tree where hooks expect it, and stands in it.
pub(crate) fn attach_root(tree: BorrowedFd<'_>, path: &CStr) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, path, flags).op("move_mount")?;
    rustix::process::fchdir(tree).op("fchdir")
}

/// Attaches a detached mount to an open place.
pub(crate) fn attach(tree: impl AsFd, place: impl AsFd) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, c"", place, c"", flags).op("move_mount")
}

/// Attaches a tree that the host actor took; the place becomes what the tree's root is.
pub(crate) fn attach_tree(
    root: &Root<'_>,
    tree: BorrowedFd<'_>,
    target: &Target,
) -> Result<(), Failure> {
    let place = root.target(target, is_directory(tree)?)?;
    attach(tree, place)
}

/// Makes a tmpfs read-only by its superblock; that of anything else may be the host's.
pub(crate) fn freeze_tmpfs(root: &Root<'_>, path: &CStr) -> Result<(), Failure> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let place = root.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    if rustix::fs::fstatfs(&place).op("fstatfs")?.f_type as i64 != TMPFS_MAGIC {
        return Err(Failure::new("freeze tmpfs", Errno::XDEV));
    }
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = fspick(&place, c"", flags).op("fspick")?;
    fsconfig_set_flag(context.as_fd(), c"ro").op("fsconfig ro")?;
    fsconfig_reconfigure(context.as_fd()).op("fsconfig reconfigure")
}

/// Changes options of the file system that is mounted at a place; without any, nothing. Where nothing is mounted
/// is EINVAL.
pub(crate) fn reconfigure(
    root: &Root<'_>,
    path: &CStr,
    parameters: &[(CString, Option<CString>)],
) -> Result<(), Failure> {
    let place = root.open(path, OFlags::PATH)?;
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = fspick(&place, c"", flags).op("fspick")?;
    if parameters.is_empty() {
        return Ok(());
    }
    filesystem::set(context.as_fd(), parameters)
        .and_then(|()| fsconfig_reconfigure(context.as_fd()).op("fsconfig reconfigure"))
        .map_err(|failure| filesystem::with_kernel_log(failure, context.as_fd()))
}

/// Makes a filesystem and attaches it.
pub(crate) fn mount_fs(root: &Root<'_>, step: &MountFs) -> Result<(), Failure> {
    if let Some(options) = &step.oversized {
        return mount_oversized(root, step, options);
    }
    let tree = filesystem::make(step)?;
    let place = root.target(&step.target, true)?;
    if let Some(label) = &step.label {
        confinement::label_mount(&tree, label)?;
    }
    if step.inherit_mode {
        let mode = rustix::fs::fstat(&place).op("fstat")?.st_mode & 0o7777;
        let mode = Mode::from_raw_mode(mode);
        chmodat(&tree, c".", mode, AtFlags::empty()).op("fchmodat")?;
    }
    if step.copy_up {
        copy_up(root, &step.target, tree.as_fd(), step.inherit_owner)?;
    }
    attach(tree, place)
}

/// mount(2), for option strings that fsconfig(2) cannot take; by descriptor all the same: the place
/// is made the working directory, and mounted over as `.`.
fn mount_oversized(root: &Root<'_>, step: &MountFs, options: &Oversized) -> Result<(), Failure> {
    let place = root.target(&step.target, true)?;
    rustix::process::fchdir(&place).op("fchdir")?;
    let flags = MountFlags::from_bits_retain(options.flags);
    mount(&step.source, c".", &step.kind, flags, options.data.as_c_str()).op("mount")?;
    if step.attr.propagation != 0 {
        // What was mounted is seen from here on by its path alone.
        let top = root.open(&step.target.path, OFlags::PATH)?;
        let attr = MountAttr { propagation: step.attr.propagation, ..MountAttr::default() };
        mount_setattr(top.as_fd(), false, &attr).op("mount_setattr")?;
    }
    let top = root.open(c"", rustix::fs::OFlags::PATH)?;
    rustix::process::fchdir(top).op("fchdir")
}

/// pivot_root(2) onto itself: the old root ends up below the new one, whence it is detached with all
/// its mounts. Nothing of the host stays reachable.
pub(crate) fn pivot_root(tree: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::process::pivot_root(c".", c".").op("pivot_root")?;
    unmount(c".", UnmountFlags::DETACH).op("umount2 old root")?;
    rustix::process::chdir(c"/").op("chdir /")
}

/// chroot(2) into the tree that covers the root of a namespace made from the template. Whatever gets out
/// of it, by chroot tricks or `umount /`, finds the template's one file system: empty and read-only.
/// Without a mount namespace the tree covers nothing: it is attached nowhere, its mounts live as long as
/// somebody has it as root, and who may use chroot(2) in there gets out, as the configuration wants it.
pub(crate) fn enter_root(tree: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::process::chroot(c".").op("chroot")
}

/// For a root that pivot_root(2) cannot leave (initramfs): moved over `/`, then chroot(2).
pub(crate) fn change_root(tree: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::mount::mount_move(c".", c"/").op("mount MS_MOVE")?;
    rustix::process::chroot(c".").op("chroot")?;
    rustix::process::chdir(c"/").op("chdir /")
}
