//! The directories of images and of criu's logs. They must belong to the caller, and nobody else may write to them:
//! images contain the memory of the container's processes, and determine the credentials of the restored processes.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Display;

use proto::messages::criu::UserNamespace;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{
    Access, AtFlags, CWD, FlockOperation, Mode, OFlags, Stat, accessat, flock, fstat, mkdir,
    openat, statat, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sys::Context;
use sys::fs::Owned;

use super::format::{self, messages};
use crate::path::absolute;
use crate::{Error, Unless as _, cache, record};

/// The image that criu writes last.
const INVENTORY: &str = "inventory.img";
/// The image of the process tree, which a pre-dump does not write.
const TREE: &str = "pstree.img";
/// criu's link to the directory of an earlier dump.
const PARENT: &str = "parent";
/// A dump must build on fewer earlier dumps than this number.
const MOST_PARENTS: usize = 1000;
/// The first bytes of the inventory.
const MAGIC: [u8; 4] = 0x5831_3116_u32.to_le_bytes();
/// The file with the targets of the standard streams, in runc's format.
const DESCRIPTORS: &str = "descriptors.json";
/// The file in the images that says for which containers they are: lines `KEY=VALUE`, each an annotation that they have.
pub(super) const FOR: &str = "for";
/// The record of the pages that restored processes have accessed first.
pub(super) const RECORD: &str = "touched";
/// The file with the [`Sizes`]. Checkpoints of other runtimes have no such file.
const SIZES: &str = "sizes.json";

/// The beginning of the name of a user namespace's image.
const USER_NAMESPACE: &str = "userns-";

/// The sizes of a checkpoint's files, by which a restore detects missing and truncated files early.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sizes {
    /// The length of each image in bytes.
    images: BTreeMap<String, u64>,
    /// The number of names in the saved changes of the root filesystem, and the number of bytes in their files.
    pub changes: Option<(u64, u64)>,
}

/// A directory that criu uses.
#[derive(Debug)]
pub(super) struct Directory {
    pub fd: OwnedFd,
    pub path: String,
}

impl Directory {
    /// Opens the directory. If it is missing, creates it, and its missing parents, with mode 0700. Refuses a directory
    /// that another user owns or may write to.
    pub fn make(path: &str) -> Result<Self, Error> {
        let directory = Self::make_any(path)?;
        directory.check_owner()?;
        Ok(directory)
    }

    /// Does the same, and accepts every directory.
    pub fn make_any(path: &str) -> Result<Self, Error> {
        let path = absolute(path)?;
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        for end in ends.chain([path.len()]) {
            let part = path.get(..end).unwrap_or_default();
            match mkdir(part, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                // On a read-only file system, or in another user's directory, the parent cannot be
                // created. It may exist already; if not, a later call fails.
                Err(Errno::ROFS | Errno::ACCESS) if end < path.len() => {}
                Err(errno) => return Err(sys::Error::new("mkdir", part, errno).into()),
            }
        }
        Self::open_any(path)
    }

    /// Opens an existing directory. Refuses a directory that another user owns or may write to.
    pub fn open(path: &str) -> Result<Self, Error> {
        let directory = Self::open_any(absolute(path)?)?;
        directory.check_owner()?;
        Ok(directory)
    }

    fn open_any(path: String) -> Result<Self, Error> {
        let fd = sys::fs::open_dir(CWD, path.as_str()).context("open", &path)?;
        Ok(Self { fd, path })
    }

    /// Opens the directory of the file `path`, without any check; returns the directory and the file's name.
    pub fn open_parent(path: &str) -> Result<(Self, &str), Error> {
        let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
        Ok((Self::open_any(format!("{parent}/"))?, name))
    }

    /// Opens another directory by a path relative to this one.
    pub fn open_at(&self, path: &str) -> Result<Self, Error> {
        let object = self.object(path);
        let fd = sys::fs::open_dir(&self.fd, path).context("open", &object)?;
        let directory = Self { fd, path: object };
        directory.check_owner()?;
        Ok(directory)
    }

    /// Fails if another user owns the directory or may write to it.
    pub fn check_owner(&self) -> Result<(), Error> {
        let stat = fstat(&self.fd).context("fstat", &self.path)?;
        check_own(&self.path, &stat, "; use a directory with mode 0700")
    }

    /// Returns the number of the directory's descriptor, which criu receives.
    pub fn number(&self) -> Option<i32> {
        Some(self.fd.as_raw_fd())
    }

    /// Opens the directory again by its path, so that the descriptor belongs to the current mount namespace.
    pub fn reopened(&self) -> Result<Self, Error> {
        let again = Self::open(&self.path)?;
        if self.is(&again)? {
            return Ok(again);
        }
        Err(Error::Text(format!("{}: another directory has replaced it meanwhile", self.path)))
    }

