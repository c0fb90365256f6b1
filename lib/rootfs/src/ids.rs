//! Ranges of user and group ids, one per container, so that no two containers of a host share an id.
//!
//! A lease on a range is a symbolic link: its name is the first id of the range; its target contains the creation time,
//! the mount namespace and the directory of the owner. symlink(2) is atomic and fails if the link exists, so a range
//! never has two owners, and a lease always names its owner. If the owner was killed, the state of the owner's
//! directory shows this. The lease of a killed owner is freed when another owner needs a range, unless a process still
//! uses ids of the range (`census.rs`).

mod grants;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode as Permissions, OFlags, fchmod, fstat, openat,
    readlinkat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::Context;

pub use grants::{Config, Grants, granted_to};

use crate::Error;
pub use crate::census::RANGE;
use crate::census::{Census, LazyCensus, own_mount_namespace};
pub use crate::owner::Owner;
use crate::owner::Presence;
use crate::remove::{make_directory, names, open_directory};

/// The time to wait for a process that a killed command has left behind. Such a process exits as soon as it notices
/// that the command has exited.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time to wait for another command that holds the lock of the leases.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
/// The result of [`Leases::free`].
#[derive(Default)]
struct Freed {
    /// The number of freed ranges.
    ranges: usize,
    /// A process that still uses ids of a range. That range was not freed.
    inhabitant: Option<Pid>,
}

/// A leased range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The first id of the range.
    pub first: u32,
    /// The owner of the range.
    pub owner: Owner,
    /// The inode of the mount namespace in which the owner's directory has its path, or 0 if unknown.
    pub mount_namespace: u64,
}

impl Lease {
    fn parse(first: u32, text: &str) -> Option<Self> {
        let (owner, mount_namespace) = Owner::parse(text)?;
        Some(Self { first, owner, mount_namespace })
    }
}

/// The directory of a host's leased ranges.
#[derive(Debug)]
pub struct Leases {
    directory: OwnedFd,
    path: String,
}

