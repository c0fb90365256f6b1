//! A start that does not block its caller: the shim's loop sends the message, and reads the result
//! when the result has arrived.

use alloc::format;
use core::time::Duration;

use cgroup::{Cgroup, FreezerState, Location};
use launch::{Start, Waiter, Withdrawal};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, unlinkat};
use rustix::io::Errno;
use sys::Context;

use crate::cache::directory::open_directory;
use crate::directory::{START, is_locked, path_in};
use crate::{Error, Status, Unless as _};

/// The start of a created container, from the message to init until init has executed its program.
#[derive(Debug)]
pub struct Starting {
    directory: OwnedFd,
    socket: OwnedFd,
    withdrawal: Withdrawal,
}

impl Starting {
    /// The time in which an init that is not frozen usually answers. After this time, the caller
    /// checks the freezer.
    pub const PROMPT: Duration = launch::PROMPT;

    /// Connects to the init of container `id` in the state root `root`, without reading the container's record. Returns
    /// `None` if this is impossible or would block. The caller must then call
    /// [`Container::start`](crate::Container::start), which reports why the container cannot be started, or waits.
    ///
    /// The container must have neither startContainer nor poststart hooks: this type neither runs
    /// poststart hooks nor removes a container whose hook has failed.
    pub fn reach(root: &str, id: &str) -> Option<Self> {
        let directory = open(root, id)?;
        if is_locked(directory.as_fd()) {
            return None;
        }
        let socket = launch::reach(&path_in(directory.as_fd(), START)).ok()?;
        Some(Self { directory, socket, withdrawal: Withdrawal::None })
    }

    /// Returns whether the init of container `id` waits to be started. A frozen init counts as waiting.
    pub fn is_due(root: &str, id: &str) -> bool {
        open(root, id).is_some_and(|directory| {
            launch::waiter(&path_in(directory.as_fd(), START)) == Waiter::Waiting
        })
    }

    /// Sends the message that starts the program. Returns whether it was sent.
    pub fn begin(&self) -> bool {
        launch::begin(&self.socket).is_ok()
    }

    /// Takes the message back from a frozen init. Returns false if init has read the message; the start then goes on.
    pub fn withdraw(&mut self) -> bool {
        self.withdrawal = launch::withdraw(&self.socket);
        self.withdrawal == Withdrawal::Done
    }

    /// Returns the descriptor that becomes readable when the start has ended.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns whether the start has ended, so that [`fd`](Self::fd) is readable.
    pub fn has_ended(&self) -> bool {
        sys::wait::is_readable(&self.socket)
    }

    /// Ends the start, after [`fd`](Self::fd) has become readable.
    ///
    /// # Errors
    /// If execve(2) failed, if init was killed, or if init ignored the message because of [`withdraw`](Self::withdraw).
    pub fn finish(self) -> Result<(), Error> {
        let path = path_in(self.directory.as_fd(), START);
        match launch::finish(&self.socket, &path, self.withdrawal)? {
            Start::Runs => Ok(remove_socket(self.directory.as_fd())?),
            Start::Frozen | Start::NobodyWaits => Err(Error::CannotStart(Status::Paused)),
        }
    }
}

/// Returns whether the container's cgroup is frozen; false if the cgroup no longer exists.
///
/// # Errors
/// If the state of the freezer cannot be read.
pub fn is_frozen(location: &Location) -> Result<bool, Error> {
    match Cgroup::open(location) {
        Ok(cgroup) => Ok(cgroup.freezer_state()? == FreezerState::Frozen),
        Err(error) if error.is_gone() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory of a container.
fn open(root: &str, id: &str) -> Option<OwnedFd> {
    open_directory(CWD, &format!("{root}/{id}")).ok()
}

/// Removes the socket on which init waited.
pub(crate) fn remove_socket(directory: BorrowedFd<'_>) -> Result<(), sys::Error> {
    let removed = unlinkat(directory, START, AtFlags::empty()).unless(Errno::NOENT);
    removed.map(drop).context("unlink", START)
}
