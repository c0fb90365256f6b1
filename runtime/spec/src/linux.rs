//! The `linux` object.
//!
//! Source: runtime-spec 1.3, config-linux.md.
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::Value;

use crate::in_root::InRoot;
use crate::kinds::{DeviceKind, NamespaceKind};
use crate::object::{object, value_or_null};
use crate::profile_text::ProfileText;
use crate::resources::Resources;
use crate::text::{Str, drop_if_empty};

object! {
    /// The Linux part of the configuration (`linux`).
    pub struct Linux<'a> {
        /// User id mappings of the user namespace.
        pub uid_mappings: Vec<IdMapping>,
        /// Group id mappings of the user namespace.
        pub gid_mappings: Vec<IdMapping>,
        /// Kernel parameters by name, sorted.
        pub sysctl: BTreeMap<Str<'a>, Str<'a>>,
        /// cgroup limits.
        #[serde(serialize_with = "write_resources")]
        pub resources: Option<Box<Resources>>,
        /// Path in the cgroup tree; its format depends on the cgroup manager.
        pub cgroups_path: Option<Str<'a>>,
        /// Namespaces to create or to join.
        pub namespaces: Vec<Namespace<'a>>,
        /// Device nodes besides the default ones.
        pub devices: Vec<Device<'a>>,
        /// Host network devices to move into the container, by name.
        pub net_devices: BTreeMap<Str<'a>, NetDevice<'a>>,
        /// The unparsed seccomp profile. It is by far the largest part of a configuration, and is parsed only if no
        /// compiled form of the profile is cached.
        pub seccomp: Option<ProfileText<'a>>,
        /// Propagation of the root mount, see
        /// [`Propagation::parse`](crate::mount_options::Propagation::parse).
        pub rootfs_propagation: Option<Str<'a>>,
        /// Paths whose contents are hidden from the container.
        pub masked_paths: Vec<InRoot<'a>>,
        /// Paths that the container cannot write to.
        pub readonly_paths: Vec<InRoot<'a>>,
        /// SELinux label of the mounts.
        pub mount_label: Option<Str<'a>>,
        /// Intel Resource Director Technology.
        pub intel_rdt: Option<IntelRdt<'a>>,
        /// NUMA policy, set_mempolicy(2).
        pub memory_policy: Option<MemoryPolicy<'a>>,
        /// Execution domain, personality(2).
        pub personality: Option<Personality<'a>>,
        /// Clock offsets of the time namespace by clock name.
        pub time_offsets: BTreeMap<Str<'a>, TimeOffset>,
    }
}

object! {
    /// A range of ids of a user namespace or an idmapped mount.
    #[derive(Copy, PartialEq, Eq)]
    pub struct IdMapping {
        /// First id inside the user namespace.
        #[serde(rename = "containerID")]
        pub container_id: u32,
        /// First id on the host.
        #[serde(rename = "hostID")]
        pub host_id: u32,
        /// Number of ids.
        pub size: u32,
    }
}

impl IdMapping {
    /// Returns the text of a uid_map or gid_map with these mappings.
    pub fn text(mappings: &[Self]) -> String {
        let mut text = String::new();
        for Self { container_id, host_id, size } in mappings {
            let _ = writeln!(text, "{container_id} {host_id} {size}");
        }
        text
    }
}

/// A namespace to create or, if it has a `path`, to join.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Namespace<'a> {
    /// The type.
    #[serde(rename = "type")]
    pub kind: NamespaceKind,
    /// The path of an existing namespace of this type.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Str<'a>>,
}

/// A device node for the container.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device<'a> {
    /// The type of node.
    #[serde(rename = "type")]
    pub kind: DeviceKind,
    /// Full path inside the container.
    #[serde(borrow)]
    pub path: InRoot<'a>,
    /// Major number; 0 for a FIFO.
    #[serde(default, deserialize_with = "value_or_null")]
    pub major: i64,
    /// Minor number; 0 for a FIFO.
    #[serde(default, deserialize_with = "value_or_null")]
    pub minor: i64,
    /// Mode of the node; engines include the file type bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Owner inside the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group inside the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

object! {
    /// The settings of a host network device.
    pub struct NetDevice<'a> {
        /// The device's name inside the container, if different from the name on the host.
        pub name: Option<Str<'a>>,
    }
}

object! {
    /// Intel Resource Director Technology (`linux.intelRdt`).
    pub struct IntelRdt<'a> {
        /// Name of the class of service.
        #[serde(rename = "closID")]
        pub clos_id: Option<Str<'a>>,
        /// Lines for the schemata file.
        pub schemata: Vec<Str<'a>>,
        /// Schemata line with the mask of the level 3 cache.
        pub l3_cache_schema: Option<Str<'a>>,
        /// Schemata line with the memory bandwidth.
        pub mem_bw_schema: Option<Str<'a>>,
        /// Whether to create a monitoring group.
        pub enable_monitoring: bool,
    }
}

object! {
    /// NUMA memory policy (`linux.memoryPolicy`), set_mempolicy(2).
    pub struct MemoryPolicy<'a> {
        /// `MPOL_BIND`, `MPOL_INTERLEAVE`, …
        pub mode: Str<'a>,
        /// Node list such as `0-1,3`.
        pub nodes: Str<'a>,
        /// `MPOL_F_…`.
        pub flags: Vec<Str<'a>>,
    }
}

object! {
    /// Execution domain (`linux.personality`), personality(2).
    pub struct Personality<'a> {
        /// `LINUX` or `LINUX32`.
        pub domain: Str<'a>,
        /// Flags of the execution domain; the specification defines none, so any flag is refused.
        pub flags: Vec<Str<'a>>,
    }
}

object! {
    /// Offset of a clock in a time namespace, time_namespaces(7).
    pub struct TimeOffset {
        /// Seconds.
        pub secs: i64,
        /// Nanoseconds.
        pub nanosecs: u32,
    }
}

/// Serializes limits without absent values. The default serialization of these types includes absent values, because
/// the container record stores the limits in a format without field names.
fn write_resources<S: Serializer>(
    resources: &Option<Box<Resources>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut value = serde_json::to_value(resources).map_err(S::Error::custom)?;
    drop_absent(&mut value);
    value.serialize(serializer)
}

fn drop_absent(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(drop_absent),
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_absent);
            fields.retain(|_, value| !is_absent(value));
        }
        _ => {}
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

impl<'a> Linux<'a> {
    /// Returns the entry for a type of namespace, if the container has one.
    pub fn namespace(&self, kind: NamespaceKind) -> Option<&Namespace<'a>> {
        self.namespaces.iter().find(|namespace| namespace.kind == kind)
    }

    /// Replaces empty strings by `None`, like `Spec::drop_empty`.
    pub(crate) fn drop_empty(&mut self) {
        drop_if_empty(&mut self.cgroups_path);
        drop_if_empty(&mut self.rootfs_propagation);
        drop_if_empty(&mut self.mount_label);
        for namespace in &mut self.namespaces {
            drop_if_empty(&mut namespace.path);
        }
        for device in self.net_devices.values_mut() {
            drop_if_empty(&mut device.name);
        }
        if let Some(rdt) = &mut self.intel_rdt {
            drop_if_empty(&mut rdt.clos_id);
            drop_if_empty(&mut rdt.l3_cache_schema);
            drop_if_empty(&mut rdt.mem_bw_schema);
        }
    }
}
