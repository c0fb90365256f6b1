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
use sys::clone::{Child, Clone, clone3_bound};

/// Creates the holder.
///
/// # Errors
/// Those of clone3(2).
pub fn begin() -> Result<Child, Errno> {
    match clone3_bound()? {
        Clone::Parent(child) => Ok(child),
        Clone::Child => loop {
            rustix::event::pause();
        },
    }
}
