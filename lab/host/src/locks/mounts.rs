//! Repeats the mounts that containerd made for each start in the article on mount lock contention: a bind mount for
//! each layer, made by descriptor, and then the unmounts. Each thread has its own mount namespace, so that the threads
//! share only the kernel's global locks. The mounts are removed together, so that the result includes the waits for the
//! lock, but not RCU grace periods.

use super::team;
use crate::check::probe::new_mount;
use report::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change, move_mount,
    open_tree, unmount,
};
use std::time::Duration;
use sys::clone::CloneFlags;

/// The mount point of each thread's file system. Any directory that exists on every host would do.
const PLACE: &str = "/proc";

/// The number of layers, as in the images of the article on mount lock contention.
const LAYERS: u32 = 50;

/// Lets a thread on each of `cpus` mount and unmount for `time`; returns the microseconds per layer.
///
/// # Errors
/// EPERM without root.
pub fn round(cpus: &[u32], time: Duration) -> Result<f64, Error> {
    let turn = team::round(cpus, time, prepare, turn).map_err(|error| match error.errno() {
        Some(Errno::PERM) => error.advise("mounts require root; --work lock does not"),
        _ => error,
    })?;
    Ok(turn / f64::from(LAYERS))
}

/// A file system with a directory for each layer. The layer is mounted on its own directory.
struct Place {
    /// The root of the file system, at [`PLACE`].
    root: OwnedFd,
    /// The names of the directories.
    names: Vec<String>,
}

/// Creates a mount namespace for the thread, with a file system in it. Both disappear with the thread.
fn prepare() -> Result<Place, Errno> {
    sys::ns::unshare(CloneFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let tree = new_mount(c"tmpfs")?;
    let names: Vec<String> = (0..LAYERS).map(|layer| format!("layers/{layer}")).collect();
    for name in ["layers"].into_iter().chain(names.iter().map(String::as_str)) {
        mkdirat(&tree, name, Mode::from_raw_mode(0o700))?;
    }
    move_mount(&tree, c"", CWD, PLACE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    let root =
        openat(CWD, PLACE, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Place { root, names })
}

/// Attaches one parent mount and a mount for each layer below it, and unmounts all of them.
fn turn(place: &mut Place) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let attach = |from: &str, to: &str| {
        let tree = open_tree(&place.root, from, flags)?;
        move_mount(&tree, c"", &place.root, to, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    };
    attach("layers", "layers")?;
    place.names.iter().try_for_each(|name| attach(name, name))?;
    unmount("/proc/layers", UnmountFlags::DETACH)
}