impl Leases {
    /// Opens the directory of leases, and creates it if it is missing. The directory should be on a tmpfs, because
    /// leases must not outlive a boot.
    ///
    /// # Errors
    /// If the directory cannot be created, or if other users can write to it.
    pub fn open(path: &str) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(CWD, path, flags, Permissions::empty());
        let directory = match open() {
            Err(Errno::NOENT) => {
                make_directory(CWD, path, Permissions::RWXU).context("mkdir", path)?;
                let directory = open().context("open", path)?;
                fchmod(&directory, Permissions::RWXU).context("chmod", path)?;
                directory
            }
            result => result.context("open", path)?,
        };
        let stat = fstat(&directory).context("stat", path)?;
        let own = stat.st_uid == rustix::process::geteuid().as_raw();
        let writable = Permissions::WGRP | Permissions::WOTH;
        if !own
            || FileType::from_raw_mode(stat.st_mode) != FileType::Directory
            || Permissions::from_raw_mode(stat.st_mode).intersects(writable)
        {
            return Err(Error::Ids(format!("{path} must belong to this user alone")));
        }
        Ok(Self { directory, path: path.to_string() })
    }

    /// Leases a free range. The owner's directory must exist and be locked by this process.
    ///
    /// # Errors
    /// [`Error::NoRange`].
    pub fn take(&self, grants: &Grants, owner: &Owner) -> Result<u32, Error> {
        if let Some(first) = self.try_take(grants, owner)? {
            return Ok(first);
        }
        self.sweep()?;
        let ranges = grants.count();
        self.try_take(grants, owner)?.ok_or(Error::NoRange(ranges))
    }

    /// Leases the range with the first id `first`; returns `first`. The owner's directory must exist and be locked by
    /// this process.
    ///
    /// # Errors
    /// [`Error::Ids`] if the range is not granted or in use.
    pub fn take_range(&self, grants: &Grants, first: u32, owner: &Owner) -> Result<u32, Error> {
        let last = u64::from(first) + u64::from(RANGE) - 1;
        let refused = |why: &str| Error::Ids(format!("the ids {first} to {last} are {why}"));
        if (0..grants.count()).all(|number| grants.nth(number) != Some(first)) {
            return Err(refused("no range of a container that is granted here"));
        }
        let text = owner.text(own_mount_namespace()?);
        if self.take_one(first, owner, &text)? {
            return Ok(first);
        }
        self.sweep()?;
        match self.take_one(first, owner, &text)? {
            true => Ok(first),
            false => Err(refused("in use by another container")),
        }
    }

    fn try_take(&self, grants: &Grants, owner: &Owner) -> Result<Option<u32>, Error> {
        let text = owner.text(own_mount_namespace()?);
        let count = grants.count();
        // The search starts at a hash of the directory, so that concurrent starts seldom collide.
        let start = hash(owner.directory.as_bytes());
        for step in 0..count {
            let number = (u64::from(start) + u64::from(step)) % u64::from(count);
            let first = u32::try_from(number).ok().and_then(|number| grants.nth(number));
            let Some(first) = first else { continue };
            if self.take_one(first, owner, &text)? {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// Leases one range; returns false if it is in use.
    fn take_one(&self, first: u32, owner: &Owner, text: &str) -> Result<bool, Error> {
        // A killed command may have leased the range for the same directory, which this process now owns.
        Ok(self.link(first, text)?
            || self.is_former(first, owner)? && self.exchange(first, owner, text)?)
    }

    /// Returns whether a range was leased by an earlier owner of the same directory, and no process uses ids of the
    /// range. Such a process may exist, because a container may outlive its directory.
    fn is_former(&self, first: u32, owner: &Owner) -> Result<bool, Error> {
        let Some(lease) = self.lease_of(first) else { return Ok(false) };
        Ok(lease.owner.directory == owner.directory
            && lease.mount_namespace == own_mount_namespace()?
            && Census::take()?.inhabitant(first).is_none())
    }

    /// Replaces the owner in a link by another owner of the same directory; returns false if another process has
    /// changed the link meanwhile.
    fn exchange(&self, first: u32, owner: &Owner, text: &str) -> Result<bool, Error> {
        let _lock = self.lock()?;
        if self.lease_of(first).is_none_or(|lease| lease.owner.directory != owner.directory) {
            return Ok(false);
        }
        self.unlink(&first.to_string())?;
        self.link(first, text)
    }

    /// Takes a range, unless somebody has it.
    fn link(&self, first: u32, text: &str) -> Result<bool, Error> {
        let name = first.to_string();
        match symlinkat(text, &self.directory, name.as_str()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(sys::Error::new("symlink", self.object(&name), errno).into()),
        }
    }

    /// Frees a range. It is not an error if the range is already free or has been leased by another owner.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn give_back(&self, first: u32, owner: &Owner) -> Result<(), Error> {
        let _lock = self.lock()?;
        match self.lease_of(first) {
            Some(lease) if lease.owner == *owner => self.unlink(&first.to_string()),
            _ => Ok(()),
        }
    }

    /// Frees all ranges leased for a directory, except those whose owner may still exist and those whose ids a process
    /// still uses. Waits up to a second for each such process, because a process of a killed command exits by itself.
    ///
    /// # Errors
    /// As [`Leases::sweep`].
    pub fn give_back_all(&self, directory: &str) -> Result<(), Error> {
        loop {
            let freed = self.free(|lease| lease.owner.directory == directory)?;
            let Some(pid) = freed.inhabitant else { return Ok(()) };
            match pidfd_open(pid, PidfdFlags::empty()) {
                Ok(pidfd) if !sys::pidfd::wait_for_exit(&pidfd, PATIENCE) => return Ok(()),
                Ok(_) | Err(Errno::SRCH) => {}
                Err(errno) => {
                    return Err(sys::Error::new("pidfd_open", pid.to_string(), errno).into());
                }
            }
        }
    }

    /// Frees the ranges of killed commands; returns their number.
    ///
    /// # Errors
    /// If the directory cannot be read or written, or /proc cannot be read.
    pub fn sweep(&self) -> Result<usize, Error> {
        self.free(|_| true).map(|freed| freed.ranges)
    }

    /// Frees those meant ranges whose owners no longer exist, and which no process uses.
    fn free(&self, is_meant: impl Fn(&Lease) -> bool) -> Result<Freed, Error> {
        let _lock = self.lock()?;
        let mut census = LazyCensus::default();
        let mut freed = Freed::default();
        for lease in self.list()?.iter().filter(|lease| is_meant(lease)) {
            let presence = lease.owner.is_there();
            if presence == Presence::There {
                continue;
            }
            let census = census.get()?;
            if let Some(pid) = census.inhabitant(lease.first) {
                freed.inhabitant = Some(pid);
            } else if presence.is_final(lease.mount_namespace, census)? {
                self.unlink(&lease.first.to_string())?;
                freed.ranges += 1;
            }
        }
        Ok(freed)
    }

    /// Returns all leases, ordered by first id.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Lease>, Error> {
        // A new descriptor has its own file offset, so that several readers do not disturb each other.
        let directory = open_directory(self.directory.as_fd(), c".").context("open", &self.path)?;
        let mut leases = Vec::new();
        for name in names(directory.as_fd()).context("read", &self.path)? {
            let Ok(name) = name.to_str() else { continue };
            leases.extend(name.parse().ok().and_then(|first| self.lease_of(first)));
        }
        leases.sort_unstable_by_key(|lease| lease.first);
        Ok(leases)
    }

    fn lease_of(&self, first: u32) -> Option<Lease> {
        let text = readlinkat(&self.directory, first.to_string().as_str(), Vec::new()).ok()?;
        Lease::parse(first, text.to_str().ok()?)
    }

    fn unlink(&self, name: &str) -> Result<(), Error> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(sys::Error::new("unlink", self.object(name), errno).into()),
        }
    }

    /// Acquires the lock that is required for removing links; dropping the result releases the lock.
    fn lock(&self) -> Result<OwnedFd, sys::Error> {
        let lock = open_directory(self.directory.as_fd(), c".").context("open", &self.path)?;
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        match sys::wait::lock(&lock, exclusive, LOCK_PATIENCE) {
            Ok(()) => Ok(lock),
            Err(errno) => Err(sys::Error::new("flock", &self.path, errno)),
        }
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

/// Computes the FNV-1a hash.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::RECORD;
    use rustix::fs::flock;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    /// Ids that no container of this host uses.
    const FIRST: u32 = 3_000_000_000;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("dayfly-ids-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn owner(dir: &std::path::Path, name: &str) -> Owner {
        let directory = dir.join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(RECORD), "").unwrap();
        Owner { since: 1, directory: directory.to_str().unwrap().into() }
    }

    fn grants(count: u32) -> Grants {
        Grants::of(&[(FIRST, RANGE * (count + 1))])
    }

    #[test]
    fn each_owner_has_a_range_of_its_own() {
        let dir = scratch("own");
        let leases = Leases::open(dir.join("ids").to_str().unwrap()).unwrap();
        let grants = grants(8);
        let owners: Vec<Owner> = (0..8).map(|n| owner(&dir, &format!("c{n}"))).collect();
        let taken: BTreeSet<u32> =
            owners.iter().map(|owner| leases.take(&grants, owner).unwrap()).collect();
        assert_eq!(taken.len(), 8);
        assert!(!taken.contains(&grants.shared().unwrap()), "the shared range is nobody's own");
        assert!(taken.iter().all(|first| (first - FIRST).is_multiple_of(RANGE)));
        let ninth = owner(&dir, "ninth");
        let none = leases.take(&grants, &ninth).unwrap_err();
        assert!(none.to_string().starts_with("all 8 ranges of ids are in use ("), "{none}");
        let list = leases.list().unwrap();
        assert_eq!(list.len(), 8);
        leases.give_back(list[0].first, &list[0].owner).unwrap();
        assert_eq!(leases.take(&grants, &ninth), Ok(list[0].first));
        let taken = leases.take_range(&grants, list[0].first, &ninth);
        assert_eq!(taken, Ok(list[0].first), "it is the owner's own already");
        let others = leases.take_range(&grants, list[1].first, &ninth);
        assert!(matches!(others, Err(Error::Ids(text)) if text.contains("in use")));
        assert!(matches!(leases.take_range(&grants, FIRST - RANGE, &ninth), Err(Error::Ids(_))));
        // Freeing twice does not free the next owner's lease.
        leases.give_back(list[0].first, &list[0].owner).unwrap();
        assert!(leases.list().unwrap().iter().any(|lease| lease.owner == ninth));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_the_dead_have_is_found() {
        let dir = scratch("dead");
        let leases = Leases::open(dir.join("ids").to_str().unwrap()).unwrap();
        let grants = grants(3);
        let (lives, gone, begun) = (owner(&dir, "a"), owner(&dir, "b"), owner(&dir, "c"));
        for owner in [&lives, &gone, &begun] {
            leases.take(&grants, owner).unwrap();
        }
        fs::remove_dir_all(&gone.directory).unwrap();
        fs::remove_file(format!("{}/{RECORD}", begun.directory)).unwrap();
        // The process that creates the directory is still running.
        let path = std::ffi::CString::new(&*begun.directory).unwrap();
        let lock = open_directory(CWD.as_fd(), &path).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert_eq!(leases.sweep(), Ok(1));
        drop(lock);
        assert_eq!(leases.sweep(), Ok(1));
        assert_eq!(leases.list().unwrap().len(), 1);
        leases.give_back_all(&lives.directory).unwrap();
        assert_eq!(leases.list().unwrap().len(), 1, "it has a record");
        fs::remove_dir_all(&lives.directory).unwrap();
        leases.give_back_all(&lives.directory).unwrap();
        assert!(leases.list().unwrap().is_empty());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn links_of_versions_before_are_read() {
        let lease = |text| Lease::parse(7, text).unwrap();
        let owner = Owner { since: 5, directory: "/run/a b".into() };
        assert_eq!(
            lease("5 /run/a b"),
            Lease { first: 7, owner: owner.clone(), mount_namespace: 0 }
        );
        assert_eq!(lease(&owner.text(9)), Lease { first: 7, owner, mount_namespace: 9 });
        assert!(Lease::parse(7, "5").is_none() && Lease::parse(7, "x 1 /run").is_none());
    }

    #[test]
    fn the_next_start_of_a_directory_takes_over() {
        let dir = scratch("again");
        let leases = Leases::open(dir.join("ids").to_str().unwrap()).unwrap();
        let grants = grants(100);
        let first = owner(&dir, "a");
        let range = leases.take(&grants, &first).unwrap();
        let again = Owner { since: 2, ..first.clone() };
        assert_eq!(leases.take(&grants, &again), Ok(range));
        leases.give_back(range, &first).unwrap();
        assert_eq!(leases.list().unwrap().len(), 1);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        let dir = scratch("foreign");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&dir, mode).unwrap();
        assert!(matches!(Leases::open(dir.to_str().unwrap()), Err(Error::Ids(_))));
        fs::remove_dir_all(dir).unwrap();
    }
}
