//! systemd's manager: transient scopes, started, changed and stopped over D-Bus.
//!
//! systemd creates the cgroup of a scope as `PREFIX-NAME.scope` in a slice, and leaves its subtree to us (`Delegate=`).
//! [`Unit`] names the scope of a container and its cgroup, [`Instance`] the systemd that manages it, and [`Manager`]
//! sends the requests. This crate does not access cgroup files or compute limits; those are passed as [`Property`]s.
//!
//! Names and defaults follow runc's systemd driver, so that engines find what they expect.
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
