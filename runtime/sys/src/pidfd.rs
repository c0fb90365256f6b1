//! Waits for the exit of processes that need not be children.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;

use crate::wait::{Deadline, ready};

/// Waits until the process that `pidfd` refers to has exited; returns false if the process is still running after
/// `limit`.
pub fn wait_for_exit(pidfd: impl AsFd, limit: Duration) -> bool {
    ready(&mut [PollFd::new(&pidfd, PollFlags::IN)], Deadline::after(limit)).unwrap_or(false)
}
