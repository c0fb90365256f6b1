//! Owner and permissions of the root directory of a root filesystem, which are those of its top layer.

use rustix::fd::BorrowedFd;
use rustix::fs::{Mode as Permissions, Stat, fstat};
use rustix::process::{Gid, Uid};
use sys::Context;

/// Owner and permissions of a root directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root {
    pub uid: Uid,
    pub gid: Gid,
    pub mode: Permissions,
}

impl Root {
    /// Returns the owner and permissions of a directory, as seen through its mount.
    pub fn of(directory: BorrowedFd<'_>) -> Result<Self, sys::Error> {
        Ok(Self::from_stat(&fstat(directory).context("stat", "top layer")?))
    }

    /// Returns the owner and mode of a file.
    pub fn from_stat(stat: &Stat) -> Self {
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        Self { uid, gid, mode: Permissions::from_raw_mode(stat.st_mode) }
    }
}
