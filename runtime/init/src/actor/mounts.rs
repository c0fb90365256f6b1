//! Mounts. They are created detached, with their final attributes, and then attached by descriptor.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, readlinkat_raw};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::mount::{
    FsPickFlags, MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_reconfigure, fsconfig_set_flag, fspick, mount, mount_change, move_mount, unmount,
};
use sys::mount::{MountAttr, mount_setattr};

use super::confinement;
use super::copy_up::copy_up;
use super::fresh::Fresh;
use super::old_tree::hide_kernel_file_systems;
use super::root::{Place, Root, is_directory};
use crate::failure::{Failure, Op};
use crate::filesystem;
use crate::slots::Slots;
use crate::step::{AttachBind, BindLink, BindSource, MountFs, Oversized, Parameter, Target};
use crate::take;

/// Makes every mount of the copied mount table a slave: it receives the host's later mount events and sends none.
pub(crate) fn detach_propagation() -> Result<(), Failure> {
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .op("mount MS_SLAVE|MS_REC /")
}

/// Attaches the root filesystem's tree where hooks expect it, and makes it the working directory.
pub(crate) fn attach_root(tree: BorrowedFd<'_>, path: &CStr) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, path, flags).op("move_mount")?;
    rustix::process::fchdir(tree).op("fchdir")
}

/// Attaches a detached mount to an opened mount point. If one of them is a directory and the other is not, fails with
/// ENOTDIR, as mount(2) does: engines look for its text. move_mount(2) fails with EINVAL.
pub(crate) fn attach(tree: impl AsFd, place: impl AsFd) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    match move_mount(&tree, c"", &place, c"", flags) {
        Err(Errno::INVAL) if is_directory(&tree)? != is_directory(&place)? => {
            Err(Failure::new("move_mount", Errno::NOTDIR))
        }
        result => result.op("move_mount"),
    }
}

/// Attaches a tree opened by the parent. A missing mount point is created as a directory or a file, like the tree's
/// root.
pub(crate) fn attach_tree(
    root: &Root<'_>,
    tree: BorrowedFd<'_>,
    target: &Target<'_>,
) -> Result<(), Failure> {
    let place = root.target(target, is_directory(tree)?)?;
    attach(tree, place)
}

/// Attaches a bind mount whose source is in the root, or that does not follow links.
pub(crate) fn attach_bind(
    root: &Root<'_>,
    bind: &AttachBind<'_>,
    slots: &Slots,
) -> Result<(), Failure> {
    let taken;
    let tree = match &bind.source {
        BindSource::Taken(slot) => slots.get(*slot).ok_or(Failure::new("slot", Errno::BADF))?,
        BindSource::Inside(source) => {
            let place = root.source(source.source, source.keep_link)?;
            taken = take::tree_of(place, source, slots)?;
            taken.as_fd()
        }
    };
    match bind.link {
        BindLink::Follow => attach_tree(root, tree, &bind.target),
        BindLink::Keep => attach(tree, root.place_of_link(bind.target.path, is_directory(tree)?)?),
        BindLink::Copy => {
            let mode = rustix::fs::fstat(tree).op("fstat")?.st_mode;
            if FileType::from_raw_mode(mode) != FileType::Symlink {
                return attach_tree(root, tree, &bind.target);
            }
            copy_link(root, tree, bind.target.path)
        }
    }
}

/// Creates a link with the same text as `link`.
// Not inlined, because of its buffer: otherwise every init would touch the pages of a larger frame.
#[inline(never)]
fn copy_link(root: &Root<'_>, link: BorrowedFd<'_>, path: &CStr) -> Result<(), Failure> {
    let mut text = [0; 4097];
    root.make_link(path, link_text(link, &mut text)?)
}

/// Reads a link's text.
fn link_text<'b>(link: BorrowedFd<'_>, buffer: &'b mut [u8; 4097]) -> Result<&'b CStr, Failure> {
    let too_long = Failure::new("readlinkat", Errno::NAMETOOLONG);
    // The last byte of the buffer stays 0, so that the text is always terminated.
    let length = readlinkat_raw(link, c"", &mut buffer[..4096]).op("readlinkat")?;
    let text = buffer.get(..=length).ok_or(too_long)?;
    CStr::from_bytes_with_nul(text).map_err(|_| Failure::new("readlinkat", Errno::INVAL))
}

/// Makes the superblock of a tmpfs read-only. The tmpfs is given by the descriptor with which it was created
/// (`frozen-is-own`): its path may lead to a file system of the host by now.
pub(crate) fn freeze_tmpfs(tmpfs: BorrowedFd<'_>) -> Result<(), Failure> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = fspick(tmpfs, c"", flags).op("fspick")?;
    fsconfig_set_flag(context.as_fd(), c"ro").op("fsconfig ro")?;
    fsconfig_reconfigure(context.as_fd()).op("fsconfig reconfigure")
}

