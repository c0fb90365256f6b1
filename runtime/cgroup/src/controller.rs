//! The controllers of cgroup v1, and sets of controllers.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A controller of cgroup v1, or the hierarchy `name=systemd`, which has no controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Controller {
    /// Limits processes to certain CPUs and memory nodes.
    Cpuset,
    /// Restricts access to devices.
    Devices,
    /// Limits memory and swap.
    Memory,
    /// Distributes and limits CPU time.
    Cpu,
    /// Counts CPU time.
    Cpuacct,
    /// Limits the number of tasks.
    Pids,
    /// Limits I/O of block devices.
    Blkio,
    /// Limits huge pages.
    Hugetlb,
    /// Marks network packets with a class.
    NetCls,
    /// Sets the priority of network packets.
    NetPrio,
    /// Restricts perf events to the cgroup's processes.
    PerfEvent,
    /// Freezes processes.
    Freezer,
    /// Limits RDMA resources.
    Rdma,
    /// Limits miscellaneous scalar resources.
    Misc,
    /// The named hierarchy `name=systemd`.
    Systemd,
}

impl Controller {
    /// All controllers with their names in `/proc/self/cgroup`, in the order of the variants.
    const ALL: [(Self, &str); 15] = [
        (Self::Cpuset, "cpuset"),
        (Self::Devices, "devices"),
        (Self::Memory, "memory"),
        (Self::Cpu, "cpu"),
        (Self::Cpuacct, "cpuacct"),
        (Self::Pids, "pids"),
        (Self::Blkio, "blkio"),
        (Self::Hugetlb, "hugetlb"),
        (Self::NetCls, "net_cls"),
        (Self::NetPrio, "net_prio"),
        (Self::PerfEvent, "perf_event"),
        (Self::Freezer, "freezer"),
        (Self::Rdma, "rdma"),
        (Self::Misc, "misc"),
        (Self::Systemd, "name=systemd"),
    ];

    /// The controller's name in `/proc/self/cgroup` and in the names of hierarchies.
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Returns the controller with this name. systemd's named hierarchy is mounted at `systemd`.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "systemd" { "name=systemd" } else { name };
        Self::ALL.into_iter().find(|(_, other)| *other == name).map(|(controller, _)| controller)
    }
}

/// A set of [`Controller`]s, for example those of one hierarchy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Controllers(u16);

impl Controllers {
    /// Parses a list such as `cpu,cpuacct`; unknown names are ignored.
    pub fn from_list(list: &str) -> Self {
        list.split(',').filter_map(Controller::from_name).collect()
    }

    /// Returns whether `controller` is in the set.
    pub const fn contains(self, controller: Controller) -> bool {
        self.0 & (1 << controller as u8) != 0
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the controllers in the order of [`Controller::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Controller> {
        let all = Controller::ALL.into_iter().map(|(controller, _)| controller);
        all.filter(move |controller| self.contains(*controller))
    }

    /// Returns whether the set contains only controllers that a container does not need, because they merely track
    /// processes or count resources.
    pub fn is_optional(self) -> bool {
        self.iter().all(|c| matches!(c, Controller::Systemd | Controller::Misc))
    }
}

impl FromIterator<Controller> for Controllers {
    fn from_iter<I: IntoIterator<Item = Controller>>(controllers: I) -> Self {
        Self(controllers.into_iter().fold(0, |set, controller| set | 1 << controller as u8))
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, controller) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", controller.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hierarchies() {
        let set = Controllers::from_list("cpuacct,cpu,bogus");
        assert!(set.contains(Controller::Cpu) && set.contains(Controller::Cpuacct));
        assert!(!set.contains(Controller::Memory));
        assert_eq!(set.to_string(), "cpu,cpuacct");
        assert_eq!(Controllers::from_list("systemd").to_string(), "name=systemd");
        assert!(Controllers::from_list("systemd").is_optional());
        assert!(Controllers::from_list("unified").is_empty());
    }

    #[test]
    fn order_of_all_is_that_of_the_variants() {
        assert!(Controller::ALL.is_sorted_by_key(|(controller, _)| *controller));
    }
}
