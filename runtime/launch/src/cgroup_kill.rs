//! Cgroups in which the kernel kills every new process.
//!
//! Since Linux 6.14, a fork that races with cgroup.kill is killed as well: the kernel compares a cgroup's kill count
//! before and after the fork. With CLONE_INTO_CGROUP, a process is created in a cgroup other than the caller's. Then
//! the kernel reads the count of the caller's cgroup before the fork, and the count of the new process's cgroup after
//! the fork (`kill_seq` in kernel/cgroup/cgroup.c, seen on 6.18). If the two counts differ, the new process is killed
//! before its first instruction. The counts differ, for example, if a process wrote to cgroup.kill of the caller's
//! cgroup before the caller entered that cgroup. Then every process that the caller creates in the other cgroup is
//! killed.

use init::hooks;
use plan::Plan;
use plan::step::ParentStep;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::clone::{Clone, CloneFlags, clone3};

use crate::Error;

/// The maximum time in seconds for which [`kills_newborn`] waits for the new process's exit: its cgroup may be frozen.
const PATIENCE: u32 = 1;

/// Tests whether the kernel kills processes created in this v2 cgroup, by creating a process that exits at once.
pub fn kills_newborn(cgroup: BorrowedFd<'_>) -> bool {
    sys::signal::reset_sigchld();
    match clone3(CloneFlags::empty(), Some(cgroup)) {
        Ok(Clone::Child) => sys::start::exit(0),
        Ok(Clone::Parent(child)) => {
            let ended = hooks::exits_within(&child.pidfd, PATIENCE);
            if !ended {
                let _ = sys::signal::send(child.pidfd.as_fd(), 9);
            }
            let status = hooks::wait(&child.pidfd);
            ended && status.is_ok_and(|status| status.terminating_signal() == Some(9))
        }
        Err(_) => false,
    }
}

/// Returns the error to report for a launch that failed with `error`. The result is [`Error::Stillborn`] if `error` may
/// be caused by the death of an init that was cloned into the cgroup, and if the kernel kills new processes in the
/// cgroup. Otherwise the result is `error` itself. `cgroup` is `None` if init has begun to run: a test would disturb
/// systemd, which removes an empty scope at that moment, and does not try again if a new process makes its rmdir(2)
/// fail. `console` is the connection to the console socket.
#[cold]
pub(crate) fn reason_of(
    error: Error,
    plan: &Plan,
    cgroup: Option<BorrowedFd<'_>>,
    console: Option<OwnedFd>,
) -> Error {
    let inside = |step: &ParentStep| matches!(step, ParentStep::Clone { into_cgroup: true, .. });
    let suspect = matches!(error, Error::Died(_) | Error::Parent(_) | Error::Mount { .. })
        && plan.parent.iter().any(inside);
    match cgroup.filter(|_| suspect) {
        Some(cgroup) if kills_newborn(cgroup) => Error::Stillborn(console),
        _ => error,
    }
}
