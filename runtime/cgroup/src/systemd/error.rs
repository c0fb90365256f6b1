//! Errors of requests to systemd.

use alloc::format;
use alloc::string::String;

use crate::systemd::dbus;

/// The reason why a request to systemd failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// systemd is not the init system of this host.
    #[error(
        "systemd not running on this host, cannot use systemd cgroups manager: there is no /run/systemd/system"
    )]
    Absent,
    /// The bus of a user's systemd was not found.
    #[error(
        "could not detect DBUS_SESSION_BUS_ADDRESS from the environment, and {}: install the package dbus-user-session \
         and log in again (not by su or sudo), or use --cgroup-manager cgroupfs in a delegated cgroup",
        no_bus(.0)
    )]
    NoUserBus(Option<String>),
    /// `linux.cgroupsPath` does not describe a valid unit.
    #[error("invalid cgroup path {path:?}: {reason}")]
    BadPath {
        /// The path as given.
        path: String,
        /// The reason why the path is not valid.
        reason: &'static str,
    },
    /// A call failed.
    #[error("systemd: {call} {unit}: {cause}{}", hint(cause))]
    Call {
        /// The name of the call.
        call: &'static str,
        /// The unit, or the instance of systemd, that the call concerned.
        unit: String,
        /// The D-Bus error.
        #[source]
        cause: dbus::Error,
    },
    /// A unit failed to start.
    #[error("error creating systemd unit `{unit}`: got `{result}`; see `journalctl -u {unit}`")]
    Job {
        /// The unit.
        unit: String,
        /// The job's result: `failed`, `timeout`, `dependency`, …
        result: String,
    },
    /// An annotation `org.systemd.property.*` is invalid.
    #[error("annotation {annotation}: {reason}")]
    Annotation {
        /// The annotation's key and value.
        annotation: String,
        /// The reason why the annotation is not valid.
        reason: String,
    },
}

impl Error {
    /// Returns whether the call failed because systemd's bus is not running.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::Call { cause, .. } if cause.is_nobody())
    }
}

fn no_bus(path: &Option<String>) -> String {
    match path {
        Some(path) => format!("there is no {path}"),
        None => String::from("XDG_RUNTIME_DIR is not set, either"),
    }
}

fn hint(cause: &dbus::Error) -> &'static str {
    match cause {
        dbus::Error::Stalled { .. } => {
            ": D-Bus or systemd is stuck; `systemctl list-jobs` and `journalctl -b -u dbus` show \
             more (with --user for a user's instance)"
        }
        _ => "",
    }
}
