//! Mounts: made detached with their final attributes, then attached by descriptor.

use core::ffi::CStr;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, chmodat, readlinkat_raw};
use rustix::io::Errno;
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

/// Attaches a tree that the parent took; the place becomes what the tree's root is.
pub(crate) fn attach_tree(
    root: &Root<'_>,
    tree: BorrowedFd<'_>,
    target: &Target<'_>,
) -> Result<(), Failure> {
    let place = root.target(target, is_directory(tree)?)?;
    attach(tree, place)
}

/// Attaches a bind mount whose source is in the root, or that leaves links as they are.
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

/// Makes a link that says what `link` says.
// Apart, for its buffer: every init would touch the pages of a frame with room for it.
#[inline(never)]
fn copy_link(root: &Root<'_>, link: BorrowedFd<'_>, path: &CStr) -> Result<(), Failure> {
    let mut text = [0; 4097];
    root.make_link(path, link_text(link, &mut text)?)
}

/// What a link says.
fn link_text<'b>(link: BorrowedFd<'_>, buffer: &'b mut [u8; 4097]) -> Result<&'b CStr, Failure> {
    let too_long = Failure::new("readlinkat", Errno::NAMETOOLONG);
    // The last byte stays what it is, so that the text has an end.
    let length = readlinkat_raw(link, c"", &mut buffer[..4096]).op("readlinkat")?;
    let text = buffer.get(..=length).ok_or(too_long)?;
    CStr::from_bytes_with_nul(text).map_err(|_| Failure::new("readlinkat", Errno::INVAL))
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

/// Makes a filesystem and attaches it; `fresh` is the tmpfs that was mounted last, and then what was now, if it is one.
pub(crate) fn mount_fs<'a>(
    root: &Root<'_>,
    step: &MountFs<'a>,
    fresh: &mut Option<Fresh<'a>>,
) -> Result<(), Failure> {
    let last = fresh.take();
    if let Some(options) = &step.oversized {
        return mount_oversized(root, step, options);
    }
    if let Some(last) = last
        && let Some(name) = last.make(step.target.path)?
    {
        let tree = make(root, step, None)?;
        last.attach(tree.as_fd(), name)?;
        *fresh = Some(last);
        return Ok(());
    }
    let place = root.place(&step.target, true)?;
    let tree = make(root, step, inherited_mode(step, &place)?)?;
    attach(&tree, place.fd)?;
    *fresh = Fresh::of(step, tree);
    Ok(())
}

/// Makes a filesystem and what is to be in it.
fn make(root: &Root<'_>, step: &MountFs<'_>, mode: Option<u32>) -> Result<OwnedFd, Failure> {
    let tree = filesystem::make(step, mode)?;
    if let Some(label) = step.label {
        confinement::label_mount(&tree, label)?;
    }
    if step.copy_up {
        copy_up(root, &step.target, tree.as_fd(), step.inherit_owner)?;
    }
    Ok(tree)
}

/// The permissions of what is covered, for a tmpfs that is given none. One whose place was not there has those that
/// the kernel gives it, 1777.
fn inherited_mode(step: &MountFs<'_>, place: &Place) -> Result<Option<u32>, Failure> {
    if !(step.inherit_mode && place.was_there) {
        return Ok(None);
    }
    Ok(Some(rustix::fs::fstat(&place.fd).op("fstat")?.st_mode & 0o7777))
}

/// mount(2), for option strings that fsconfig(2) cannot take; by descriptor all the same: the place
/// is made the working directory, and mounted over as `.`.
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
    // What was mounted is seen from here on by its path alone.
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

/// For a root that pivot_root(2) cannot leave (initramfs): moved over `/`, then chroot(2). The host's mounts stay
/// below, but for those of the kernel, which are covered where they are `locked`; `proc` is the host's procfs.
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
