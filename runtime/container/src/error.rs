//! Errors of commands, in runc's words where engines parse them.

use alloc::format;
use alloc::string::String;
use core::fmt;

use rustix::fd::OwnedFd;

/// Why a command failed.
#[derive(Debug)]
pub enum Error {
    /// There is no container with this id.
    NotFound,
    /// The id is already in use.
    Exists,
    /// The container has no process.
    NotRunning,
    /// Its record cannot be read.
    Damaged(String),
    /// Its record is another user's.
    Foreign {
        /// The container.
        id: String,
        /// Its owner's uid.
        owner: u32,
    },
    /// A complete message.
    Text(String),
    /// config.json or a process file could not be parsed.
    Parse {
        /// The file.
        path: String,
        /// The position and reason.
        error: spec::ParseError,
    },
    /// An invalid value in the configuration.
    Invalid(spec::Invalid),
    /// An invalid id.
    Id(spec::InvalidId),
    /// The configuration could not be compiled into a plan.
    Plan(plan::Error),
    /// The launch failed.
    Launch(launch::Error),
    /// A cgroup operation failed.
    Cgroup(cgroup::Error),
    /// Layers or id ranges failed.
    Rootfs(rootfs::Error),
    /// A resctrl operation failed.
    Resctrl(resctrl::Error),
    /// The CPU topology of this host is unavailable.
    Topology(topology::Error),
    /// A system call failed.
    System(sys::Error),
}

impl Error {
    /// Returns an error with the given message.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns whether the container does not exist, which `delete --force` accepts.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound)
    }

    /// If the kernel killed the process because it was created in the container's cgroup, returns the connection to the
    /// console socket, if any, for a second attempt in which init moves to the cgroup. Otherwise returns the error
    /// unchanged.
    pub(crate) fn stillborn(self) -> Result<Option<OwnedFd>, Self> {
        match self {
            Self::Launch(launch::Error::Stillborn(console)) => Ok(console),
            error => Err(error),
        }
    }

    /// Returns whether a hook failed.
    pub(crate) fn is_of_hook(&self) -> bool {
        matches!(self, Self::Launch(launch::Error::Hook(_)))
    }

    /// Returns whether the record is unreadable: `delete --force` then removes what it can find.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("container does not exist"),
            Self::Exists => f.write_str("container with given ID already exists"),
            Self::NotRunning => f.write_str("container not running"),
            Self::Text(text) | Self::Damaged(text) => f.write_str(text),
            Self::Foreign { id, owner } => write!(
                f,
                "state of container {id} belongs to user {owner}: only that user's commands may use it"
            ),
            Self::Parse { path, error } => write!(f, "{path}: {error}"),
            Self::Invalid(error) => error.fmt(f),
            Self::Id(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Launch(error) => error.fmt(f),
            Self::Cgroup(error) => error.fmt(f),
            Self::Rootfs(error) => error.fmt(f),
            Self::Resctrl(error) => error.fmt(f),
            Self::Topology(error) => error.fmt(f),
            Self::System(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

macro_rules! from {
    ($($variant:ident($source:ty)),*) => {$(
        impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from!(
    Invalid(spec::Invalid),
    Id(spec::InvalidId),
    Plan(plan::Error),
    Launch(launch::Error),
    Cgroup(cgroup::Error),
    Rootfs(rootfs::Error),
    Resctrl(resctrl::Error),
    Topology(topology::Error),
    System(sys::Error)
);

/// Returns the error for an unreadable record.
pub(crate) fn damaged(id: &str, what: impl fmt::Display) -> Error {
    Error::Damaged(format!(
        "state of container {id} is damaged ({what}); `dayfly delete --force {id}` removes it"
    ))
}
