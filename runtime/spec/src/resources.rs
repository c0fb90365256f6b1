//! `linux.resources`: limits of a container (config-linux.md, "Control groups").
//!
//! Every type parses JSON as engines write it: absent and `null` mean the same, and unknown properties are ignored.
//! Every type can also be written to and read from postcard, the format of the container record.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Deserializer, Serialize};

/// `linux.resources`. The default sets no limits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Device access rules; later rules override earlier ones.
    #[serde(deserialize_with = "null_as_default")]
    pub devices: Vec<DeviceRule>,
    /// Memory and swap.
    pub memory: Option<Memory>,
    /// CPU time and placement.
    pub cpu: Option<Cpu>,
    /// Number of tasks.
    pub pids: Option<Pids>,
    /// Block device bandwidth.
    #[serde(rename = "blockIO")]
    pub block_io: Option<BlockIo>,
    /// Huge pages, one entry for each page size.
    #[serde(deserialize_with = "null_as_default")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Network class and priorities; cgroup v1 only.
    pub network: Option<Network>,
    /// RDMA limits by device name.
    #[serde(deserialize_with = "null_as_default")]
    pub rdma: BTreeMap<String, Rdma>,
    /// cgroup v2 files by name, written unchanged.
    #[serde(deserialize_with = "null_as_default")]
    pub unified: BTreeMap<String, String>,
}

impl Resources {
    /// Returns whether there is a limit that requires a cgroup. Device rules do not count: they need not be enforced
    /// for a container that is in a user namespace and has no device nodes of its own.
    pub fn has_limits(&self) -> bool {
        fn some<T: Default + PartialEq>(limits: Option<&T>) -> bool {
            limits.is_some_and(|limits| *limits != T::default())
        }
        let Self {
            devices: _,
            memory,
            cpu,
            pids,
            block_io,
            hugepage_limits,
            network,
            rdma,
            unified,
        } = self;
        some(memory.as_ref())
            || some(cpu.as_ref())
            || some(pids.as_ref())
            || some(block_io.as_ref())
            || some(network.as_ref())
            || !hugepage_limits.is_empty()
            || !rdma.is_empty()
            || !unified.is_empty()
    }
}

/// One entry of `linux.resources.devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRule {
    /// Whether the access is allowed; if false, it is denied.
    #[serde(default)]
    pub allow: bool,
    /// The kind of device; all kinds if absent.
    #[serde(rename = "type", default, deserialize_with = "null_as_default")]
    pub kind: DeviceKind,
    /// Major number; absent or -1 matches every major number.
    #[serde(default)]
    pub major: Option<i64>,
    /// Minor number; absent or -1 matches every minor number.
    #[serde(default)]
    pub minor: Option<i64>,
    /// Any of `r`, `w` and `m` (mknod); must not be empty.
    #[serde(default, deserialize_with = "null_as_default")]
    pub access: String,
}

/// The type of device for a [`DeviceRule`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    /// `a`: character and block devices.
    #[default]
    #[serde(rename = "a", alias = "")]
    All,
    /// `b`: block devices.
    #[serde(rename = "b")]
    Block,
    /// `c`: character devices.
    #[serde(rename = "c")]
    Char,
}

/// `linux.resources.memory`. Sizes are bytes; -1 is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    /// Hard limit.
    pub limit: Option<i64>,
    /// Soft limit.
    pub reservation: Option<i64>,
    /// Limit of the sum of memory and swap.
    pub swap: Option<i64>,
    /// Kernel memory limit; v1 only, deprecated since Linux 5.4, without effect since Linux 5.16.
    pub kernel: Option<i64>,
    /// Kernel TCP buffer limit; deprecated, v1 only.
    #[serde(rename = "kernelTCP")]
    pub kernel_tcp: Option<i64>,
    /// Tendency to swap, 0 to 100; v1 only.
    pub swappiness: Option<u64>,
    /// Whether tasks are paused at the limit, instead of one of them being killed; v1 only.
    #[serde(rename = "disableOOMKiller")]
    pub disable_oom_killer: Option<bool>,
    /// Whether a cgroup's usage also counts in its parent; always true on v2, and on v1 since Linux 5.11.
    pub use_hierarchy: Option<bool>,
    /// Whether `update` refuses a limit below the current usage.
    pub check_before_update: Option<bool>,
}

/// `linux.resources.cpu`. Times are microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cpu {
    /// Relative weight, 2 to 262144.
    pub shares: Option<u64>,
    /// CPU time per period; -1 is unlimited.
    pub quota: Option<i64>,
    /// Unused quota that may be accumulated.
    pub burst: Option<u64>,
    /// Length of a period.
    pub period: Option<u64>,
    /// Realtime CPU time per realtime period; v1 only.
    pub realtime_runtime: Option<i64>,
    /// Length of a realtime period; v1 only.
    pub realtime_period: Option<u64>,
    /// CPUs as a list such as `0-3,7`; if empty, the parent cgroup's CPUs are inherited.
    #[serde(deserialize_with = "null_as_default")]
    pub cpus: String,
    /// Memory nodes as a list; if empty, the parent cgroup's nodes are inherited.
    #[serde(deserialize_with = "null_as_default")]
    pub mems: String,
    /// 1 gives the cgroup the policy SCHED_IDLE (Linux 5.15).
    pub idle: Option<i64>,
}

