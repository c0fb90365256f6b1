//! favordynmods: whether the kernel favours moves between cgroups over forks and exits.
//!
//! Moving a process to another cgroup takes `cgroup_threadgroup_rwsem` for writing. By default, the first such move
//! after a quiet period waits for an RCU grace period. With favordynmods it does not wait, but forks and exits become
//! slightly slower (Linux 6.0). The option applies to all hierarchies, whichever one has it: the cgroup2 root by a
//! remount, or a v1 hierarchy when it is made. v1 hierarchies can't be remounted with it, but a new one without
//! controllers can be mounted beside them (kernel/cgroup/cgroup-v1.c: `cgroup1_root_to_use`), and be unmounted again. Since Linux 6.18, each process has a lock of its own from the time when the option is first turned on until
//! the next boot.

mod burst;
mod persist;
mod switch;

pub use burst::auto;
pub use persist::{persist, unpersist};
pub use switch::{off, on, status};

use super::facts::{Facts, Mount, mounts};
use super::layout::{Layout, Mode};
use serde::Serialize;

/// The kernel parameter that turns the option on at boot.
pub const BOOT_PARAMETER: &str = "cgroup_favordynmods=true";

/// The mount option, and the name in /sys/kernel/cgroup/features.
pub const OPTION: &str = "favordynmods";

/// The state of the option on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether the kernel supports the option (Linux 6.0, or /sys/kernel/cgroup/features).
    pub known: bool,
    /// Whether a hierarchy has the mount option; `None` if none is mounted.
    pub mounted: Option<bool>,
    /// The value of the boot parameter, if given.
    pub boot: Option<bool>,
    /// The value of CONFIG_CGROUP_FAVOR_DYNMODS; `None` if the configuration is not available.
    pub built: Option<bool>,
    /// Whether the option, once turned on, stays in effect until the next boot.
    pub one_way: bool,
    /// The mechanism that turns the option on at boot: the unit of `persist`, or the boot
    /// parameter.
    pub persistent: Option<&'static str>,
}

impl State {
    /// Reads the option's state on a host.
    pub fn of(facts: &Facts, layout: &Layout) -> Self {
        let features = facts.text("/sys/kernel/cgroup/features").unwrap_or_default();
        let boot = facts.boot_parameter("cgroup_favordynmods").map(|value| is_true(&value));
        let persistent = match boot {
            Some(true) => Some("boot parameter"),
            _ if persist::is_there(facts) => Some("systemd unit"),
            _ => None,
        };
        let table = mounts(&facts.text("/proc/self/mountinfo").unwrap_or_default());
        let has = |it: &Mount| it.kind.starts_with("cgroup") && it.has_super_option(OPTION);
        Self {
            known: features.split_whitespace().any(|word| word == OPTION) || facts.since(6, 0),
            mounted: (layout.mode() != Mode::None).then(|| table.iter().any(has)),
            boot,
            built: facts.built_with("CONFIG_CGROUP_FAVOR_DYNMODS").map(|value| value == "y"),
            one_way: facts.since(6, 18),
            persistent,
        }
    }

    /// Returns whether the option is on. Without a mount, the boot parameter and the build decide.
    pub fn is_on(&self) -> bool {
        self.known && self.mounted.unwrap_or_else(|| self.by_default())
    }

    /// Returns whether cgroup2 has the option when it is newly mounted.
    pub fn by_default(&self) -> bool {
        self.boot.unwrap_or(self.built == Some(true))
    }
}

/// Parses a boolean as the kernel's kstrtobool() does.
fn is_true(value: &str) -> bool {
    matches!(value.as_bytes(), [b'y' | b'Y' | b't' | b'T' | b'1', ..])
        || value.eq_ignore_ascii_case("on")
}

/// The way to switch the option in a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way<'a> {
    /// To remount the root of cgroup2, which is mounted here.
    Remount(&'a str),
    /// To mount a v1 hierarchy without controllers at [`HIERARCHY`], and to unmount it.
    Hierarchy,
}

/// The mount point of the v1 hierarchy that has the option, and its name.
const HIERARCHY: &str = "/run/dayfly-favordynmods.cgroup";
const HIERARCHY_OPTIONS: &str = "none,name=dayfly-favordynmods,favordynmods";

impl<'a> Way<'a> {
    /// Returns the way; `None` if no hierarchy is mounted.
    fn of(layout: &'a Layout) -> Option<Self> {
        match (layout.mode(), &layout.unified) {
            (Mode::V1, _) => Some(Self::Hierarchy),
            (_, Some(root)) => Some(Self::Remount(root)),
            (_, None) => None,
        }
    }
}
