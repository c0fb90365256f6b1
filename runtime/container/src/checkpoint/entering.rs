//! Finds processes of `exec` that are in the container's cgroup, but in the caller's user namespace. Such a process has
//! not entered the container's user namespace yet, or has just created a process in it. If the container's init is the
//! parent of such a process, criu would save the process, and could not restore it.

use alloc::format;
use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::fs::stat;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::Context;
use sys::wait::{Deadline, ready};

use crate::{Container, Error};

/// The maximum time to wait for the exit of all such processes. They have no other work left.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until all processes of the container are in its user namespace.
///
/// # Errors
/// Those of [`check`], if the processes take too long; those of pidfd_open(2).
pub(super) fn wait(container: &Container) -> Result<(), Error> {
    let deadline = Deadline::after(PATIENCE);
    while let Some(pid) = found(container)? {
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) if !has_exited_before(&pidfd, deadline) => return check(container),
            Ok(_) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(sys::Error::new("pidfd_open", format!("{pid}"), errno).into()),
        }
    }
    Ok(())
}

fn has_exited_before(pidfd: &OwnedFd, deadline: Deadline) -> bool {
    ready(&mut [PollFd::new(pidfd, PollFlags::IN)], deadline).unwrap_or(false)
}

/// Refuses a container with a process that is not in its user namespace.
///
/// # Errors
/// The error contains the pid.
pub(super) fn check(container: &Container) -> Result<(), Error> {
    match found(container)? {
        Some(pid) => Err(Error::Text(format!(
            "process {pid} is about to enter the container or to leave it (exec): try again"
        ))),
        None => Ok(()),
    }
}

/// Returns a process of the container's cgroup that is in this process's user namespace.
fn found(container: &Container) -> Result<Option<Pid>, Error> {
    if !container.is_in_user_namespace() {
        return Ok(None);
    }
    let Ok(cgroup) = container.cgroup() else { return Ok(None) };
    let own = stat("/proc/self/ns/user").context("stat", "/proc/self/ns/user")?.st_ino;
    let is_outside = |pid: &Pid| {
        let path = format!("/proc/{}/ns/user", pid.as_raw_nonzero());
        stat(path.as_str()).is_ok_and(|stat| stat.st_ino == own)
    };
    Ok(cgroup.all_pids()?.into_iter().find(is_outside))
}