    /// Returns whether `other` is the same directory.
    pub fn is(&self, other: &Self) -> Result<bool, Error> {
        let inode = |directory: &Self| {
            fstat(&directory.fd)
                .map(|stat| (stat.st_dev, stat.st_ino))
                .context("fstat", directory.path.as_str())
        };
        Ok(inode(self)? == inode(other)?)
    }

    pub fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Reads a file of the directory. Refuses files that another user owns.
    pub fn read(&self, name: &str, longest: usize) -> Result<Vec<u8>, Error> {
        let euid = rustix::process::geteuid().as_raw();
        let object = || self.object(name);
        match sys::fs::read_owned_at(self.fd.as_fd(), name, |owner| owner == euid, longest) {
            Ok(Owned::Read(bytes)) => Ok(bytes),
            Ok(Owned::Foreign(owner)) => Err(foreign(&object(), owner)),
            Ok(Owned::Special) | Err(Errno::LOOP | Errno::NXIO) => {
                Err(Error::Text(format!("{} is not a regular file", object())))
            }
            Err(errno) => Err(sys::Error::new("open", object(), errno).into()),
        }
    }

    /// Refuses a directory without a complete checkpoint. Returns the sizes, if the checkpoint has the file [`SIZES`].
    pub fn check_whole(&self) -> Result<Option<Sizes>, Error> {
        let sizes = self.check_dump()?;
        if !self.has_processes() {
            return Err(Error::Text(format!(
                "{} has no checkpoint: {TREE} is missing, which --pre-dump does not write",
                self.path
            )));
        }
        for parent in self.parents()? {
            parent.check_dump()?;
        }
        Ok(sizes)
    }

