//! The process that keeps a systemd scope alive until init is in it.
//!
//! systemd creates a scope for an existing process. If that process were init, its cgroup would exist only after the
//! clone. That is too late for CLONE_INTO_CGROUP, for limits that apply from init's first instruction, and on cgroup v1
//! for the mounts that show the cgroup's directories. So the scope is created around a holder process, which only waits
//! until init is in the scope, or until the parent exits.
//!
//! So the steps are the same as without systemd, with `release scope` after the clone. systemd removes a scope without
//! processes, so a killed `create` leaves none. A restore needs no holder: systemd makes the scope around criu.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use sys::clone::{Child, Clone, CloneFlags, clone3};

/// Creates the holder.
///
/// # Errors
/// Those of clone3(2).
///
/// # Safety
/// The process has one thread.
pub unsafe fn begin() -> Result<Child, Errno> {
    let parent = getpid();
    // SAFETY: the caller's promise.
    match unsafe { clone3(CloneFlags::empty(), None) }? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => wait_for_the_end(parent),
    }
}

fn wait_for_the_end(parent: Pid) -> ! {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have exited before the signal was set.
    if bound.is_err() || getppid() != Some(parent) {
        sys::start::exit(1);
    }
    loop {
        rustix::event::pause();
    }
}
