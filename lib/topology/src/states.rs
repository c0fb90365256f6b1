//! Which CPUs of a host are online, offline, isolated.

use alloc::format;

use crate::read::{list, required_list};
use crate::{Error, List};

/// What `/sys/devices/system/cpu` says of CPUs as a whole (Documentation/ABI/testing/sysfs-devices-system-cpu).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct States {
    /// Those that are plugged in.
    pub present: List,
    /// Those that run.
    pub online: List,
    /// Those that are plugged in and do not run.
    pub offline: List,
    /// Those that the scheduler places nothing on by itself (`isolcpus=`, isolated cpuset partitions), offline ones among
    /// them.
    pub isolated: List,
}

impl States {
    /// Reads them below `root`, which is empty for this host. Without a file `present` those online are all there are.
    ///
    /// # Errors
    /// Failing system calls, a missing file `online` among them; [`Error::Unreadable`].
    pub fn read(root: &str) -> Result<Self, Error> {
        let cpus = format!("{}/sys/devices/system/cpu", root.trim_end_matches('/'));
        let online = required_list(&format!("{cpus}/online"))?;
        let present = list(&format!("{cpus}/present"))?.unwrap_or_default().union(&online);
        let offline = present.without(&online);
        let isolated = list(&format!("{cpus}/isolated"))?.unwrap_or_default();
        Ok(Self { present, online, offline, isolated })
    }
}
