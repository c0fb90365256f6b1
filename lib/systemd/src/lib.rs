//! systemd's manager: units as transient scopes, made, changed and stopped over D-Bus.
//!
//! systemd makes the cgroup of a scope, knows it as `PREFIX-NAME.scope` in a slice, and leaves what is below it
//! to us (`Delegate=`). [`Unit`] says which scope a container is and where its cgroup lies, [`Instance`] whose
//! systemd has it, [`Manager`] asks that for things. Nothing here knows of cgroups' files, or of limits:
//! those come as [`Property`]s.
//!
//! The rules are those of runc's manager, so that engines find what they look for.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod annotation;
mod error;
mod instance;
mod manager;
mod property;
mod unit;

pub use annotation::annotated;
pub use dbus::Value;
pub use error::Error;
pub use instance::{Instance, host_owner};
pub use manager::Manager;
pub use property::{Property, of_scope};
pub use unit::Unit;
