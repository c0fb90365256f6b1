//! What time is spent on.

use core::fmt;

use serde::{Deserialize, Serialize};

/// What a span is for: the categories of seed 004, Table I, with shutdown beside them, and the
/// container's own program, which is no work of the runtime.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Capabilities, user, seccomp, masks, keyring.
    Security,
    /// Everything that attaches or changes a mount.
    Mounts,
    /// Namespaces, hostname, sysctl, console, network.
    Platform,
    /// cgroup directories, limits, membership.
    Cgroups,
    /// Process creation, exec, hooks.
    Bootstrap,
    /// Messages between the actors. Waiting for one is no work, and is told apart.
    Sync,
    /// Reading, compiling, writing records.
    #[default]
    Configuration,
    /// From the exit of the container to nothing left.
    Shutdown,
    /// The container's program.
    Program,
}

impl Phase {
    /// All of them, in the order of seed 004's table.
    pub const ALL: [Self; 9] = [
        Self::Security,
        Self::Mounts,
        Self::Platform,
        Self::Cgroups,
        Self::Bootstrap,
        Self::Sync,
        Self::Configuration,
        Self::Shutdown,
        Self::Program,
    ];

    /// The name as printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Mounts => "mounts",
            Self::Platform => "platform",
            Self::Cgroups => "cgroups",
            Self::Bootstrap => "bootstrap",
            Self::Sync => "sync",
            Self::Configuration => "configuration",
            Self::Shutdown => "shutdown",
            Self::Program => "program",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
