//! Cgroups that nobody can be born into.
//!
//! From Linux 6.14 on, a fork that races with cgroup.kill is to be killed as well: the kernel counts how
//! often a cgroup was killed, before the fork and after it. With CLONE_INTO_CGROUP it counts the caller's
//! cgroup before and the new process's after (`kill_seq` in kernel/cgroup/cgroup.c, seen on 6.18). Where
//! one was killed more often than the other, say because a supervisor clears its own cgroup by cgroup.kill
//! and goes on in it, every such child is killed before its first instruction.

use init::hooks;
use plan::Plan;
use plan::step::ParentStep;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sys::clone::{Clone, CloneFlags, clone3};

use crate::Error;

/// How long a process may take to end that has nothing to do, in seconds: its cgroup may be frozen.
const PATIENCE: u32 = 1;

/// Whether a process that is born into this cgroup of v2 is killed, found out by one that would end at once.
pub fn kills_newborn(cgroup: BorrowedFd<'_>) -> bool {
    sys::signal::hear_of_children();
    // SAFETY: one thread; the child makes one system call.
    match unsafe { clone3(CloneFlags::empty(), Some(cgroup)) } {
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

/// What a launch failed of: init may have ended, or not have been found any more, for no other reason. `console` is
/// what the plan connected.
#[cold]
pub(crate) fn reason_of(
    error: Error,
    plan: &Plan,
    cgroup: Option<BorrowedFd<'_>>,
    console: Option<OwnedFd>,
) -> Error {
    let inside = |step: &ParentStep| matches!(step, ParentStep::Clone { into_cgroup: true, .. });
    let suspect =
        matches!(error, Error::Died(_) | Error::Parent(_)) && plan.parent.iter().any(inside);
    match cgroup.filter(|_| suspect) {
        Some(cgroup) if kills_newborn(cgroup) => Error::Stillborn(console),
        _ => error,
    }
}
