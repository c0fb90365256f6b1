//! A process that kills criu if the command is killed while criu serves memory pages. Without this
//! process, criu would wait for a restore that fetches pages, and the container would remain
//! stopped.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use sys::Context;
use sys::clone::{Child, Clone, CloneFlags, clone3};
use sys::signal::{SignalSet, set_mask};

use crate::Error;

/// The maximum time to wait for the exit of a killed criu.
const PATIENCE: Duration = Duration::from_secs(10);

/// The guard process. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts the guard of `criu`, a pidfd. If this process ends first, the guard kills criu and then calls `resume`.
    pub fn post(criu: &OwnedFd, resume: impl FnOnce()) -> Result<Self, Error> {
        let command = pidfd_open(getpid(), PidfdFlags::empty()).context("pidfd_open", "self")?;
        match clone3(CloneFlags::empty(), None).context("clone3", "guard of criu")? {
            Clone::Parent(child) => Ok(Self(child)),
            Clone::Child => {
                // Signals from a terminal are sent to this process, too.
                let _ = set_mask(SignalSet::ALL);
                if ends_before(&command, criu) {
                    let _ = sys::signal::send(criu.as_fd(), 9);
                    // This process exits even if criu, in uninterruptible sleep, does not.
                    let _ = sys::pidfd::wait_for_exit(criu, PATIENCE);
                    resume();
                }
                sys::start::exit(0)
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = sys::signal::send(self.0.pidfd.as_fd(), 9);
        let _ = launch::wait(&self.0.pidfd);
    }
}

/// Waits until one of two processes has exited; returns whether the first one has exited.
fn ends_before(first: &OwnedFd, second: &OwnedFd) -> bool {
    let mut fds = [first, second].map(|pidfd| PollFd::new(pidfd, PollFlags::IN));
    loop {
        match poll(&mut fds, None) {
            Ok(_) => {
                let [first, _] = &fds;
                return !first.revents().is_empty();
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