/// Changes options of the file system mounted at a path; does nothing without options. Fails with EINVAL if nothing is
/// mounted there.
pub(crate) fn reconfigure(
    root: &Root<'_>,
    path: &CStr,
    parameters: &[Parameter<'_>],
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

/// Creates and attaches a filesystem. `fresh` is the tmpfs that init mounted last, if any. It stays if the new mount is
/// directly below it. Otherwise it is replaced by the new filesystem if this is an empty tmpfs, or else by `None`.
pub(crate) fn mount_fs<'a>(
    root: &Root<'_>,
    step: &MountFs<'a>,
    slots: &Slots,
    fresh: &mut Option<Fresh<'a>>,
) -> Result<(), Failure> {
    let last = fresh.take();
    if let Some(options) = &step.oversized {
        mount_oversized(root, step, options)?;
        if let Some(slot) = step.kept {
            slots.keep(slot, root.open(step.target.path, OFlags::PATH)?);
        }
        return Ok(());
    }
    if let Some(last) = last
        && let Some(name) = last.make(step.target.path)?
    {
        let tree = make(step, None)?;
        last.attach(tree.as_fd(), name)?;
        *fresh = Some(last);
        if let Some(slot) = step.kept {
            slots.keep(slot, tree);
        }
        return Ok(());
    }
    let place = root.place(&step.target, true)?;
    let tree = make(step, Some(&place))?;
    attach(&tree, place.fd)?;
    if let Some(slot) = step.kept {
        slots.keep(slot, fcntl_dupfd_cloexec(&tree, 3).op("dup")?);
    }
    *fresh = Fresh::of(step, tree);
    Ok(())
}

/// Creates a filesystem and its contents. `covered` is the mount point, if there is one that has not just been created.
pub(crate) fn make(step: &MountFs<'_>, covered: Option<&Place>) -> Result<OwnedFd, Failure> {
    let mode = covered.map_or(Ok(None), |place| inherited_mode(step, place))?;
    let tree = filesystem::make(step, mode)?;
    if let Some(label) = step.label {
        confinement::label_mount(&tree, label)?;
    }
    if let Some(place) = covered.filter(|_| step.copy_up) {
        copy_up(place.fd.as_fd(), tree.as_fd())?;
    }
    Ok(tree)
}

/// Returns the mode of the covered directory, for a tmpfs without a mode option. If the mount point has just been
/// created, returns `None`: the kernel's default mode, 1777, then applies.
fn inherited_mode(step: &MountFs<'_>, place: &Place) -> Result<Option<u32>, Failure> {
    if !(step.inherit_mode && place.was_there) {
        return Ok(None);
    }
    Ok(Some(rustix::fs::fstat(&place.fd).op("fstat")?.st_mode & 0o7777))
}

/// Mounts with mount(2), for option strings too long for fsconfig(2). The mount point is still given by a descriptor:
/// it becomes the working directory, and the target of mount(2) is `.`.
fn mount_oversized(
    root: &Root<'_>,
    step: &MountFs<'_>,
    options: &Oversized<'_>,
) -> Result<(), Failure> {
    let place = root.place(&step.target, true)?;
    let mode = inherited_mode(step, &place)?;
    rustix::process::fchdir(&place.fd).op("fchdir")?;
    let flags = MountFlags::from_bits_retain(options.flags as _);
    mount(step.source, c".", step.kind, flags, options.data).op("mount")?;
    // The new mount is reachable only by its path.
    if let Some(mode) = mode {
        let top = root.open(step.target.path, OFlags::PATH)?;
        chmodat(top, c".", Mode::from_raw_mode(mode), AtFlags::empty()).op("fchmodat")?;
    }
    if step.attr.propagation != 0 {
        let top = root.open(step.target.path, OFlags::PATH)?;
        let attr = MountAttr { propagation: step.attr.propagation, ..MountAttr::default() };
        mount_setattr(top.as_fd(), false, &attr).op("mount_setattr")?;
    }
    let top = root.open(c"", rustix::fs::OFlags::PATH)?;
    rustix::process::fchdir(top).op("fchdir")
}

/// Calls pivot_root(2) with the same directory twice: the old root is then mounted on top of the new root, and is
/// detached from there with all its mounts. No file of the host stays reachable.
pub(crate) fn pivot_root(tree: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::process::pivot_root(c".", c".").op("pivot_root")?;
    unmount(c".", UnmountFlags::DETACH).op("umount2 old root")?;
    rustix::process::chdir(c"/").op("chdir /")
}

/// Calls chroot(2) into the tree that covers the root of a namespace copied from the blank namespace. A process that
/// escapes, by chroot tricks or `umount /`, finds only the blank namespace's file system: empty and read-only. If the
/// container has no mount namespace, the tree is not attached and covers nothing; its mounts exist as long as the tree
/// is the root of a process. A process with CAP_SYS_CHROOT can then escape, which such a configuration accepts.
pub(crate) fn enter_root(tree: BorrowedFd<'_>) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::process::chroot(c".").op("chroot")
}

/// Makes the tree the root without pivot_root(2), which fails if the current root is an initramfs: moves the tree over
/// `/`, then calls chroot(2). The host's mounts stay below the new root, except procfs and sysfs, which are unmounted,
/// or covered if they are `locked`. `proc` is the host's procfs.
pub(crate) fn change_root(
    tree: BorrowedFd<'_>,
    proc: BorrowedFd<'_>,
    locked: bool,
) -> Result<(), Failure> {
    rustix::process::fchdir(tree).op("fchdir")?;
    rustix::mount::mount_move(c".", c"/").op("mount MS_MOVE")?;
    hide_kernel_file_systems(proc, locked)?;
    rustix::process::chroot(c".").op("chroot")?;
    rustix::process::chdir(c"/").op("chdir /")
}
