//! Errors of compiling a configuration.

use alloc::string::String;
use core::fmt;

use crate::kernel::{DETACHED, OLDEST};

/// The reason why a configuration cannot be compiled. The text names the field or the object.
#[derive(Debug)]
pub enum Error {
    /// An invalid or unsupported value. No caller needs to distinguish these errors.
    Config(String),
    /// The kernel is older than the oldest supported version. The field is the kernel's version.
    TooOld((u32, u32)),
    /// A container without a mount namespace, on a kernel that cannot attach mounts to a detached tree.
    NoDetachedMounts,
    /// newuidmap(1) or newgidmap(1) is needed but not in `PATH`.
    NoHelper(&'static str),
    /// An annotation that is not a valid property of the container's scope.
    Systemd(cgroup::systemd::Error),
    /// A value that the specification does not permit.
    Invalid(spec::Invalid),
    /// An error in the seccomp profile.
    Seccomp(seccomp::Error),
    /// A failed system call on the host.
    System(sys::Error),
}

impl Error {
    /// Returns a configuration error with this text.
    pub fn config(text: impl Into<String>) -> Self {
        Self::Config(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) => f.write_str(text),
            Self::TooOld((old_major, old_minor)) => {
                let (major, minor) = OLDEST;
                write!(
                    f,
                    "Linux {old_major}.{old_minor} is too old: dayfly needs {major}.{minor} (mount_setattr)"
                )
            }
            Self::NoDetachedMounts => {
                let (major, minor) = DETACHED;
                write!(
                    f,
                    "a container without a mount namespace needs Linux {major}.{minor}, for mounts that the \
                     host does not see; add the mount namespace to linux.namespaces"
                )
            }
            Self::NoHelper(name) => write!(
                f,
                "mapping more than the caller's own id takes {name}, which is not in $PATH: install \
                 the package uidmap (or shadow-utils), or map one id"
            ),
            Self::Systemd(error) => error.fmt(f),
            Self::Invalid(error) => error.fmt(f),
            Self::Seccomp(error) => write!(f, "seccomp: {error}"),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Seccomp(error) => Some(error),
            Self::Systemd(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Config(_) | Self::TooOld(_) | Self::NoDetachedMounts | Self::NoHelper(_) => None,
        }
    }
}

impl From<spec::Invalid> for Error {
    fn from(error: spec::Invalid) -> Self {
        Self::Invalid(error)
    }
}

impl From<seccomp::Error> for Error {
    fn from(error: seccomp::Error) -> Self {
        Self::Seccomp(error)
    }
}

impl From<cgroup::systemd::Error> for Error {
    fn from(error: cgroup::systemd::Error) -> Self {
        Self::Systemd(error)
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}
