//! The systemd cgroup driver: a container's cgroup as a transient scope unit.
//!
//! systemd makes the cgroup, knows it as `PREFIX-NAME.scope` in a slice, and leaves what is below it to
//! us (`Delegate=`). A scope is made around a process and goes when the last one does; so the launcher
//! keeps a process in it until init is there. What the rest of this crate does with a cgroup, it does
//! with the scope's directory just as well: only its beginning, its end and its limits go through
//! systemd, since systemd would otherwise undo them at the next `daemon-reload`.
//!
//! The rules are those of runc's manager, so that engines find what they look for.

mod annotation;
mod manager;
pub(crate) mod properties;
mod scope;
mod unit;

pub use annotation::annotated;
pub use properties::Property;
pub(crate) use scope::{stop, stop_unit};
pub use unit::Unit;

use crate::Error;

/// Whether systemd runs this host: sd_booted(3).
///
/// # Errors
/// [`Error::NoSystemd`] if it does not.
pub fn check_running() -> Result<(), Error> {
    match rustix::fs::lstat("/run/systemd/system") {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(()),
        _ => Err(Error::NoSystemd),
    }
}
