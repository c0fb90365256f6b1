//! favordynmods: whether cgroups favour changes of their members over forks and exits.
//!
//! Moving a process to another cgroup takes `cgroup_threadgroup_rwsem` for writing. By default the first
//! such move after a quiet time waits for an RCU grace period; with the option it does not, and forks and
//! exits pay a little instead (Linux 6.0). It is one switch for all hierarchies, a property of the cgroup2
//! root or, on v1, of the boot. From Linux 6.18 on, once on, each process has a lock of its own, and that
//! stays so until the next boot.

mod burst;
mod persist;
mod switch;

pub use burst::auto;
pub use persist::{persist, unpersist};
pub use switch::{off, on, status};

use super::facts::Facts;
use super::layout::{Layout, Mode};
use serde::Serialize;

/// The kernel parameter that has it on from boot.
pub const BOOT_PARAMETER: &str = "cgroup_favordynmods=true";

/// The mount option, and the name in /sys/kernel/cgroup/features.
pub const OPTION: &str = "favordynmods";

/// What a host says of the option.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether the kernel has it (Linux 6.0, or /sys/kernel/cgroup/features).
    pub known: bool,
    /// Whether the cgroup2 root shows it among its mount options; nothing where no cgroup2 is mounted.
    pub mounted: Option<bool>,
    /// How the boot parameter is set, if it is.
    pub boot: Option<bool>,
    /// How CONFIG_CGROUP_FAVOR_DYNMODS is set; nothing where the configuration is not to be had.
    pub built: Option<bool>,
    /// Whether turning it on can't be taken back before the next boot.
    pub one_way: bool,
    /// Whether it is applied at boot: by the unit of `persist`, or by the boot parameter.
    pub persistent: Option<&'static str>,
}

impl State {
    /// Reads it.
    #[must_use]
    pub fn of(facts: &Facts, layout: &Layout) -> Self {
        let features = facts.text("/sys/kernel/cgroup/features").unwrap_or_default();
        let boot = facts.boot_parameter("cgroup_favordynmods").map(|value| is_true(&value));
        let persistent = match boot {
            Some(true) => Some("boot parameter"),
            _ if persist::is_there(facts) => Some("systemd unit"),
            _ => None,
        };
        Self {
            known: features.split_whitespace().any(|word| word == OPTION) || facts.since(6, 0),
            mounted: layout.mount.as_ref().map(|mount| mount.has_super_option(OPTION)),
            boot,
            built: facts.built_with("CONFIG_CGROUP_FAVOR_DYNMODS").map(|value| value == "y"),
            one_way: facts.since(6, 18),
            persistent,
        }
    }

    /// Whether it is on. Without a cgroup2 to look at, boot and build decide.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let by_default = self.boot.unwrap_or(self.built == Some(true));
        self.known && self.mounted.unwrap_or(by_default)
    }

    /// Whether a new mount of cgroup2 has it without being told.
    #[must_use]
    pub fn by_default(&self) -> bool {
        self.boot.unwrap_or(self.built == Some(true))
    }
}

/// kstrtobool of the kernel.
fn is_true(value: &str) -> bool {
    matches!(value.as_bytes(), [b'y' | b'Y' | b't' | b'T' | b'1', ..])
        || value.eq_ignore_ascii_case("on")
}

/// Why it can't be switched in this layout, and what can be done instead.
fn refusal(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::V2 => None,
        Mode::V1 => Some(
            "the cgroups here are v1: the option belongs to the root of cgroup2 and v1 can't be remounted with it",
        ),
        Mode::Hybrid => Some(
            "the cgroups here are hybrid: containers are in v1 hierarchies, which can't be remounted with the option",
        ),
        Mode::None => Some("no cgroup hierarchy is mounted on /sys/fs/cgroup"),
    }
}
