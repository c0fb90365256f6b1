//! The process that keeps a scope of systemd alive until init is in it.
//!
//! systemd makes a scope around a process. Were that init, its cgroup would be there only after the clone:
//! too late for a birth inside, for limits that hold from its first instruction, and on cgroup v1 for
//! the mounts that show the cgroup's directories. So it is a process that does nothing but wait for
//! its end, which comes once init is there, or with the parent's own.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use sys::clone::{Child, Clone, CloneFlags, clone3};

/// Makes it.
///
/// # Errors
/// Those of clone3(2).
///
/// # Safety
/// The process has one thread.
pub unsafe fn begin() -> Result<Child, Errno> {
    let parent = getpid();
    // SAFETY: as the caller promises.
    match unsafe { clone3(CloneFlags::empty(), None) }? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => wait_for_the_end(parent),
    }
}

fn wait_for_the_end(parent: Pid) -> ! {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    // The parent may have ended before that was set.
    if bound.is_err() || getppid() != Some(parent) {
        sys::start::exit(1);
    }
    loop {
        rustix::event::pause();
    }
}