/// `linux.resources.pids`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pids {
    /// Maximum number of tasks; -1 is unlimited.
    pub limit: Option<i64>,
}

/// `linux.resources.blockIO`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BlockIo {
    /// Relative weight, 10 to 1000.
    pub weight: Option<u16>,
    /// Weight of the tasks in the cgroup itself against its child cgroups, 10 to 1000; v1 only.
    pub leaf_weight: Option<u16>,
    /// Weights of single devices.
    #[serde(deserialize_with = "null_as_default")]
    pub weight_device: Vec<WeightDevice>,
    /// Bytes read per second.
    #[serde(deserialize_with = "null_as_default")]
    pub throttle_read_bps_device: Vec<ThrottleDevice>,
    /// Bytes written per second.
    #[serde(deserialize_with = "null_as_default")]
    pub throttle_write_bps_device: Vec<ThrottleDevice>,
    /// Reads per second.
    #[serde(rename = "throttleReadIOPSDevice", deserialize_with = "null_as_default")]
    pub throttle_read_iops_device: Vec<ThrottleDevice>,
    /// Writes per second.
    #[serde(rename = "throttleWriteIOPSDevice", deserialize_with = "null_as_default")]
    pub throttle_write_iops_device: Vec<ThrottleDevice>,
}

/// A block device's own weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightDevice {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Relative weight, 10 to 1000.
    #[serde(default)]
    pub weight: Option<u16>,
    /// Weight of the tasks in the cgroup itself against its child cgroups, 10 to 1000; v1 only.
    #[serde(default)]
    pub leaf_weight: Option<u16>,
}

/// A block device's rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleDevice {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Bytes or operations per second; 0 is unlimited.
    pub rate: u64,
}

/// One entry of `linux.resources.hugepageLimits`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HugepageLimit {
    /// Page size in the kernel's format, such as `2MB`.
    pub page_size: String,
    /// The limit in bytes.
    pub limit: u64,
}

/// `linux.resources.network`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Class of outgoing packets (net_cls).
    #[serde(rename = "classID")]
    pub class_id: Option<u32>,
    /// Priorities of interfaces (net_prio).
    #[serde(deserialize_with = "null_as_default")]
    pub priorities: Vec<InterfacePriority>,
}

/// The priority of one network interface's traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfacePriority {
    /// Interface name.
    pub name: String,
    /// Priority; traffic with a higher number is sent first.
    pub priority: u32,
}

/// RDMA limits of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rdma {
    /// Maximum HCA handles.
    pub hca_handles: Option<u32>,
    /// Maximum HCA objects.
    pub hca_objects: Option<u32>,
}

/// Deserializes a value; JSON `null` gives the default. Formats that are not self-describing, such as postcard, do not
/// have `null`.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    if deserializer.is_human_readable() {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    } else {
        T::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_engines_write() {
        let json = r#"{
            "devices": [{"allow": false, "access": "rwm"},
                        {"allow": true, "type": "c", "major": 10, "minor": -1, "access": "rw"}],
            "memory": {"limit": 1024, "swap": -1, "kernelTCP": 5, "disableOOMKiller": true},
            "cpu": {"shares": 1024, "realtimeRuntime": 1, "cpus": "0-1"},
            "pids": {"limit": 10},
            "blockIO": {"weight": 100, "throttleReadIOPSDevice": [{"major": 8, "minor": 0, "rate": 7}]},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 9223372036854772000}],
            "network": {"classID": 1048577, "priorities": [{"name": "eth0", "priority": 500}]},
            "rdma": {"mlx5_1": {"hcaHandles": 3}},
            "unified": {"memory.high": "1"},
            "futureThing": {}
        }"#;
        let resources: Resources = serde_json::from_str(json).unwrap();
        assert_eq!(resources.devices[0].kind, DeviceKind::All);
        assert_eq!(resources.devices[1].kind, DeviceKind::Char);
        let memory = resources.memory.as_ref().unwrap();
        assert_eq!((memory.limit, memory.swap, memory.kernel_tcp), (Some(1024), Some(-1), Some(5)));
        assert_eq!(resources.cpu.as_ref().unwrap().cpus, "0-1");
        assert_eq!(resources.block_io.as_ref().unwrap().throttle_read_iops_device[0].rate, 7);
        assert_eq!(resources.network.as_ref().unwrap().class_id, Some(1_048_577));
        assert_eq!(resources.rdma["mlx5_1"].hca_handles, Some(3));
        let again = serde_json::to_string(&resources).unwrap();
        assert_eq!(serde_json::from_str::<Resources>(&again).unwrap(), resources);
    }

    #[test]
    fn null_is_absent() {
        let json = r#"{"devices": null, "memory": null, "unified": null, "cpu": {"mems": null}}"#;
        let resources: Resources = serde_json::from_str(json).unwrap();
        assert_eq!(resources, Resources { cpu: Some(Cpu::default()), ..Resources::default() });
    }

    #[test]
    fn unknown_device_kind_is_an_error() {
        let json = r#"{"devices": [{"allow": true, "type": "x", "access": "r"}]}"#;
        assert!(serde_json::from_str::<Resources>(json).is_err());
    }
}
