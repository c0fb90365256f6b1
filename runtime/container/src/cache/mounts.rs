//! The cache's tmpfs, which contains the entries that are mounts or pins.
//!
//! The tmpfs has private propagation. The kernel refuses to bind a mount namespace where the mount would propagate into
//! other namespaces, and the cache's other mounts should not propagate either. A mount namespace created later has a
//! copy of the tmpfs, without the blank namespace. In a mount namespace that is older than the tmpfs, a separate tmpfs
//! is mounted when it is first needed.

use alloc::format;
use core::ffi::CStr;
use core::ops::Deref;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, StatxAttributes, StatxFlags, flock, statx, unlinkat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use sys::Context;
use sys::mount::{MountAttr, mount_setattr, propagation};

use crate::Unless as _;
use crate::cache::directory::{proc_path, subdirectory};
use crate::cache::{Cache, Error};

pub(crate) const DIRECTORY: &str = "mounts";

/// The lock for changing the cache's mounts. A child process that is created while the lock is held shares the lock. So
/// the lock is released explicitly, not only by closing the descriptor.
pub(crate) struct Lock<'a>(&'a Cache);

impl Deref for Lock<'_> {
    type Target = Cache;

    fn deref(&self) -> &Cache {
        self.0
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0.fd(), FlockOperation::Unlock);
    }
}

impl Cache {
    /// Takes the lock. Fails at once if another process holds it, because a start does not wait until another start has
    /// created mounts.
    pub(crate) fn try_lock(&self) -> Result<Lock<'_>, Error> {
        match flock(self.fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Error::Busy),
            result => Ok(result.map(|()| Lock(self)).context("flock", "cache")?),
        }
    }
}

impl Lock<'_> {
    /// Returns the root of the tmpfs. Mounts it if it is not mounted yet.
    pub(crate) fn mounts(&self) -> Result<OwnedFd, sys::Error> {
        mounted(self.fd(), DIRECTORY, "tmpfs", c"mode=0700,size=1m,nr_inodes=64")
    }
}

/// Returns the root of the file system mounted on the directory `name`. Mounts it if it is not mounted yet.
pub(crate) fn mounted(
    at: BorrowedFd<'_>,
    name: &str,
    file_system: &str,
    options: &CStr,
) -> Result<OwnedFd, sys::Error> {
    let open = || subdirectory(at, name).context("open", name);
    let mut directory = open()?;
    if !is_mounted(&directory).context("statx", name)? {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("dayfly", proc_path(directory.as_fd()).as_str(), file_system, flags, options)
            .context("mount", format_args!("{file_system} on {name}"))?;
        directory = open()?;
    }
    // A new mount, or a copy from another namespace, may have inherited its propagation from the mount below it.
    let private = MountAttr { propagation: propagation::PRIVATE, ..MountAttr::default() };
    mount_setattr(directory.as_fd(), false, &private).context("mount_setattr", name)?;
    Ok(directory)
}

/// Returns whether `directory` is the root of a mount (Linux 5.8).
fn is_mounted(directory: &OwnedFd) -> Result<bool, Errno> {
    let statx = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(statx.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Unmounts everything at the mount point `name`, and removes the mount point.
pub(crate) fn take_away(directory: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    unmount_all(directory, name);
    unlinkat(directory, name, AtFlags::empty()).unless(Errno::NOENT).map(drop)
}

/// Unmounts everything at the mount point `name`. If a command runs from a program on such a mount, the detached mount
/// exists until the command exits.
pub(crate) fn unmount_all(directory: BorrowedFd<'_>, name: &str) {
    let path = format!("{}/{name}", proc_path(directory));
    // The loop ends with EINVAL when nothing is mounted here. Other mount namespaces may have mounts of their own on
    // the same file.
    while unmount(path.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok() {}
}
