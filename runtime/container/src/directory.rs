//! A container's directory in the state root: its id's name, its files, its lock.

use alloc::format;
use alloc::string::String;

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, flock, fstat, unlinkat};
use rustix::io::Errno;
use sys::Context;
use sys::defence::{Defence, is_off};

use crate::{Error, output};

/// The socket that init listens on between `create` and `start`.
pub(crate) const START: &str = "start";
/// The record.
pub(crate) const RECORD: &str = "record";
/// The directory of the socket that takes a service's notices.
pub(crate) const NOTIFY_DIRECTORY: &str = "notify";
/// That socket.
pub(crate) const NOTIFY_SOCKET: &str = "notify/notify.sock";

/// Refuses what can be no container's id, and so no directory's name.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_id(id: &str) -> Result<(), spec::InvalidId> {
    if is_off(Defence::IdCheck) {
        return Ok(());
    }
    spec::validate_id(id)
}

/// Removes a container's directory, which holds files only, or also the one of its notify socket; and whatever else
/// somebody may have put there.
pub(crate) fn remove(
    root: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    id: &str,
) -> Result<(), sys::Error> {
    // The record last: as long as it is there, the container can be found and deleted again.
    for name in [START, RECORD] {
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // None of ours: it goes with the rest.
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(sys::Error::new("unlink", format!("{id}/{name}"), errno)),
        }
    }
    match remove_directory(root, id) {
        // Another command has removed it, and a container of the same name has its own there by now.
        Err(Errno::NOTEMPTY | Errno::EXIST) if fstat(directory).is_ok_and(|s| s.st_nlink == 0) => {
            Ok(())
        }
        // Looked for only here: few have one.
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            output::detach(directory);
            rootfs::empty(directory).context("clear", id)?;
            remove_directory(root, id)
        }
        result => result,
    }
    .context("rmdir", id)
}

pub(crate) fn remove_directory(parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Locks a container's directory for as long as a descriptor lives.
pub(crate) fn lock(directory: BorrowedFd<'_>) -> Result<(), Error> {
    let locked = match flock(directory, FlockOperation::NonBlockingLockExclusive) {
        // Nobody makes a container there: somebody only looks whether one is made, which takes a moment.
        Err(Errno::AGAIN) if !is_locked(directory) => {
            flock(directory, FlockOperation::LockExclusive)
        }
        result => result,
    };
    locked.map_err(|_| Error::Exists)
}

/// Waits until nobody has the directory locked.
pub(crate) fn await_unlocked(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    while let Err(errno) = flock(directory, FlockOperation::LockShared) {
        if errno != Errno::INTR {
            return Err(errno);
        }
    }
    unlock(directory)
}

/// Lets go of a lock, whoever has its descriptor besides.
fn unlock(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    flock(directory, FlockOperation::Unlock)
}

/// Whether a command is at work on the container.
pub(crate) fn is_locked(directory: BorrowedFd<'_>) -> bool {
    match flock(directory, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = unlock(directory);
            false
        }
        Err(errno) => errno == Errno::AGAIN,
    }
}

/// The path of a file in an open directory, short enough for a socket's address whatever the state
/// root's own path is.
pub(crate) fn path_in(directory: BorrowedFd<'_>, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

/// Duplicating descriptors, close-on-exec.
pub(crate) trait TryClone {
    /// Another descriptor of the same file.
    fn try_clone_fd(&self) -> Result<OwnedFd, sys::Error>;
}

impl TryClone for OwnedFd {
    fn try_clone_fd(&self) -> Result<OwnedFd, sys::Error> {
        rustix::io::fcntl_dupfd_cloexec(self, 3).context("dup", "")
    }
}
