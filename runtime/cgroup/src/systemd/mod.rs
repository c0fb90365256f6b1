//! Requests to systemd's manager over D-Bus, which start, change and stop transient scopes.
//!
//! systemd creates the cgroup `PREFIX-NAME.scope` of a scope in a slice, and leaves the management of its subtree to
//! dayfly (`Delegate=`). A [`Unit`] describes the scope of a container and its cgroup, an [`Instance`] is the systemd
//! that manages the scope, and a [`Manager`] sends the requests. This module does not access cgroup files or compute
//! limits; the caller passes limits as [`Property`]s.
//!
//! Names and defaults are those of runc's systemd driver, because engines expect them.

mod annotation;
pub mod dbus;
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
