//! A checkpoint of the agent, from which containers are restored.

use std::path::PathBuf;

/// A checkpoint of the agent, from which containers are restored.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) images: PathBuf,
    /// A directory for criu's logs.
    pub(super) work: PathBuf,
}
