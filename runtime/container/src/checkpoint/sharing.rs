//! The propagation of a container's bind mounts, and of its root, after a restore.
//!
//! criu restores the propagation that a mount had at the checkpoint. In the images, a mount that shares mount events
//! with the host is one without peers, and whether a mount is a slave depends on the host of the checkpoint. So the
//! propagation of each mount is compared with that of a start on this host, and is made again where it differs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use plan::step::Propagation;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Statx, StatxAttributes, StatxFlags, fstat, openat, statx,
};
use rustix::mount::{MoveMountFlags, move_mount};
use sys::clone::CloneFlags;
use sys::inside::{Links, open};
use sys::mount::{MountAttr, mount_setattr, propagation};
use sys::{Context, Errno};

use super::mountinfo::Sharing;
use super::{c_string, mountinfo, mounts};
use crate::Error;

/// A mount of the container that a start would copy from a mount of the host.
#[derive(Debug)]
pub(super) struct Copied {
    /// The mount point in the container.
    pub place: String,
    /// The path on the host.
    pub source: String,
    /// The changes of its propagation, in their order.
    pub changes: Vec<Propagation>,
}

impl Copied {
    /// Describes a mount below this one.
    pub fn below(&self, path: &str) -> Self {
        let changes = self.changes.iter().filter(|change| path.is_empty() || change.recursive);
        Self {
            place: format!("{}{path}", self.place),
            source: format!("{}{path}", self.source),
            changes: changes.copied().collect(),
        }
    }
}

/// A copied mount with the mount of the host.
#[derive(Debug)]
struct Pair {
    copied: Copied,
    /// The file or directory that is mounted.
    file: (u64, u64),
    /// The root of the host's mount.
    mount: OwnedFd,
    sharing: Sharing,
}

/// The copied mounts of a container, with the mounts of the host.
#[derive(Debug)]
pub(super) struct Originals(Vec<Pair>);

impl Originals {
    /// Opens the host's mounts, in the mount namespace of this process.
    ///
    /// # Errors
    /// If the namespace's mount table cannot be read.
    pub fn open(all: Vec<Copied>) -> Result<Self, Error> {
        let lines = mountinfo::read("/proc/self/mountinfo")?;
        let pair = |copied: Copied| {
            // A source that has disappeared is left to criu.
            let (file, mount, id) = host_mount(&copied.source).ok()?;
            let sharing = lines.iter().find(|line| line.id == id)?.sharing;
            Some(Pair { copied, file, mount, sharing })
        };
        Ok(Self(all.into_iter().filter_map(pair).collect()))
    }

    /// Gives the container's mounts the propagation that a start would give them, where it differs. `pidfd` refers to the
    /// restored init, `mountinfo` is its mount table. Returns a message if the kernel refuses (Linux before 5.15).
    ///
    /// # Errors
    /// If the mount table cannot be read, or the mount namespace cannot be entered.
    pub fn apply(&self, pidfd: BorrowedFd<'_>, mountinfo: &str) -> Result<Option<String>, Error> {
        let lines = mountinfo::read(mountinfo)?;
        let differs = |pair: &&Pair| {
            let mut found = lines.iter().filter(|line| line.point == pair.copied.place);
            found.next_back().is_some_and(|line| !pair.expected().is_of(line.sharing))
        };
        let pairs: Vec<&Pair> = self.0.iter().filter(differs).collect();
        if pairs.is_empty() {
            return Ok(None);
        }
        // The number of the first failed mount, with its errno in the lower bits.
        let failed = sys::errand::ask(None, || {
            sys::ns::join_process(pidfd, CloneFlags::NEWNS)?;
            let root = sys::fs::open_dir(CWD, "/")?;
            for (number, pair) in (1..).zip(&pairs) {
                match pair.make_again(&root) {
                    Ok(()) => {}
                    Err(errno) => return Ok((number << 16) | errno.raw_os_error().unsigned_abs()),
                }
            }
            Ok(0)
        });
        let failed = failed.context("setns", "the restored mount namespace")?;
        let pair =
            usize::try_from(failed >> 16).ok().and_then(|number| pairs.get(number.checked_sub(1)?));
        Ok(pair.map(|pair| {
            let errno = Errno::from_raw_os_error((failed & 0xffff).cast_signed());
            format!(
                "mount {}: its propagation is that of the checkpoint: {errno}",
                pair.copied.place
            )
        }))
    }
}

impl Pair {
    /// Returns the sharing that a start gives the mount.
    fn expected(&self) -> Sharing {
        self.copied.changes.iter().fold(self.sharing, |sharing, change| sharing.after(change.kind))
    }

    /// Makes the propagation of the container's mount as a start does: from that of the host's mount, with all changes.
    fn make_again(&self, root: &OwnedFd) -> Result<(), Errno> {
        let name = c_string(self.copied.place.trim_start_matches('/')).map_err(|_| Errno::INVAL)?;
        let mount = open(root.as_fd(), &name, OFlags::PATH, Links::Refuse)?;
        // Another mount may have the same mount point.
        if inode(&mount)? != self.file {
            return Ok(());
        }
        let set = |kind| {
            let attr = MountAttr { propagation: kind, ..MountAttr::default() };
            mount_setattr(mount.as_fd(), false, &attr)
        };
        set(propagation::PRIVATE)?;
        if !self.sharing.is_private() {
            let flags = MoveMountFlags::MOVE_MOUNT_SET_GROUP
                | MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH
                | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
            move_mount(&self.mount, c"", &mount, c"", flags)?;
        }
        self.copied.changes.iter().try_for_each(|change| set(change.kind))
    }
}

fn inode(fd: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Opens a file of the host; returns its device and inode, the root of its mount, and the id of the mount.
fn host_mount(path: &str) -> Result<((u64, u64), OwnedFd, u64), Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat(CWD, path, flags, Mode::empty()).context("open", path)?;
    let (file, about) =
        (inode(&found).context("fstat", path)?, about(&found).context("statx", path)?);
    let mut at = found;
    if !is_root(&about) && u32::from(about.stx_mode) & 0o170_000 != 0o040_000 {
        // A file has no `..`.
        let place = mounts::path_of(at.as_fd())?;
        let directory = place.rsplit_once('/').map_or("", |(directory, _)| directory);
        at = openat(CWD, format!("{directory}/"), flags, Mode::empty()).context("open", path)?;
    }
    let mut now = self::about(&at).context("statx", path)?;
    while !is_root(&now) && now.stx_mnt_id == about.stx_mnt_id {
        at = openat(&at, "..", flags, Mode::empty()).context("open", path)?;
        now = self::about(&at).context("statx", path)?;
    }
    match now.stx_mnt_id == about.stx_mnt_id {
        true => Ok((file, at, about.stx_mnt_id)),
        false => Err(sys::Error::new("open the mount of", path, Errno::XDEV).into()),
    }
}

fn about(fd: &OwnedFd) -> Result<Statx, Errno> {
    statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID | StatxFlags::BASIC_STATS)
}

/// Returns whether a file is the root of its mount (Linux 5.8).
fn is_root(about: &Statx) -> bool {
    about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
}
