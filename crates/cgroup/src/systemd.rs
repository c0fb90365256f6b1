//! The systemd cgroup driver: a container's cgroup as a transient scope unit.
//!
//! systemd makes the cgroup, knows it as `PREFIX-NAME.scope` in a slice, and leaves what is below it to
//! us (`Delegate=`). A scope is made around a process and goes when the last one does; so the launcher
//! keeps a process in it until init is there. What the rest of this crate does with a cgroup, it does
//! with the scope's directory just as well: only its beginning, its end and its limits go through
//! systemd, since systemd would otherwise undo them at the next `daemon-reload`.
//!
//! A user's own instance of systemd does the same below the cgroup that the host's has delegated to it. What
//! the user may not write to there, it asks that instance for.
//!
//! The rules are those of runc's manager, so that engines find what they look for.

mod annotation;
mod instance;
mod manager;
pub(crate) mod properties;
mod scope;
mod unit;

pub use annotation::annotated;
pub use instance::Instance;
pub use properties::Property;
pub(crate) use scope::{attach, stop, stop_unit};
pub use unit::Unit;

use crate::Error;

/// The uid of who runs this host by systemd (sd_booted(3)), as the caller's user namespace has it: 0, unless
/// root is outside.
///
/// # Errors
/// [`Error::NoSystemd`] if systemd does not run it.
pub fn host_owner() -> Result<u32, Error> {
    match rustix::fs::lstat("/run/systemd/system") {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(stat.st_uid),
        _ => Err(Error::NoSystemd),
    }
}
