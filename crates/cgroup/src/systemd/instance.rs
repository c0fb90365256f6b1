//! Whose systemd it is.

use alloc::format;
use alloc::string::{String, ToString};
use serde::{Deserialize, Serialize};

use super::manager::Manager;
use crate::dbus::address_of;
use crate::location::clean;
use crate::{Error, Host};

/// An instance of systemd. Records of containers have it: what is there keeps its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instance {
    /// The host's, at the usual place.
    System,
    /// The host's, where DBUS_SYSTEM_BUS_ADDRESS says.
    SystemAt(String),
    /// A user's own (`systemd --user`).
    User {
        /// The address of its bus.
        bus: String,
        /// Its cgroup, below which its slices are; empty for the root.
        cgroup: String,
    },
}

impl Instance {
    /// The host's, with DBUS_SYSTEM_BUS_ADDRESS.
    pub fn system(bus: Option<&str>) -> Self {
        match bus.filter(|bus| !bus.is_empty()) {
            None => Self::System,
            Some(bus) => Self::SystemAt(bus.to_string()),
        }
    }

    /// That of the user whose DBUS_SESSION_BUS_ADDRESS and XDG_RUNTIME_DIR these are. It is asked for its
    /// cgroup.
    ///
    /// # Errors
    /// [`Error::UserOnV1`]; [`Error::NoUserBus`] if neither leads to a bus; [`Error::Systemd`];
    /// [`Error::BadPath`] if its cgroup is none.
    pub fn of_user(
        host: &Host,
        bus: Option<&str>,
        runtime_dir: Option<&str>,
    ) -> Result<Self, Error> {
        if !host.is_unified() {
            return Err(Error::UserOnV1);
        }
        let bus = match bus.filter(|bus| !bus.is_empty()) {
            Some(bus) => bus.to_string(),
            None => bus_in(runtime_dir.filter(|directory| !directory.is_empty()))?,
        };
        let mut instance = Self::User { bus, cgroup: String::new() };
        let found = Manager::of(&instance)?.cgroup()?;
        if let Self::User { cgroup, .. } = &mut instance
            && found != "/"
        {
            *cgroup = clean(&found)?;
        }
        Ok(instance)
    }

    /// Whether it is a user's own.
    pub fn is_user(&self) -> bool {
        matches!(self, Self::User { .. })
    }

    /// The slice of containers whose configuration names none.
    pub(super) fn default_slice(&self) -> &'static str {
        if self.is_user() { "user.slice" } else { "system.slice" }
    }
}

/// The address of the bus in a user's XDG_RUNTIME_DIR.
fn bus_in(directory: Option<&str>) -> Result<String, Error> {
    let path = directory.map(|directory| format!("{directory}/bus"));
    match path {
        Some(path) if rustix::fs::stat(path.as_str()).is_ok() => Ok(address_of(&path)),
        path => Err(Error::NoUserBus { path }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unified() -> Host {
        let root = "/sys/fs/cgroup".to_string();
        Host { unified: Some(root.clone()), root, legacy: Vec::new() }
    }

    #[test]
    fn a_user_without_a_bus_is_told() {
        for (directory, text) in [(None, "XDG_RUNTIME_DIR"), (Some("/no/such"), "/no/such/bus")] {
            let error = Instance::of_user(&unified(), None, directory).unwrap_err().to_string();
            assert!(error.contains("DBUS_SESSION_BUS_ADDRESS") && error.contains(text), "{error}");
        }
        let error =
            Instance::of_user(&unified(), Some("unix:path=/no/such/bus"), None).unwrap_err();
        assert!(error.to_string().contains("connect to D-Bus at /no/such/bus"), "{error}");
    }

    /// Records of before there were users' instances have an address or none.
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
