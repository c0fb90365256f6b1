//! The owner of a range of ids, or of a directory in a store: a container, or a mount.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};

use rustix::fd::AsFd;
use rustix::fs::{Access, AtFlags, CWD, FlockOperation, accessat, flock};
use rustix::io::Errno;

use crate::census::{Census, own_mount_namespace};
use crate::remove::open_directory;

/// A file in the owner's directory: the record of a container. A directory that contains this file
/// is still an owner after the process that created the directory has ended.
pub(crate) const RECORD: &str = "record";

/// The owner of a range: a directory. The process that creates the directory holds a lock on it (flock(2)) until the
/// directory is complete and contains a file `record`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The time of creation in nanoseconds since 1970; distinguishes the owner from earlier owners with the same
    /// directory.
    pub since: u64,
    /// The absolute path of the directory.
    pub directory: String,
}

impl Owner {
    /// Returns the owner as the target of a link, with the mount namespace in which the directory has its path.
    pub(crate) fn text(&self, mount_namespace: u64) -> String {
        format!("{} {mount_namespace} {}", self.since, self.directory)
    }

    /// Parses the target of a link. The mount namespace is 0 if unknown: links that earlier versions created contain
    /// none.
    pub(crate) fn parse(text: &str) -> Option<(Self, u64)> {
        let (since, rest) = text.split_once(' ')?;
        let (mount_namespace, directory) = match rest.split_once(' ') {
            Some((number, directory)) if !rest.starts_with('/') => {
                (number.parse().ok()?, directory)
            }
            _ => (0, rest),
        };
        let owner = Self { since: since.parse().ok()?, directory: directory.to_string() };
        Some((owner, mount_namespace))
    }

    /// Returns the state of the owner's directory. The state is also `NotSeen` if the owning
    /// process was killed before it created the directory.
    pub(crate) fn is_there(&self) -> Presence {
        let Ok(path) = CString::new(&*self.directory) else { return Presence::NotSeen };
        match open_directory(CWD.as_fd(), &path) {
            Err(Errno::NOENT | Errno::NOTDIR) => Presence::NotSeen,
            Err(_) => Presence::There,
            Ok(directory) => {
                let is_recorded = || {
                    accessat(&directory, RECORD, Access::EXISTS, AtFlags::empty())
                        != Err(Errno::NOENT)
                };
                let lock = FlockOperation::NonBlockingLockShared;
                let left = !is_recorded()
                    && flock(&directory, lock).is_ok()
                    // The record may have been written just before the lock was released.
                    && !is_recorded();
                if left { Presence::Left } else { Presence::There }
            }
        }
    }
}

/// The state of an owner's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// The directory exists, and contains a record or is locked by a process.
    There,
    /// The directory exists without a record or a lock, so the owner will never free the range.
    Left,
    /// The directory's path does not exist in this mount namespace.
    NotSeen,
}

impl Presence {
    /// Returns whether the owner is gone for good, given the mount namespace in which its directory was created. A path
    /// that is missing here, or leads to an abandoned directory, says nothing about another mount namespace.
    pub fn is_final(self, mount_namespace: u64, census: &Census) -> Result<bool, sys::Error> {
        let own = own_mount_namespace()?;
        Ok(match self {
            Self::There => false,
            Self::Left if mount_namespace == 0 => true,
            Self::Left | Self::NotSeen => census.is_out_of_sight(mount_namespace, own),
        })
    }
}
