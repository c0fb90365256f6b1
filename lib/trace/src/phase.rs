//! Phases: the purposes for which time is spent.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The purpose of a span: a phase of the runtime, including shutdown, or the execution of the container's own program,
/// which is not work of the runtime.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Capabilities, user, seccomp, masks, keyring.
    Security,
    /// Attaching and changing mounts.
    Mounts,
    /// Namespaces, hostname, sysctl, console, network.
    Platform,
    /// cgroup directories, limits, moving processes into cgroups.
    Cgroups,
    /// Process creation, exec, hooks.
    Bootstrap,
    /// Sending messages between processes. Waiting for a message is not work, and is reported separately.
    Sync,
    /// Reading, compiling, writing records.
    #[default]
    Configuration,
    /// Everything from the container's exit until it is removed.
    Shutdown,
    /// The container's program.
    Program,
}

impl Phase {
    /// All phases, in display order.
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

    /// Returns the name as printed.
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
