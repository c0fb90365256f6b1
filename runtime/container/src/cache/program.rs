//! The runtime's own program on a read-only mount.
//!
//! A command that enters a container runs from such a mount (CVE-2019-5736). If each command created a new mount, it
//! would wait for an RCU grace period when it releases the mount. So a mount is kept for later commands. The name of
//! its mount point consists of the program's device and inode numbers. The mount is used only if its file has these
//! numbers and the mount is read-only.

use alloc::format;
use alloc::string::ToString;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Stat, access, openat, statat};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};
use sys::Context;
use sys::mount::{MountAttr, mount_setattr, propagation};
use sys::reexec::{OwnProgram, Running};

use crate::cache::directory::{DEFAULT_PATH, proc_path, subdirectory};
use crate::cache::entries::names;
use crate::cache::mounts::{self, Lock, take_away, unmount_all};
use crate::cache::{Cache, Error};

/// The directory in the tmpfs of [`mounts`] that contains the mount points.
const DIRECTORY: &str = "programs";
/// The maximum number of mounted programs. The number is small, because each mount keeps its file system busy.
const MOST: usize = 4;

/// Opens this process's own program on the mount that an earlier command has kept in the host's cache. This takes four
/// system calls.
///
/// # Errors
/// ENOENT if no mount is kept for the program, ESTALE if a different file is at the mount point, EACCES if the mount is
/// writable.
pub fn kept_program() -> Result<OwnProgram, Errno> {
    let own = Running::find()?;
    let path = format!("{DEFAULT_PATH}/{}/{DIRECTORY}/{own}", mounts::DIRECTORY);
    open(CWD, &path, own)
}

/// Opens `path` if it is the file `own` on a read-only mount.
fn open(at: BorrowedFd<'_>, path: &str, own: Running) -> Result<OwnProgram, Errno> {
    let file = own.open(at, path)?;
    // access(2) is cheaper than statfs(2), for which ext4 adds up its counters.
    match access(proc_path(file.as_fd()).as_str(), Access::WRITE_OK) {
        Err(Errno::ROFS) => Ok(file),
        _ => Err(Errno::ACCESS),
    }
}

impl Cache {
    /// Keeps `mount`, a detached read-only copy of the mount of this process's program, for [`kept_program`].
    ///
    /// # Errors
    /// [`Error::Busy`] if another process is changing the cache's mounts; [`Error::System`].
    pub fn keep_program(&self, mount: &OwnedFd) -> Result<(), Error> {
        let lock = self.try_lock()?;
        let programs = programs(&lock)?;
        let own = Running::find().context("stat", "program")?;
        let name = own.to_string();
        if open(programs.as_fd(), &name, own).is_ok() {
            return Ok(());
        }
        unmount_all(programs.as_fd(), &name);
        make_room(programs.as_fd()).context("clear", DIRECTORY)?;
        // With private propagation, mount events of the original do not reach the copy.
        let private = MountAttr { propagation: propagation::PRIVATE, ..MountAttr::default() };
        mount_setattr(mount.as_fd(), false, &private).context("mount_setattr", "program")?;
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&programs, &name, flags, Mode::empty()).context("open", &name)?;
        let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(move_mount(mount, c"", &programs, &name, whole).context("move_mount", &name)?)
    }
}

fn programs(lock: &Lock<'_>) -> Result<OwnedFd, sys::Error> {
    subdirectory(lock.mounts()?.as_fd(), DIRECTORY).context("open", DIRECTORY)
}

/// Unmounts programs whose file has been deleted. If too many programs are still mounted, unmounts all.
fn make_room(programs: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut left = names(programs)?;
    let is_kept = |program: Stat| program.st_nlink > 0;
    left.retain(|name| {
        let kept = statat(programs, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_kept);
        if !kept {
            let _ = take_away(programs, &name.to_string_lossy());
        }
        kept
    });
    if left.len() < MOST {
        return Ok(());
    }
    left.iter().try_for_each(|name| take_away(programs, &name.to_string_lossy()))
}
