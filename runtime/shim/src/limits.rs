//! The limit of open descriptors: the shim has several for each process of its pod, and raises its own limit; its
//! containers start with the limit that the shim was started with.

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

    /// Restores the limit; in a worker, whose processes inherit it.
    pub fn restore(&self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}
