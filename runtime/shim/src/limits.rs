//! Descriptors: the shim has several for each process of its pod, and may have as many as anybody; its containers begin
//! with the limit that it was started with.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many descriptors the process might have when it was started.
#[derive(Debug, Clone)]
pub(crate) struct Descriptors(Rlimit);

impl Descriptors {
    /// Raises the soft limit to the hard one, as programs in Go do. Where that is refused, it stays as it is.
    pub fn raise() -> Self {
        let own = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own });
        Self(own)
    }

    /// Sets the limit back; in a worker, whose processes inherit it.
    pub fn restore(&self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}
