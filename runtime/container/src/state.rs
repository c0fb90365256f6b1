//! The state of a container as commands print it (runtime-spec, runtime.md; runc's `state` and `list`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use serde::Serialize;

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// `create` is at work.
    Creating,
    /// Waiting for `start`.
    Created,
    /// The program runs.
    Running,
    /// Frozen.
    Paused,
    /// No process is left.
    Stopped,
}

impl Status {
    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What `state` and `list` print, in runc's order of keys.
#[derive(Debug, Clone, Serialize)]
pub struct State {
    /// The version of the specification.
    #[serde(rename = "ociVersion")]
    pub oci_version: String,
    /// The container.
    pub id: String,
    /// Its init, or 0.
    pub pid: i32,
    /// Where it is in its life.
    pub status: Status,
    /// The bundle's absolute path.
    pub bundle: String,
    /// The root filesystem's absolute path.
    pub rootfs: String,
    /// When it was created, RFC 3339.
    pub created: String,
    /// The configuration's annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The user who created it: a name where /etc/passwd has one.
    pub owner: String,
}
