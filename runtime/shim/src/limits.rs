//! The limit on open descriptors (RLIMIT_NOFILE). The shim has several descriptors for each process of its pod, so it
//! raises its own limit. Its containers get the limit with which the shim was started.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The original limit of open descriptors.
#[derive(Debug, Clone)]
pub(crate) struct Descriptors(Rlimit);

impl Descriptors {
    /// Raises the soft limit to the hard one, as programs in Go do. Failures are ignored.
    pub fn raise() -> Self {
        let own = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own });
        Self(own)
    }

    /// Restores the original limit. Called in a worker, so that the processes it creates inherit that limit.
    pub fn restore(&self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}
