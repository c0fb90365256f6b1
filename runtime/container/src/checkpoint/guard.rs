//! A process that ends a criu which serves pages if the command is killed. criu would go on to wait for a restore that
//! asks for pages, and keep the container stopped meanwhile.

use core::time::Duration;

use launch::copy_process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use sys::Context;
use sys::clone::{Child, Clone};
use sys::signal::{SignalSet, set_mask};

use crate::Error;

/// The time that a killed criu gets to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The guard. It is ended on drop.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    /// Starts the guard of `criu`, a pidfd. If this process ends first, the guard kills criu and then calls `resume`.
    pub fn post(criu: &OwnedFd, resume: impl FnOnce()) -> Result<Self, Error> {
        let command = pidfd_open(getpid(), PidfdFlags::empty()).context("pidfd_open", "self")?;
        match copy_process().context("clone3", "guard of criu")? {
            Clone::Parent(child) => Ok(Self(child)),
            Clone::Child => {
                // A terminal's signals reach this process as well.
                let _ = set_mask(SignalSet::ALL);
                if ends_before(&command, criu) {
                    let _ = sys::signal::send(criu.as_fd(), 9);
                    // Even if the kernel keeps criu, this process ends.
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

/// Waits until one of two processes has ended; returns whether it is the first.
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
