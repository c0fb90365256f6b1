//! Errors of commands. The messages that engines parse are runc's.

use alloc::format;
use alloc::string::String;
use core::fmt;

use cgroup::resctrl;
use sys::Errno;

use crate::{Status, cache};

/// Results of system calls one failure of which is as good as success, such as EEXIST of mkdir(2).
pub(crate) trait Unless<T> {
    /// Returns `None` for this failure.
    fn unless(self, good: Errno) -> Result<Option<T>, Errno>;
}

impl<T> Unless<T> for Result<T, Errno> {
    fn unless(self, good: Errno) -> Result<Option<T>, Errno> {
        match self {
            Err(errno) if errno == good => Ok(None),
            result => result.map(Some),
        }
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub enum Error {
    /// No container has this id.
    NotFound(String),
    /// A container with this id exists already.
    Exists(String),
    /// The container has no process.
    NotRunning,
    /// The container's record cannot be read.
    Damaged(String),
    /// The container's record belongs to another user.
    Foreign {
        /// The container.
        id: String,
        /// The uid of the record's owner.
        owner: u32,
    },
    /// A container with this status cannot be started.
    CannotStart(Status),
    /// `delete` without `--force` of a container that is neither stopped nor created.
    CannotDelete {
        /// The container.
        id: String,
        /// The container's status.
        status: Status,
    },
    /// Init was sent SIGKILL, but has not exited in time.
    Survives,
    /// The bundle has no configuration at this path.
    NoConfiguration(String),
    /// A complete message, for errors that no caller needs to distinguish: mostly contradictory options.
    Text(String),
    /// A JSON document that could not be parsed.
    Json {
        /// The document.
        what: String,
        /// The parser's error.
        error: serde_json::Error,
    },
    /// An error of the host's cache.
    Cache(cache::Error),
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
    /// A template did not fork the program. Nothing of the container is left.
    NotForked {
        /// The template.
        template: String,
        /// The reason, as a sentence whose subject is the template.
        reason: String,
    },
    /// The configuration could not be compiled into a plan.
    Plan(plan::Error),
    /// The launch failed.
    Launch(launch::Error),
    /// A cgroup operation failed.
    Cgroup(cgroup::Error),
    /// An operation on layers or id ranges failed.
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
        matches!(self, Self::NotFound(_))
    }

    /// Returns whether a hook failed.
    pub(crate) fn is_of_hook(&self) -> bool {
        matches!(self, Self::Launch(launch::Error::Hook(_)))
    }

    /// Returns whether the record is unreadable. In that case `delete --force` removes everything that it can find.
    pub fn is_damaged(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Engines search for the first words, so the id follows them.
            Self::NotFound(id) => write!(f, "container does not exist: {id}"),
            Self::Exists(id) => write!(f, "container with given ID already exists: {id}"),
            Self::NotRunning => f.write_str("container not running"),
            Self::CannotStart(Status::Stopped) => {
                f.write_str("cannot start a container that has stopped")
            }
            Self::CannotStart(Status::Paused) => {
                f.write_str("cannot start a container in the paused state")
            }
            Self::CannotStart(_) => f.write_str("cannot start an already running container"),
            Self::CannotDelete { id, status } => {
                write!(f, "cannot delete container {id} that is not stopped: {status}")
            }
            Self::Survives => f.write_str("container init still running"),
            Self::NoConfiguration(path) => write!(f, "JSON specification file {path} not found"),
            Self::Json { what, error } => write!(f, "{what}: {error}"),
            Self::Cache(error) => error.fmt(f),
            Self::NotForked { template, reason } => write!(f, "template {template} {reason}"),
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

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Parse { error, .. } => Some(error),
            Self::Json { error, .. } => Some(error),
            Self::Invalid(error) => Some(error),
            Self::Id(error) => Some(error),
            Self::Plan(error) => Some(error),
            Self::Launch(error) => Some(error),
            Self::Cgroup(error) => Some(error),
            Self::Rootfs(error) => Some(error),
            Self::Resctrl(error) => Some(error),
            Self::Topology(error) => Some(error),
            Self::System(error) => Some(error),
            Self::Cache(error) => Some(error),
            _ => None,
        }
    }
}

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
    Cache(cache::Error),
    System(sys::Error)
);

/// Returns the error for an unreadable record.
pub(crate) fn damaged(id: &str, what: impl fmt::Display) -> Error {
    Error::Damaged(format!(
        "state of container {id} is damaged ({what}); `dayfly delete --force {id}` removes it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::error::Error as _;

    #[test]
    fn causes_are_found_down_to_the_system_call() {
        let failed = sys::Error::new("connect", "/run/systemd/private", sys::Errno::ACCESS);
        let call = cgroup::systemd::Error::Call {
            call: "StartTransientUnit",
            unit: "a.scope".into(),
            cause: cgroup::systemd::dbus::Error::System(failed.clone()),
        };
        let error = Error::from(launch::Error::from(cgroup::Error::from(call)));
        let mut chain = Vec::new();
        let mut cause = error.source();
        while let Some(found) = cause {
            chain.push(found);
            cause = found.source();
        }
        assert_eq!(chain.len(), 5, "launch, cgroup, systemd, dbus, sys");
        assert_eq!(chain.last().and_then(|last| last.downcast_ref()), Some(&failed));
        // The message of each error contains that of its cause, so that one line is enough.
        for cause in chain {
            assert!(error.to_string().contains(&cause.to_string()), "{error}: {cause}");
        }
    }

    #[test]
    fn errors_of_plans_and_documents_have_causes() {
        let error = Error::from(plan::Error::from(spec::Invalid::Text("linux.new".into())));
        let invalid = error.source().and_then(|plan| plan.source());
        assert!(invalid.is_some_and(|cause| cause.is::<spec::Invalid>()), "{error:?}");
        let error = crate::RootMount::list(b"[").map(|_| ()).unwrap_err();
        assert!(error.source().is_some_and(|cause| cause.is::<serde_json::Error>()), "{error:?}");
        assert!(error.to_string().starts_with("mounts of a root filesystem: EOF"), "{error}");
        assert!(Error::NotFound(String::new()).source().is_none());
    }

    #[test]
    fn the_status_that_is_in_the_way_is_told_in_runc_s_words() {
        let told = |error: Error| error.to_string();
        let starts = "cannot start a";
        assert_eq!(
            told(Error::CannotStart(Status::Stopped)),
            format!("{starts} container that has stopped")
        );
        assert_eq!(
            told(Error::CannotStart(Status::Running)),
            format!("{starts}n already running container")
        );
        let error = Error::CannotDelete { id: "web".into(), status: Status::Running };
        assert_eq!(told(error), "cannot delete container web that is not stopped: running");
    }
}
