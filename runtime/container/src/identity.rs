//! The identity of a process, and the time in which a killed one exits.

use core::time::Duration;

pub(crate) use sys::identity::{Identity, has_exited, open_alive};

/// The maximum time for which `delete` waits for the exit of an init that it has killed. A process
/// in uninterruptible sleep may take longer. `delete` then fails; the container still exists, and
/// `delete` can be repeated.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
