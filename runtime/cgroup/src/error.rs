//! Errors of cgroup operations.

use alloc::string::String;
use core::fmt;

/// An error of this crate. All paths in it are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// No cgroup file system is mounted under this directory.
    NotMounted {
        /// The directory that was searched.
        root: String,
    },
    /// The container has no cgroup, or its cgroup was removed.
    Gone {
        /// The cgroup's directory, or one of its directories if there are several.
        directory: String,
    },
    /// `linux.cgroupsPath` or a sub-cgroup path is invalid.
    BadPath {
        /// The path, as it was specified.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// `linux.cgroupsPath` has the form `slice:prefix:name`, but the cgroup driver is cgroupfs.
    SystemdPath {
        /// The path, as it was specified.
        path: String,
    },
    /// A user's systemd was requested on cgroup v1, which cannot be delegated to users.
    UserOnV1,
    /// systemd returned an error, or an answer that cannot be used.
    Systemd(crate::systemd::Error),
    /// The controller that a requested limit needs is missing.
    NoController {
        /// The controller.
        controller: String,
        /// The file to which the limit would be written.
        file: String,
        /// The cgroup's directory, or the mount root if the controller's hierarchy is missing.
        directory: String,
        /// Whether the error is about cgroup v2.
        unified: bool,
    },
    /// `linux.resources.unified` was specified, but the host uses cgroup v1.
    UnifiedOnV1,
    /// A value of `linux.resources` is invalid.
    Invalid {
        /// The name of the setting in `linux.resources`.
        setting: &'static str,
        /// The reason.
        reason: String,
    },
    /// The cgroup for a new container already contains processes.
    NotEmpty {
        /// The cgroup's directory.
        directory: String,
        /// The number of processes.
        processes: usize,
    },
    /// The cgroup for a new container is frozen.
    Frozen {
        /// The cgroup's directory.
        directory: String,
    },
    /// A limit of a domain controller was requested, but the cgroup is threaded.
    Threaded {
        /// The cgroup's directory.
        directory: String,
        /// The contents of the cgroup's file cgroup.type.
        mode: String,
    },
    /// A device rule denies part of what a wildcard rule allows, or allows part of what a wildcard rule denies. cgroup
    /// v1 cannot express this.
    DeviceHole {
        /// The rule.
        rule: String,
        /// The wildcard rule.
        wildcard: String,
    },
    /// A cgroup did not freeze in time.
    NotFreezing {
        /// The cgroup's directory.
        directory: String,
    },
    /// A cgroup could not be removed in time.
    Busy {
        /// The cgroup's directory.
        directory: String,
        /// The number of remaining processes.
        processes: usize,
    },
    /// The name of a pool is not a valid size.
    BadPool {
        /// The specified name.
        pool: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no pool of this size.
    NoPool {
        /// The specified name.
        pool: String,
    },
    /// The contents of a kernel file do not have the documented format.
    Unreadable {
        /// The file's path.
        file: String,
        /// The file's contents.
        content: String,
    },
}

impl Error {
    /// Returns whether the error means that the cgroup does not exist, which most commands do not treat as a failure.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Gone { .. } => true,
            Self::System(error) => {
                matches!(error.errno, sys::Errno::NOENT | sys::Errno::NODEV)
            }
            _ => false,
        }
    }

    /// Returns whether the error means that the caller lacks permission: EPERM, EACCES or EROFS.
    pub fn is_permission(&self) -> bool {
        matches!(
            self,
            Self::System(sys::Error {
                errno: sys::Errno::PERM | sys::Errno::ACCESS | sys::Errno::ROFS,
                ..
            })
        )
    }
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}

impl From<crate::systemd::Error> for Error {
    fn from(error: crate::systemd::Error) -> Self {
        Self::Systemd(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::NotMounted { root } => {
                write!(f, "no cgroup hierarchy is mounted under {root}: mount cgroup2 there")
            }
            Self::Gone { directory } => write!(f, "container's cgroup {directory} does not exist"),
            Self::BadPath { path, reason } => write!(f, "invalid cgroup path {path:?}: {reason}"),
            Self::SystemdPath { path } => write!(
                f,
                "cgroup path {path:?} is for the systemd cgroup driver: use --systemd-cgroup, or a \
                 path such as /parent/name"
            ),
            Self::UserOnV1 => f.write_str(
                "cannot use rootless systemd cgroups manager on cgroup v1: boot with \
                 systemd.unified_cgroup_hierarchy=1, or use --cgroup-manager disabled",
            ),
            Self::Systemd(error) => error.fmt(f),
            Self::NoController { controller, file, directory, unified: true } => write!(
                f,
                "cannot set {file}: cgroup controller {controller:?} is not available in \
                 {directory}; enable it in cgroup.subtree_control of the parent cgroups (with \
                 systemd: Delegate=yes, for users in user@.service) or drop the limit"
            ),
            Self::NoController { controller, file, directory, unified: false } => write!(
                f,
                "cannot set {file}: cgroup v1 controller {controller:?} is not mounted under \
                 {directory}; mount it or drop the limit"
            ),
            Self::UnifiedOnV1 => f.write_str(
                "invalid configuration: cannot use unified on cgroup v1; \
                 use the members of linux.resources, or a host with cgroup v2 alone",
            ),
            Self::Invalid { setting, reason } => write!(f, "linux.resources.{setting}: {reason}"),
            Self::NotEmpty { directory, processes } => write!(
                f,
                "container's cgroup is not empty: {processes} process(es) found in {directory}"
            ),
            Self::Frozen { directory } => {
                write!(f, "container's cgroup unexpectedly frozen: {directory}")
            }
            Self::Threaded { directory, mode } => write!(
                f,
                "cannot enter cgroup {directory} with domain controllers: it is {mode}; \
                 use a parent cgroup without processes of its own"
            ),
            Self::DeviceHole { rule, wildcard } => write!(
                f,
                "device rule {rule:?} is not supported by cgroup v1: \
                 it cannot make an exception to wildcard rule {wildcard:?}"
            ),
            Self::NotFreezing { directory } => {
                write!(f, "unable to freeze {directory}: timed out, thawed again")
            }
            Self::Busy { directory, processes } => write!(
                f,
                "unable to remove {directory}: {processes} process(es) have not exited; they may \
                 be in uninterruptible sleep"
            ),
            Self::BadPool { pool, reason } => write!(f, "pool {pool:?}: {reason}"),
            Self::NoPool { pool } => write!(
                f,
                "there is no pool of {pool}: \"dayfly cgroup pool create {pool}\" creates one"
            ),
            Self::Unreadable { file, content } => write!(f, "cannot read {file}: got {content:?}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Systemd(error) => Some(error),
            _ => None,
        }
    }
}
