//! Owners, permissions, extended attributes and times.

use super::archive::{Entry, Kind};
use crate::error::{Error, Result, unfit};
use crate::store::Rights;
use rustix::fs::{
    AtFlags, Mode, Stat, Timespec, Timestamps, XattrFlags, chmodat, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fsetxattr, fstat, futimens, lsetxattr, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The attributes of a file in a layer.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// Permissions with set-id and sticky bits.
    pub mode: u32,
    /// The user and group to set. `None` if the file keeps the owner that it was created with.
    owner: Option<(u32, u32)>,
    /// Modification time: seconds since 1970, and nanoseconds.
    mtime: (i64, u32),
    xattrs: Vec<(CString, Vec<u8>)>,
}

/// Decides which attributes of an archive's entries are kept. A process without root's privileges cannot set all of
/// them.
#[derive(Debug)]
pub struct Keep {
    /// The privileges of this process.
    pub rights: Rights,
    /// Whether to ignore the owners of entries. Root of the host keeps owners nevertheless.
    pub ignore_owners: bool,
    lost: Mutex<BTreeMap<&'static str, (usize, String)>>,
}

impl Keep {
    /// Returns the rules for a process with the privileges `rights`. No lost attributes are recorded yet.
    pub fn new(rights: Rights, ignore_owners: bool) -> Self {
        Self { rights, ignore_owners, lost: Mutex::default() }
    }

    /// Records that the entry `path` loses attributes of the kind `what`.
    pub fn lose(&self, what: &'static str, path: &[u8]) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || (0, String::from_utf8_lossy(path).into_owned());
        lost.entry(what).or_insert_with(first).0 += 1;
    }

    /// Returns a sentence for each kind of attribute that was not kept.
    pub fn losses(&self) -> Vec<String> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let sentence = |(what, (count, first)): (&&str, &(usize, String))| match count {
            1 => format!("{what} not kept: {first}"),
            _ => format!("{what} not kept: {first} and {} more", count - 1),
        };
        lost.iter().map(sentence).collect()
    }

    fn owner(&self, entry: &Entry) -> Result<Option<(u32, u32)>> {
        let owner = (entry.uid, entry.gid);
        match self.rights {
            _ if owner == (0, 0) => Ok(None),
            Rights::Root => Ok(Some(owner)),
            _ if self.ignore_owners => {
                self.lose("owners other than root", &entry.path);
                Ok(None)
            }
            Rights::Namespace => Ok(Some(owner)),
            Rights::User => Err(unfit!(
                "{:?} belongs to user {} and group {}, which you can't give it: import the image as root, or \
                 inside \"unshare --user --map-root-user --map-auto\", where your /etc/subuid counts, or give \
                 up owners with --ignore-owners",
                String::from_utf8_lossy(&entry.path),
                entry.uid,
                entry.gid
            )),
        }
    }

    /// Returns whether to set an extended attribute. Attributes of overlayfs would let an image access forbidden files;
    /// security labels belong to the host that built the image.
    fn xattr(&self, entry: &Entry, name: &[u8]) -> bool {
        let special = !matches!(entry.kind, Kind::File | Kind::Sparse { .. } | Kind::Directory);
        let kept = match name {
            b"security.selinux" => return false,
            b"security.capability" => self.rights != Rights::User,
            b"system.posix_acl_access" | b"system.posix_acl_default" => true,
            _ if name.starts_with(b"user.overlay.") || name.starts_with(b"trusted.overlay.") => {
                false
            }
            _ if name.starts_with(b"user.") => !special,
            _ if name.starts_with(b"trusted.") => self.rights == Rights::Root,
            _ => false,
        };
        if !kept {
            self.lose("extended attributes", &entry.path);
        }
        kept
    }

    /// Returns the attributes of the entry's file.
    ///
    /// # Errors
    /// [`Error::Unfit`] if this process cannot set the file's owner.
    pub fn attributes(&self, entry: &Entry) -> Result<Attributes> {
        let mut xattrs = Vec::new();
        for (name, value) in entry.xattrs.iter() {
            if self.xattr(entry, name)
                && let Ok(name) = CString::new(name.as_slice())
            {
                xattrs.push((name, value.clone()));
            }
        }
        Ok(Attributes { mode: entry.mode, owner: self.owner(entry)?, mtime: entry.mtime, xattrs })
    }
}

impl Attributes {
    /// Returns the attributes of a directory without an entry.
    pub fn plain_directory() -> Self {
        Self { mode: 0o755, owner: None, mtime: (0, 0), xattrs: Vec::new() }
    }

    /// Returns the memory that the extended attributes take, in bytes.
    pub fn weight(&self) -> u64 {
        let bytes = |(name, value): &(CString, Vec<u8>)| name.as_bytes().len() + value.len() + 96;
        self.xattrs.iter().map(bytes).sum::<usize>() as u64
    }

