//! The state of a container as printed by commands (runtime-spec, runtime.md; runc's `state` and `list`).

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;

use serde::Serialize;

/// The status of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// `create` is in progress.
    Creating,
    /// Init is waiting for `start`.
    Created,
    /// The program is running.
    Running,
    /// The processes are frozen.
    Paused,
    /// No process exists any more.
    Stopped,
}

impl Status {
    /// Returns the status as a word.
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

/// The output of `state` and `list`, in runc's order of keys.
#[derive(Debug, Clone, Serialize)]
pub struct State {
    /// The version of the specification.
    #[serde(rename = "ociVersion")]
    pub oci_version: String,
    /// The container's id.
    pub id: String,
    /// The pid of the container's init; 0 if the container is stopped.
    pub pid: i32,
    /// The container's status.
    pub status: Status,
    /// The bundle's absolute path.
    pub bundle: String,
    /// The root filesystem's absolute path.
    pub rootfs: String,
    /// The time of creation, RFC 3339.
    pub created: String,
    /// The configuration's annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The user who created the container: the name in /etc/passwd, or `#` and the uid if there is none.
    pub owner: String,
}
