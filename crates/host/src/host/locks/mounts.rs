//! What containerd did for each layer: a bind mount made by descriptor, and taken away again; each thread
//! in a mount namespace of its own, so that only the kernel's own locks are shared.

use super::team;
use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount_change, move_mount,
    open_tree, unmount,
};
use std::time::Duration;
use sys::clone::CloneFlags;

/// Where each thread has its own file system. That it is there in every host is all that matters.
const PLACE: &str = "/proc";

/// Has threads on `cpus` mount and unmount for `time`; microseconds a turn.
///
/// # Errors
/// EPERM for users other than root.
pub fn round(cpus: &[u32], time: Duration) -> Result<f64, Error> {
    team::round(cpus, time, prepare, turn).map_err(|error| match error.errno() {
        Some(Errno::PERM) => error.advise("mounts need root; --work lock does without"),
        _ => error,
    })
}

/// A mount namespace of the thread's own, with a file system that holds a source and a target. All of it
/// goes with the thread.
fn prepare() -> Result<OwnedFd, Errno> {
    sys::ns::unshare(CloneFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let fs = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fs)?;
    let tree = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    for name in ["source", "target"] {
        mkdirat(&tree, name, Mode::from_raw_mode(0o700))?;
    }
    move_mount(&tree, c"", CWD, PLACE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    openat(CWD, PLACE, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn turn(place: &mut OwnedFd) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let layer = open_tree(&*place, c"source", flags)?;
    move_mount(&layer, c"", &*place, c"target", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    unmount("/proc/target", UnmountFlags::DETACH)
}
