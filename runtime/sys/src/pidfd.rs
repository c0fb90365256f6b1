//! Pidfds: the pid behind one, and the wait for the exit of processes that need not be children.

use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use rustix::process::Pid;

use crate::wait::{Deadline, ready};

/// Returns the pid of the process that a pidfd refers to, from the text of its fdinfo (proc_pid_fdinfo(5)). Returns
/// `None` if the process has been reaped, or has no pid in the reader's PID namespace.
pub fn pid(fdinfo: &[u8]) -> Option<Pid> {
    let number = fdinfo.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Pid:"))?;
    let pid = core::str::from_utf8(number.trim_ascii()).ok()?.parse().ok()?;
    // The kernel writes -1 for a process that has been reaped.
    if pid > 0 { Pid::from_raw(pid) } else { None }
}

/// Waits until the process that `pidfd` refers to has exited; returns false if the process is still running after
/// `limit`.
pub fn wait_for_exit(pidfd: impl AsFd, limit: Duration) -> bool {
    ready(&mut [PollFd::new(&pidfd, PollFlags::IN)], Deadline::after(limit)).unwrap_or(false)
}
