//! A container's directory in the state root: its name, files and lock.

use alloc::format;
use alloc::string::String;

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FlockOperation, flock, fstat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use sys::Context;
use sys::defence::{Defence, is_off};

use crate::{Unless as _, identity};

/// The socket that init listens on between `create` and `start`.
pub(crate) const START: &str = "start";
/// The record.
pub(crate) const RECORD: &str = "record";
/// The directory of the log, on which a tmpfs is mounted if the caller may mount.
pub(crate) const LOG: &str = "log";
/// The directory of the socket that receives a service's notifications.
pub(crate) const NOTIFY_DIRECTORY: &str = "notify";
/// The socket that receives a service's notifications.
pub(crate) const NOTIFY_SOCKET: &str = "notify/notify.sock";

/// Validates a container id, which is a directory name.
///
/// # Errors
/// If the id is invalid, with the reason.
pub(crate) fn check_id(id: &str) -> Result<(), spec::InvalidId> {
    if is_off(Defence::IdCheck) {
        return Ok(());
    }
    spec::validate_id(id)
}

/// Removes a container's directory with all files in it, including files that dayfly did not create.
pub(crate) fn remove(
    root: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    id: &str,
) -> Result<(), sys::Error> {
    // The record is removed last: as long as the record exists, the container can be found, and `delete` can be
    // repeated.
    for name in [START, RECORD] {
        match unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            // This name is a directory that dayfly did not create. It is removed below with all
            // other files.
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(sys::Error::new("unlink", format!("{id}/{name}"), errno)),
        }
    }
    match remove_directory(root, id) {
        // Another command has removed this directory, and a new container of the same name has a directory already.
        Err(Errno::NOTEMPTY | Errno::EXIST) if fstat(directory).is_ok_and(|s| s.st_nlink == 0) => {
            Ok(())
        }
        // A log or other files are rare, so they are removed only after rmdir(2) has failed.
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            unmount_log(directory);
            rootfs::empty(directory).context("clear", id)?;
            remove_directory(root, id)
        }
        result => result,
    }
    .context("rmdir", id)
}

/// Unmounts the tmpfs of the log, if there is one.
fn unmount_log(directory: BorrowedFd<'_>) {
    // umount2(2) accepts paths only.
    let path = path_in(directory, LOG);
    let _ = unmount(path.as_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
}

pub(crate) fn remove_directory(parent: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    unlinkat(parent, name, AtFlags::REMOVEDIR).unless(Errno::NOENT).map(drop)
}

/// Locks a container's directory until `directory` and its duplicates are closed.
///
/// # Errors
/// EAGAIN if another command works on the container; the other errors of flock(2).
pub(crate) fn lock(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
    match flock(directory, EXCLUSIVE) {
        // No command works on the container. Another command is checking the lock, and holds it in shared mode for a
        // moment. If that command is stopped meanwhile, this one does not wait for it without end.
        Err(Errno::AGAIN) if !is_locked(directory) => {
            sys::wait::lock(directory, EXCLUSIVE, identity::PATIENCE)
        }
        result => result,
    }
}

/// Locks the directory of a container that other commands see, when they have finished, but waits at most
/// [`identity::PATIENCE`].
///
/// # Errors
/// EAGAIN if the directory is still locked; the other errors of flock(2).
pub(crate) fn lock_again(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    sys::wait::lock(directory, FlockOperation::NonBlockingLockExclusive, identity::PATIENCE)
}

/// Waits until the directory is unlocked, but at most [`identity::PATIENCE`].
///
/// # Errors
/// EAGAIN if the directory is still locked; the other errors of flock(2).
pub(crate) fn await_unlocked(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    sys::wait::lock(directory, FlockOperation::NonBlockingLockShared, identity::PATIENCE)?;
    unlock(directory)
}

/// Releases a lock even if its descriptor has duplicates.
fn unlock(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    flock(directory, FlockOperation::Unlock)
}

/// Returns whether a command is working on the container.
pub(crate) fn is_locked(directory: BorrowedFd<'_>) -> bool {
    match flock(directory, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = unlock(directory);
            false
        }
        Err(errno) => errno == Errno::AGAIN,
    }
}

/// Returns the path of a file in an open directory, short enough for a socket address even if the state root's path is
/// long.
pub(crate) fn path_in(directory: BorrowedFd<'_>, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

/// Opens a socket for requests, which gets the name `name` in a container's directory.
pub(crate) fn socket_for(name: &'static str) -> Result<OwnedFd, sys::Error> {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).context("socket", name)
}

/// Gives such a socket its place in a container's directory. `backlog` connections may wait there.
pub(crate) fn listen_in(
    directory: BorrowedFd<'_>,
    socket: &OwnedFd,
    name: &'static str,
    backlog: i32,
) -> Result<(), sys::Error> {
    let address = SocketAddrUnix::new(path_in(directory, name)).context("bind", name)?;
    bind(socket, &address).context("bind", name)?;
    listen(socket, backlog).context("listen", name)
}

/// Opens such a socket in a container's directory.
pub(crate) fn listening(
    directory: BorrowedFd<'_>,
    name: &'static str,
    backlog: i32,
) -> Result<OwnedFd, sys::Error> {
    let socket = socket_for(name)?;
    listen_in(directory, &socket, name, backlog)?;
    Ok(socket)
}

/// Duplicates descriptors; the duplicates are close-on-exec.
pub(crate) trait TryClone {
    /// Returns another descriptor of the same file.
    fn try_clone_fd(&self) -> Result<OwnedFd, sys::Error>;
}

impl TryClone for OwnedFd {
    fn try_clone_fd(&self) -> Result<OwnedFd, sys::Error> {
        rustix::io::fcntl_dupfd_cloexec(self, 3).context("dup", "")
    }
}