    /// Returns whether the images contain processes. The images of a pre-dump contain only memory.
    pub fn has_processes(&self) -> bool {
        accessat(&self.fd, TREE, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Returns the directories of the earlier dumps that this dump builds on, the latest first. They contain the pages
    /// that this dump lacks.
    pub fn parents(&self) -> Result<Vec<Self>, Error> {
        let mut parents: Vec<Self> = Vec::new();
        while parents.len() < MOST_PARENTS {
            let last = parents.last().unwrap_or(self);
            let stat = statat(&last.fd, PARENT, AtFlags::SYMLINK_NOFOLLOW).unless(Errno::NOENT);
            if stat.context("stat", last.object(PARENT))?.is_none() {
                return Ok(parents);
            }
            let parent = last.open_at(PARENT)?;
            parents.push(parent);
        }
        Err(Error::Text(format!("{} has {MOST_PARENTS} parents or more", self.path)))
    }

    /// Refuses a directory without a complete dump. A dump is complete if it has an inventory, because criu writes the
    /// inventory last. Returns the sizes, if the dump has the file [`SIZES`].
    pub fn check_dump(&self) -> Result<Option<Sizes>, Error> {
        match self.read(INVENTORY, 1 << 20) {
            Ok(bytes) if bytes.starts_with(&MAGIC) => {
                self.check_owners()?;
                self.check_sizes()
            }
            Ok(_) => Err(self.damaged(INVENTORY, "it is not an inventory of criu")),
            Err(Error::System(error)) if error.errno == Errno::NOENT => Err(Error::Text(format!(
                "{} has no checkpoint: {INVENTORY} is missing, which criu writes last",
                self.path
            ))),
            Err(error) => Err(error),
        }
    }

    /// Refuses images that another user owns or may write to.
    fn check_owners(&self) -> Result<(), Error> {
        self.names()?.iter().try_for_each(|name| {
            let stat = statat(&self.fd, name.as_str(), AtFlags::empty());
            let stat = stat.context("stat", self.object(name))?;
            check_own(&self.object(name), &stat, "")
        })
    }

    /// Returns the error for a damaged file or directory of a checkpoint.
    pub fn damaged(&self, name: &str, why: impl Display) -> Error {
        Error::Text(format!("{} is damaged: {why}", self.object(name)))
    }

    fn check_sizes(&self) -> Result<Option<Sizes>, Error> {
        let text = match self.read(SIZES, 1 << 24) {
            Err(Error::System(error)) if error.errno == Errno::NOENT => return Ok(None),
            text => text?,
        };
        let sizes: Sizes =
            serde_json::from_slice(&text).map_err(|error| self.damaged(SIZES, error))?;
        for (name, size) in &sizes.images {
            if name.contains('/') {
                return Err(self.damaged(SIZES, format_args!("{name:?}")));
            }
            match self.size(name) {
                Ok(found) if found == *size => {}
                Ok(found) => {
                    let why = format_args!("{found} bytes instead of {size}");
                    return Err(self.damaged(name, why));
                }
                Err(errno) => return Err(sys::Error::new("stat", self.object(name), errno).into()),
            }
        }
        Ok(Some(sizes))
    }

    fn size(&self, name: &str) -> Result<u64, Errno> {
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// Writes the length of each image, and the extent of the `changes`, to [`SIZES`].
    pub fn write_sizes(&self, changes: Option<(u64, u64)>) -> Result<(), Error> {
        let mut images = BTreeMap::new();
        for name in self.names()? {
            let size = self.size(&name).context("stat", &name)?;
            images.insert(name, size);
        }
        let sizes = Sizes { images, changes };
        self.write(SIZES, record::to_json(SIZES, &sizes)?.as_bytes())
    }

    /// Returns the names of the images.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let listed = sys::fs::open_dir(&self.fd, ".").context("open", &self.path)?;
        let names = cache::names(listed.as_fd()).context("getdents64", &self.path)?.into_iter();
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.retain(|name| name.ends_with(".img"));
        Ok(names)
    }

    /// Returns the id mappings of the saved user namespace, if there is one. criu saves no more than one.
    pub fn user_namespace(&self) -> Result<Option<UserNamespace>, Error> {
        let names = self.names()?;
        let Some(name) = names.iter().find(|name| name.starts_with(USER_NAMESPACE)) else {
            return Ok(None);
        };
        let bytes = self.read(name, 1 << 20)?;
        let message = messages(&bytes, format::USER_NAMESPACE);
        let decoded = message.and_then(|all| UserNamespace::decode(all.first()?).ok());
        decoded.map(Some).ok_or_else(|| self.damaged(name, "no image of a user namespace"))
    }

    /// Removes the inventory, so that the directory counts as incomplete until criu writes a new one. Also removes
    /// files that the next dump might not replace: the process tree, which a pre-dump does not write; the link to a
    /// parent, which not every dump has; the image of a user namespace, to which criu may give another name; and the
    /// record of accessed pages.
    pub fn forget(&self) -> Result<(), Error> {
        for name in [INVENTORY, SIZES, TREE, PARENT, FOR, RECORD] {
            self.remove(name)?;
        }
        let names = self.names()?;
        names
            .iter()
            .filter(|name| name.starts_with(USER_NAMESPACE))
            .try_for_each(|name| self.remove(name))
    }

    /// Locks the directory against other checkpoints until this value is dropped. Other checkpoints would remove the
    /// files of this one.
    pub fn lock(&self) -> Result<(), Error> {
        match flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(Error::Text(format!(
                "another checkpoint writes to {}: wait until it has ended, or use another directory",
                self.path
            ))),
            // Some file systems do not support locks.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Refuses a directory that other users may search. Used for a directory with files whose own modes allow other
    /// users to read or execute them.
    pub fn check_closed(&self) -> Result<(), Error> {
        let mode = fstat(&self.fd).context("fstat", &self.path)?.st_mode;
        if mode & 0o011 == 0 {
            return Ok(());
        }
        Err(Error::Text(format!(
            "{} can be searched by others (mode {:04o}): the images of this container have files \
             that others may read; use a directory with mode 0700",
            self.path,
            mode & 0o7777
        )))
    }

    /// Removes a file that may be missing.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let removed = unlinkat(&self.fd, name, AtFlags::empty()).unless(Errno::NOENT);
        Ok(removed.map(drop).context("unlink", self.object(name))?)
    }

    /// Writes a file, and replaces an earlier file of this name.
    pub fn write(&self, name: &'static str, bytes: &[u8]) -> Result<(), Error> {
        self.remove(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .context("create", self.object(name))?;
        Ok(sys::stdio::write_all(file, bytes).context("write", self.object(name))?)
    }

    /// Writes the targets of the standard streams.
    pub fn write_descriptors(&self, streams: &[String; 3]) -> Result<(), Error> {
        self.write(DESCRIPTORS, record::to_json(DESCRIPTORS, streams)?.as_bytes())
    }

    /// Reads the targets of the standard streams.
    pub fn descriptors(&self) -> Result<Vec<String>, Error> {
        let text = self.read(DESCRIPTORS, 1 << 16)?;
        serde_json::from_slice(&text).map_err(|error| self.damaged(DESCRIPTORS, error))
    }
}

/// Refuses a file or directory that another user owns or may write to.
fn check_own(path: &str, stat: &Stat, advice: &str) -> Result<(), Error> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(foreign(path, stat.st_uid));
    }
    match stat.st_mode & 0o022 {
        0 => Ok(()),
        _ => Err(Error::Text(format!(
            "{path} can be written to by others (mode {:04o}): images must be the caller's alone{advice}",
            stat.st_mode & 0o7777
        ))),
    }
}

fn foreign(path: &str, owner: u32) -> Error {
    Error::Text(format!("{path} belongs to user {owner}: images must be the caller's own"))
}
