//! The instances of systemd: one for the host, and one for each user.
//!
//! A user's scopes are below the cgroup that the host's systemd has delegated to the user. Every caller but root uses
//! the user's instance. Root of a user namespace does so too, for example under rootless Podman, if /run/systemd/system
//! belongs to an owner outside of that namespace. The bus authenticates callers by the credentials that the kernel
//! reports, so no uid is sent.

use alloc::format;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

use crate::systemd::Error;
use crate::systemd::dbus::{Address, address_of};

/// An instance of systemd. Container records contain a value of this type, so the order of the variants must not
/// change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instance {
    /// The host's instance, at the default address.
    System,
    /// The host's instance, at the address in DBUS_SYSTEM_BUS_ADDRESS.
    SystemAt(String),
    /// The instance of a user (`systemd --user`).
    User {
        /// The address of the instance's bus.
        bus: String,
        /// The path of the instance's own cgroup, which contains its slices; empty for the root cgroup.
        cgroup: String,
    },
}

impl Instance {
    /// Returns the host's instance; `bus` is the value of DBUS_SYSTEM_BUS_ADDRESS.
    pub fn system(bus: Option<&str>) -> Self {
        match bus.filter(|bus| !bus.is_empty()) {
            None => Self::System,
            Some(bus) => Self::SystemAt(bus.to_string()),
        }
    }

    /// Returns the instance of the user whose environment has these values of DBUS_SESSION_BUS_ADDRESS and
    /// XDG_RUNTIME_DIR. The instance's cgroup is left empty; [`Manager::cgroup`](crate::systemd::Manager::cgroup) queries it.
    ///
    /// # Errors
    /// [`Error::NoUserBus`] if no bus is found by either variable.
    pub fn user(bus: Option<&str>, runtime_dir: Option<&str>) -> Result<Self, Error> {
        let bus = match bus.filter(|bus| !bus.is_empty()) {
            Some(bus) => bus.to_string(),
            None => bus_in(runtime_dir.filter(|directory| !directory.is_empty()))?,
        };
        Ok(Self::User { bus, cgroup: String::new() })
    }

    /// Returns whether this is a user's instance.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User { .. })
    }

    /// Returns the directory of the instance's files, if it is known. A user's is that of the bus: XDG_RUNTIME_DIR.
    pub(crate) fn directory(&self) -> Option<String> {
        match self {
            Self::System => Some("/run/systemd".to_string()),
            Self::SystemAt(_) => None,
            Self::User { bus, .. } => match Address::parse(bus) {
                Ok(Address::Path(path)) => Some(format!("{}/systemd", path.rsplit_once('/')?.0)),
                _ => None,
            },
        }
    }

    /// Returns the default slice of containers.
    pub(crate) fn default_slice(&self) -> &'static str {
        if self.is_user() { "user.slice" } else { "system.slice" }
    }
}

/// Returns the uid that owns this host's systemd directory (sd_booted(3)), as seen in the caller's user namespace. The
/// uid is 0 unless root is not mapped in that namespace.
///
/// # Errors
/// [`Error::Absent`] if systemd is not the init system of the host.
pub fn host_owner() -> Result<u32, Error> {
    match rustix::fs::lstat("/run/systemd/system") {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(stat.st_uid),
        _ => Err(Error::Absent),
    }
}

/// Returns the address of the bus in a user's XDG_RUNTIME_DIR.
fn bus_in(directory: Option<&str>) -> Result<String, Error> {
    let path = directory.map(|directory| format!("{directory}/bus"));
    match path {
        Some(path) if rustix::fs::stat(path.as_str()).is_ok() => Ok(address_of(&path)),
        path => Err(Error::NoUserBus(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of older versions, which did not support users' instances, contain an address or nothing here.
    #[test]
    fn former_records_are_read() {
        for (former, instance) in [
            (None, Instance::System),
            (Some("unix:path=/b"), Instance::SystemAt("unix:path=/b".into())),
        ] {
            let bytes = postcard::to_allocvec(&former).unwrap();
            assert_eq!(postcard::from_bytes::<Instance>(&bytes).unwrap(), instance);
        }
    }
}
