//! The blank namespace: a mount namespace with a single mount, an empty read-only tmpfs.
//!
//! A new mount namespace is a copy of its creator's, with all mounts. A copy of the blank namespace has one mount,
//! however many mounts the host has. No file of the host is reachable in it, so there is no old root that has to be
//! detached. From Linux 7.1 on, UNSHARE_EMPTY_MNTNS achieves the same.
//!
//! Init joins the blank namespace and calls unshare(2) there. The root is attached over the one mount, and entered by
//! chroot(2). A process that escapes from the root (`umount -l /`, chroot tricks) finds the empty file system.
//!
//! The *classic* way (a copy of the host's namespace, and pivot_root(2)) is used if something needs the host's mounts
//! there: prestart, createRuntime and createContainer hooks, a shared or slave root, `--no-pivot`, and overlays of host
//! directories whose options are too long for fsconfig(2) or whose layers are named relative to the root. It is also
//! used with a user namespace, where the kernel allows a new proc mount only if the mount namespace already has a
//! visible one.
//!
//! A mount of its nsfs file keeps the blank namespace. This mount is unbindable, so no recursive bind mount of `/` or
//! `/run` contains it.

use alloc::format;
use core::{iter, str};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_change, move_mount, open_tree, unmount,
};
use rustix::process::{chdir, pivot_root};
use sys::Context;
use sys::clone::CloneFlags;
use sys::defence::{Defence, is_off};
use sys::mount::{MountAttr, mount_setattr, propagation};
use sys::sched::Affinity;

use crate::cache::mounts::{DIRECTORY, Lock, take_away};
use crate::cache::{Cache, Error};

/// Older builds used the names `blank` and `template`, and let others bind the mount.
const NAME: &str = "namespace";
const OLD_NAMES: [&str; 2] = ["blank", "template"];
/// The number of CPUs to try: see [`make`].
const CPUS: usize = 16;

impl Cache {
    /// Returns the blank mount namespace, for setns(2). Opening it takes three system calls. If the cache does not
    /// contain it, creates it, which takes about a millisecond, once for every mount namespace in which containers are
    /// started.
    ///
    /// [`Error::Busy`] if another process is creating the blank namespace; [`Error::System`] if it cannot be created,
    /// for example because the root directory is the initramfs. In both cases the start copies the host's mounts and
    /// detaches them.
    pub fn blank(&self) -> Result<OwnedFd, Error> {
        if let Ok(blank) = open(self.fd()) {
            return Ok(blank);
        }
        let lock = self.try_lock()?;
        match open(self.fd()) {
            Ok(blank) => Ok(blank),
            Err(_) => Ok(make(&lock)?),
        }
    }
}

