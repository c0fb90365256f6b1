//! Waiting for processes that need not be children.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;

/// Waits until the process of a pidfd has ended; false after `milliseconds`.
pub fn wait_for_exit(pidfd: impl AsFd, milliseconds: i64) -> bool {
    let tv_nsec = milliseconds % 1000 * 1_000_000;
    let limit = Timespec { tv_sec: milliseconds / 1000, tv_nsec: tv_nsec as _ };
    loop {
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => {}
            result => return result.is_ok_and(|ready| ready > 0),
        }
    }
}
