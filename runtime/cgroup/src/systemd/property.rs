//! Properties of units.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::systemd::{Unit, Value};

/// A property of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    /// The property's D-Bus name, such as `CPUQuotaPerSecUSec`.
    pub name: String,
    /// The property's value; on the bus it is wrapped in a variant.
    pub value: Value,
}

impl Property {
    /// Returns a property of any type.
    pub fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_string(), value }
    }

    /// Returns a property of the D-Bus type `t` (64-bit unsigned).
    pub fn number(name: &str, value: u64) -> Self {
        Self::new(name, Value::Uint64(value))
    }
}

/// Returns the properties of a container's scope that contains the process `pid`; `unified` is true if all controllers
/// are in the cgroup v2 hierarchy.
pub fn of_scope(unit: &Unit, pid: u32, unified: bool) -> Vec<Property> {
    let io = if unified { "IOAccounting" } else { "BlockIOAccounting" };
    let mut properties = vec![
        Property::new("Description", Value::String(format!("container {}", unit.name))),
        Property::new("Slice", Value::text(&unit.slice)),
        Property::new("PIDs", Value::Array("u".to_string(), vec![Value::Uint32(pid)])),
        Property::new("Delegate", Value::Bool(true)),
        Property::new("DefaultDependencies", Value::Bool(false)),
        // systemd frees a scope that failed, too: older versions count an OOM kill, and all that the holder is killed.
        Property::new("CollectMode", Value::text("inactive-or-failed")),
    ];
    let accounting = ["MemoryAccounting", "CPUAccounting", io, "TasksAccounting"];
    properties.extend(accounting.map(|name| Property::new(name, Value::Bool(true))));
    properties
}
