//! The cache's tmpfs, for entries that exist only on a mount.
//!
//! The tmpfs is private: a mount namespace cannot be bound to a mount point from which it would propagate into other
//! namespaces, and the cache's mounts should not propagate. A mount namespace created later has a copy of the tmpfs,
//! without the template. In a mount namespace created before, a separate tmpfs is mounted when it is first needed.

use core::ffi::CStr;
use core::ops::Deref;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, StatxAttributes, StatxFlags, flock, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use sys::Context;
use sys::mount::{MountAttr, mount_setattr, propagation};

use crate::directory::{proc_path, subdirectory};
use crate::{Cache, Error};

pub(crate) const DIRECTORY: &str = "mounts";

/// The lock for changing the cache's mounts. A child process created while it is held shares it, so it is released
/// explicitly, not only closed.
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
    /// Takes the lock. Fails at once if another process holds it, because a start does not wait for the mounts of
    /// another one.
    pub(crate) fn try_lock(&self) -> Result<Lock<'_>, Error> {
        match flock(self.fd(), FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Error::Busy),
            result => Ok(result.map(|()| Lock(self)).context("flock", "cache")?),
        }
    }
}

impl Lock<'_> {
    /// Returns the root of the tmpfs, which is mounted if needed.
    pub(crate) fn mounts(&self) -> Result<OwnedFd, sys::Error> {
        mounted(self.fd(), DIRECTORY, "tmpfs", c"mode=0700,size=1m,nr_inodes=64")
    }
}

/// Returns the root of the file system on the directory `name`, which is mounted if needed.
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
    // New mounts, and copies from another namespace, may inherit propagation from the mount they are on.
    let private = MountAttr { propagation: propagation::PRIVATE, ..MountAttr::default() };
    mount_setattr(directory.as_fd(), false, &private).context("mount_setattr", name)?;
    Ok(directory)
}

/// Returns whether something is mounted here (Linux 5.8).
fn is_mounted(directory: &OwnedFd) -> Result<bool, Errno> {
    let statx = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(statx.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}