    /// Reads the attributes of a directory in the layers below; those of a plain directory if there is none.
    ///
    /// # Errors
    /// Those of reading the attributes.
    pub fn of_top(below: Option<impl AsFd>) -> Result<Self> {
        let Some(directory) = below else { return Ok(Self::plain_directory()) };
        let stat = fstat(&directory).map_err(Error::at("look at", "directory below"))?;
        Self::of(directory, &stat)
    }

    /// Reads the attributes of a file in another layer.
    ///
    /// # Errors
    /// Those of reading extended attributes.
    pub fn of(file: impl AsFd, stat: &Stat) -> Result<Self> {
        let read = || -> rustix::io::Result<_> {
            let mut names = vec![0; flistxattr(&file, &mut [0u8; 0][..])?];
            let length = flistxattr(&file, &mut names[..])?;
            let mut xattrs = Vec::new();
            for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
                if name.windows(9).any(|part| part == b".overlay.") || name == b"security.selinux" {
                    continue;
                }
                let Ok(name) = CString::new(name) else { continue };
                let mut value = vec![0; fgetxattr(&file, &name, &mut [0u8; 0][..])?];
                let length = fgetxattr(&file, &name, &mut value[..])?;
                value.truncate(length);
                xattrs.push((name, value));
            }
            Ok(xattrs)
        };
        let xattrs = match read() {
            Err(Errno::OPNOTSUPP) => Vec::new(),
            result => result.map_err(Error::at("read attributes of", "layer below"))?,
        };
        let owner = (stat.st_uid, stat.st_gid);
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        Ok(Self {
            mode: stat.st_mode & 0o7777,
            owner: (owner != (0, 0) && rustix::process::geteuid().is_root()).then_some(owner),
            mtime: (stat.st_mtime, nanoseconds),
            xattrs,
        })
    }

    /// Returns whether a directory without an entry of its own would have these attributes.
    pub fn is_plain(&self) -> bool {
        self.mode == 0o755 && self.owner.is_none() && self.xattrs.is_empty()
    }

    /// Sets the attributes on an open file or directory. `path` is used in errors.
    ///
    /// # Errors
    /// Those of setting the owner, the mode, the extended attributes and the times.
    pub fn apply_to_file(&self, file: impl AsFd, path: &Path) -> Result<()> {
        if let Some((uid, gid)) = self.owner {
            fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
                .map_err(|errno| self.owner_failed(errno, path))?;
        }
        // chown(2) clears set-id bits and capabilities, so the mode and the extended attributes are set after the
        // owner.
        fchmod(&file, Mode::from_raw_mode(self.mode)).map_err(Error::at("chmod", path))?;
        for (name, value) in &self.xattrs {
            fsetxattr(&file, name, value, XattrFlags::empty())
                .map_err(|errno| xattr_failed(errno, name, path))?;
        }
        futimens(&file, &self.times()).map_err(Error::at("set times of", path))
    }

    /// Sets the attributes on a link, a device or a FIFO in `directory`.
    ///
    /// # Errors
    /// Those of setting the owner, the mode, the extended attributes and the times.
    pub fn apply_to_name(&self, directory: BorrowedFd<'_>, name: &OsStr, link: bool) -> Result<()> {
        let path = Path::new(name);
        if let Some((uid, gid)) = self.owner {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| self.owner_failed(errno, path))?;
        }
        if !link {
            chmodat(directory, name, Mode::from_raw_mode(self.mode), AtFlags::empty())
                .map_err(Error::at("chmod", path))?;
        }
        for (xattr, value) in &self.xattrs {
            lsetxattr(through(directory).join(name), xattr, value, XattrFlags::empty())
                .map_err(|errno| xattr_failed(errno, xattr, path))?;
        }
        utimensat(directory, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Error::at("set times of", path))
    }

    fn times(&self) -> Timestamps {
        let time = Timespec { tv_sec: self.mtime.0, tv_nsec: self.mtime.1.into() };
        Timestamps { last_access: time, last_modification: time }
    }

    fn owner_failed(&self, errno: Errno, path: &Path) -> Error {
        let (uid, gid) = self.owner.unwrap_or_default();
        match errno {
            Errno::INVAL => unfit!(
                "{} belongs to user {uid} and group {gid}, which this user namespace does not have: map more \
                 ids (/etc/subuid and /etc/subgid), or give up owners with --ignore-owners",
                path.display()
            ),
            errno => Error::at("chown", path)(errno),
        }
    }
}

fn xattr_failed(errno: Errno, name: &CString, path: &Path) -> Error {
    Error::at("set extended attribute", format!("{} of {}", name.to_string_lossy(), path.display()))(
        errno,
    )
}

/// Returns a path through an open descriptor, for calls that do not accept O_PATH descriptors.
pub fn through(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
