//! Errors of requests to systemd.

use alloc::string::String;
use core::fmt;

use crate::systemd::dbus;

/// The reason why a request to systemd failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// systemd is not the init system of this host.
    Absent,
    /// The bus of a user's systemd was not found.
    NoUserBus {
        /// The path at which the bus was expected; `None` if XDG_RUNTIME_DIR is not set.
        path: Option<String>,
    },
    /// `linux.cgroupsPath` does not describe a valid unit.
    BadPath {
        /// The path as given.
        path: String,
        /// The reason why the path is not valid.
        reason: &'static str,
    },
    /// A call failed.
    Call {
        /// The name of the call.
        call: &'static str,
        /// The unit, or the instance of systemd, that the call concerned.
        unit: String,
        /// The D-Bus error.
        cause: dbus::Error,
    },
    /// A unit failed to start.
    Job {
        /// The unit.
        unit: String,
        /// The job's result: `failed`, `timeout`, `dependency`, …
        result: String,
    },
    /// An annotation `org.systemd.property.*` is invalid.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str(
                "systemd not running on this host, cannot use systemd cgroups manager: there is no \
                 /run/systemd/system",
            ),
            Self::NoUserBus { path } => {
                f.write_str(
                    "could not detect DBUS_SESSION_BUS_ADDRESS from the environment, and ",
                )?;
                match path {
                    Some(path) => write!(f, "there is no {path}")?,
                    None => f.write_str("XDG_RUNTIME_DIR is not set, either")?,
                }
                f.write_str(
                    ": install the package dbus-user-session and log in again (not by su or sudo), or \
                     use --cgroup-manager cgroupfs in a delegated cgroup",
                )
            }
            Self::BadPath { path, reason } => write!(f, "invalid cgroup path {path:?}: {reason}"),
            Self::Call { call, unit, cause } => {
                write!(f, "systemd: {call} {unit}: {cause}")?;
                match cause {
                    dbus::Error::Stalled { .. } => f.write_str(
                        ": D-Bus or systemd is stuck; `systemctl list-jobs` and \
                         `journalctl -b -u dbus` show more (with --user for a user's instance)",
                    ),
                    _ => Ok(()),
                }
            }
            Self::Job { unit, result } => write!(
                f,
                "error creating systemd unit `{unit}`: got `{result}`; see `journalctl -u {unit}`"
            ),
            Self::Annotation { annotation, reason } => {
                write!(f, "annotation {annotation}: {reason}")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Call { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