/// Opens the blank namespace, if it exists. The blank namespace is bound to its name last, so a blank namespace that
/// can be opened is complete.
fn open(cache: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(cache, format!("{DIRECTORY}/{NAME}"), flags, Mode::empty())?;
    match sys::nsfs::kind(file.as_fd())? {
        CloneFlags::NEWNS => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

/// Creates the blank namespace and mounts its file on its name.
///
/// The mount is unbindable, so a recursive bind mount of a directory above it does not contain it, whoever makes that
/// bind mount. A copy could not be attached in a newer mount namespace (ELOOP). New mount namespaces do not contain the
/// mount anyway: the kernel copies no file of a mount namespace into them.
///
/// The kernel allows a bind mount of a mount namespace only inside an older one, so that no namespace can contain
/// itself. Since Linux 6.18 it compares the ages by numbers that each CPU allocates in batches. So a new namespace may
/// appear older than the caller's if the two were created on different CPUs (ELOOP). This cannot happen on the CPU
/// where the caller's namespace was created, but that CPU is unknown.
fn make(lock: &Lock<'_>) -> Result<OwnedFd, sys::Error> {
    let mounts = lock.mounts()?;
    for old in OLD_NAMES {
        take_away(mounts.as_fd(), old).context("remove", old)?;
    }
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&mounts, NAME, flags, Mode::RUSR).context("open", NAME)?;
    for cpu in iter::once(None).chain((0..CPUS).map(Some)) {
        let blank = sys::errand::fetch(|| make_here(cpu)).context("make", NAME)?;
        match pin(blank.as_fd(), mounts.as_fd()) {
            // ELOOP; EINVAL before Linux 6.18, where it cannot happen.
            Err(Errno::LOOP | Errno::INVAL) => {}
            pinned => return pinned.map(|()| blank).context("mount", NAME),
        }
    }
    Err(sys::Error::new("mount", NAME, Errno::LOOP))
}

/// Mounts the file of a mount namespace on its name. The mount is complete when it appears.
fn pin(namespace: BorrowedFd<'_>, mounts: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let file = open_tree(namespace, c"", flags)?;
    let unbindable = MountAttr { propagation: propagation::UNBINDABLE, ..MountAttr::default() };
    mount_setattr(file.as_fd(), false, &unbindable)?;
    move_mount(&file, c"", mounts, NAME, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Moves this process to a new mount namespace (on the nth CPU if a number is given), empties the namespace, and
/// returns it. Must be called in a process that exits afterwards.
///
/// The namespace is owned by a new user namespace. A container's copy of it has another owner, so
/// the kernel locks its initial mounts (mount_namespaces(7)). So a container with CAP_SYS_ADMIN
/// that escapes from its root can neither make the file system writable nor unmount it.
fn make_here(cpu: Option<usize>) -> Result<OwnedFd, Errno> {
    if let Some(nth) = cpu {
        // Whether or not the caller's affinity includes the CPU.
        sys::sched::run_on_every_cpu()?;
        Affinity::of(None)?.nth(nth).ok_or(Errno::INVAL)?.set(None)?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let this_process = openat(CWD, c"/proc/self", flags, Mode::empty())?;
    if is_off(Defence::BlankOwner) {
        sys::ns::unshare(CloneFlags::NEWNS)?;
    } else {
        sys::ns::unshare(CloneFlags::NEWUSER | CloneFlags::NEWNS)?;
        map_own_ids(&this_process)?;
    }
    mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // Any existing directory is suitable; /proc certainly exists.
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(c"dayfly", c"/proc", c"tmpfs", flags, c"mode=0555,size=4k,nr_inodes=2")?;
    chdir(c"/proc")?;
    // The old root is now mounted on top of the new root. umount2(2) resolves "." to the topmost mount: the old root.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    chdir(c"/")?;
    let mut mounts = [0; 1024];
    let mountinfo = openat(&this_process, c"mountinfo", OFlags::RDONLY, Mode::empty())?;
    let length = read(mountinfo, &mut mounts)?;
    if !mounts.get(..length).is_some_and(is_one_read_only_root) {
        return Err(Errno::NOTEMPTY);
    }
    openat(&this_process, c"ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Maps root to itself. A process needs no capabilities outside its user namespace for this mapping.
fn map_own_ids(this_process: &OwnedFd) -> Result<(), Errno> {
    for (file, line) in [("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")] {
        sys::fs::write_at(this_process, file, line.as_bytes())?;
    }
    Ok(())
}

/// Returns whether `mountinfo` (proc_pid_mountinfo(5)) has a single line, which describes a read-only root.
fn is_one_read_only_root(mountinfo: &[u8]) -> bool {
    let Ok(line) = str::from_utf8(mountinfo) else { return false };
    let mut fields = line.split(' ').skip(3);
    line.lines().count() == 1
        && fields.next() == Some("/")
        && fields.next() == Some("/")
        && fields.next().is_some_and(|options| options.split(',').any(|option| option == "ro"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_read_only_root_will_do() {
        let root = "43 42 0:33 / / ro,nosuid,nodev,noexec - tmpfs dayfly ro,size=4k\n";
        assert!(is_one_read_only_root(root.as_bytes()));
        let two = format!("{root}44 43 0:5 / /proc rw - proc proc rw\n");
        for other in
            [&two, "", "43", &root.replace(" ro,nosuid", " rw"), &root.replace("/ /", "/ /x")]
        {
            assert!(!is_one_read_only_root(other.as_bytes()), "{other}");
        }
    }
}
