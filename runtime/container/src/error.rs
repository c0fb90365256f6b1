//! What can go wrong in a command, in runc's words where engines read them.

use alloc::format;
use alloc::string::String;
use core::fmt;

use rustix::fd::OwnedFd;

/// Why a command failed.
#[derive(Debug)]
pub enum Error {
    /// No container of this id.
    NotFound(String),
    /// There is one already.
    Exists,
    /// The container has no process.
    NotRunning,
    /// Its record cannot be read.
    Damaged(String),
    /// Its record is another user's.
    Foreign {
        /// The container.
        id: String,
        /// Whose it is.
        owner: u32,
    },
    /// A text that says all.
    Text(String),
    /// config.json, or a process file, could not be read as one.
    Parse {
        /// The file.
        path: String,
        /// Where and why.
        error: spec::ParseError,
    },
    /// A value of the configuration.
    Invalid(spec::Invalid),
    /// An id that cannot be.
    Id(spec::InvalidId),
    /// No plan for this configuration.
    Plan(plan::Error),
    /// The launch failed.
    Launch(launch::Error),
    /// The cgroup.
    Cgroup(cgroup::Error),
    /// Layers, or ranges of ids.
    Rootfs(rootfs::Error),
    /// The group of the resctrl file system.
    Resctrl(resctrl::Error),
    /// The CPUs of this host.
    Topology(topology::Error),
    /// A system call.
    System(sys::Error),
}

impl Error {
    /// An error with a text of its own.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Whether the container does not exist: `delete --force` is content with that.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// What another attempt goes on with where the kernel kills what is born into the container's cgroup, so that
    /// init has to move there: the connection to the console socket, if there is one. Any other error as it is.
    pub(crate) fn stillborn(self) -> Result<Option<OwnedFd>, Self> {
        match self {
            Self::Launch(launch::Error::Stillborn(console)) => Ok(console),
            error => Err(error),
        }
    }

    /// Whether a hook failed.
    pub(crate) fn is_of_hook(&self) -> bool {
        matches!(self, Self::Launch(launch::Error::Hook(_)))
    }

    /// Whether the record cannot be read: `delete --force` removes what can be found all the same.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The words that engines look for, then which one.
            Self::NotFound(id) => write!(f, "container does not exist: {id}"),
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

/// The error of a record that cannot be read.
pub(crate) fn damaged(id: &str, what: impl fmt::Display) -> Error {
    Error::Damaged(format!(
        "state of container {id} is damaged ({what}); `dayfly delete --force {id}` removes it"
    ))
}
