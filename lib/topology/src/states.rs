//! Online, offline and isolated CPUs of a host.

use alloc::format;

use crate::read::{list, required_list};
use crate::{Error, List};

/// The CPU lists of `/sys/devices/system/cpu` (Documentation/ABI/testing/sysfs-devices-system-cpu).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct States {
    /// The CPUs that are physically present.
    pub present: List,
    /// The CPUs that are online.
    pub online: List,
    /// The CPUs that are physically present but not online.
    pub offline: List,
    /// The CPUs to which the scheduler does not move tasks by itself (`isolcpus=`, isolated cpuset partitions),
    /// including offline CPUs.
    pub isolated: List,
}

impl States {
    /// Reads the states from sysfs below `root`; an empty `root` means this host. If the file `present` does not exist,
    /// only the online CPUs count as present.
    ///
    /// # Errors
    /// If a system call fails, such as open(2) if the file `online` does not exist; [`Error::Unreadable`].
    pub fn read(root: &str) -> Result<Self, Error> {
        let cpus = format!("{}/sys/devices/system/cpu", root.trim_end_matches('/'));
        let online = required_list(&format!("{cpus}/online"))?;
        let present = list(&format!("{cpus}/present"))?.unwrap_or_default().union(&online);
        let offline = present.without(&online);
        let isolated = list(&format!("{cpus}/isolated"))?.unwrap_or_default();
        Ok(Self { present, online, offline, isolated })
    }
}
