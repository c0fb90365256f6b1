//! Sources of external mounts from which criu can copy the propagation.
//!
//! If several mounts of a container are slaves of one peer group of the host, criu copies the propagation of all of them
//! from the source of one. The kernel allows this (MOVE_MOUNT_SET_GROUP) only if the root of the source's mount is at or
//! above the roots of the others, and if the source shares mount events. So the source of a bind mount is a path in a
//! copy of the whole mount of the host, and not a mount of its own.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, openat, rmdir, statat, statx};
use rustix::mount::{OpenTreeFlags, UnmountFlags, open_tree, unmount};
use sys::mount::{MountAttr, mount_setattr, propagation};
use sys::{Context, Errno};

use super::mountinfo::{self, Line};
use super::mounts::attach;
use crate::Error;

/// Returns the path of the file or directory of `mount` in a copy of a wider mount, which is attached at `place`. If there
/// is no wider mount, returns the mount point of `mount`; `table` is the mount table. With `searchable`, every user must
/// be able to search the directories of the path.
///
/// # Errors
/// If a mount cannot be copied or changed.
pub(super) fn source(
    mount: &Line,
    table: &[Line],
    place: &str,
    searchable: bool,
) -> Result<String, Error> {
    let mut wider: Vec<(&Line, &str)> = table
        .iter()
        .filter(|line| line.device == mount.device && !line.is_mapped && !mount.is_mapped)
        .filter(|line| line.root.len() < mount.root.len())
        .filter_map(|line| Some((line, plan::below(&mount.root, line.root.trim_end_matches('/'))?)))
        .collect();
    wider.sort_by_key(|(line, _)| (line.sharing.master != mount.sharing.master, line.root.len()));
    let wanted = look(&mount.point).context("stat", mount.point.as_str())?;
    for (line, below) in wider {
        let Ok(tree) = copy(line) else { continue };
        let attr = MountAttr { set: mount.attr, clear: mountinfo::ALL, ..MountAttr::default() };
        mount_setattr(tree.as_fd(), false, &attr).context("mount_setattr", mount.point.as_str())?;
        make_shared(&tree, line).context("mount_setattr", mount.point.as_str())?;
        attach(tree.as_fd(), place)?;
        let path = format!("{place}{below}");
        let is_same = look(&path)
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino));
        if is_same && (!searchable || is_open(place, below)) {
            return Ok(path);
        }
        unmount(place, UnmountFlags::DETACH).context("umount", place)?;
        rmdir(place).context("rmdir", place)?;
    }
    make_source(&mount.point, &mountinfo::read("/proc/self/mountinfo")?)?;
    Ok(mount.point.clone())
}

/// Returns whether every user may search the directory `place`, and all directories of the path `below` it.
fn is_open(place: &str, below: &str) -> bool {
    let ends = below.match_indices('/').map(|(end, _)| end);
    ends.filter_map(|end| below.get(..end)).all(|part| {
        let stat = look(&format!("{place}{part}"));
        stat.is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode).contains(Mode::XOTH))
    })
}

/// Makes the mount in which `path` lies, by the mount table, a source from which criu can copy the propagation.
///
/// # Errors
/// If the mount cannot be changed.
pub(super) fn make_source(path: &str, table: &[Line]) -> Result<(), Error> {
    let above = table.iter().filter(|line| plan::is_at_or_below(path, &line.point));
    let Some(mount) = above.max_by_key(|line| line.point.len()) else { return Ok(()) };
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = openat(CWD, mount.point.as_str(), flags, Mode::empty()).context("open", path)?;
    Ok(make_shared(&fd, mount).context("mount_setattr", path)?)
}

fn look(path: &str) -> Result<Stat, Errno> {
    statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns a detached copy of a mount without the mounts below it. Fails if another mount covers it.
fn copy(mount: &Line) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let found = openat(CWD, mount.point.as_str(), flags, Mode::empty())?;
    if statx(&found, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id != mount.id {
        return Err(Errno::NOENT);
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&found, c"", flags)
}

/// Makes a private mount shared. criu copies the propagation of a source even if the mount was a slave only on the host
/// of the checkpoint.
fn make_shared(fd: &OwnedFd, mount: &Line) -> Result<(), Errno> {
    if !mount.sharing.is_private() {
        return Ok(());
    }
    let attr = MountAttr { propagation: propagation::SHARED, ..MountAttr::default() };
    mount_setattr(fd.as_fd(), false, &attr)
}
