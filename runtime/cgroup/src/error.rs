//! Errors of cgroup operations.

use alloc::format;
use alloc::string::String;

/// An error of this crate. All paths in it are absolute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
    /// No cgroup file system is mounted under this directory.
    #[error("no cgroup hierarchy is mounted under {0}: mount cgroup2 there")]
    NotMounted(String),
    /// The container has no cgroup, or its cgroup was removed. It had this directory, perhaps among several.
    #[error("container's cgroup {0} does not exist")]
    Gone(String),
    /// `linux.cgroupsPath` or a sub-cgroup path is invalid.
    #[error("invalid cgroup path {path:?}: {reason}")]
    BadPath {
        /// The path, as it was specified.
        path: String,
        /// The reason.
        reason: &'static str,
    },
    /// `linux.cgroupsPath` has the form `slice:prefix:name`, but the cgroup driver is cgroupfs.
    #[error(
        "cgroup path {0:?} is for the systemd cgroup driver: use --systemd-cgroup, or a path such as /parent/name"
    )]
    SystemdPath(String),
    /// A user's systemd was requested on cgroup v1, which cannot be delegated to users.
    #[error(
        "cannot use rootless systemd cgroups manager on cgroup v1: boot with systemd.unified_cgroup_hierarchy=1, or \
         use --cgroup-manager disabled"
    )]
    UserOnV1,
    /// systemd returned an error, or an answer that cannot be used.
    #[error("{0}")]
    Systemd(#[from] crate::systemd::Error),
    /// The controller that a requested limit needs is missing.
    #[error("{}", no_controller(controller, file, directory, *unified))]
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
    #[error(
        "invalid configuration: cannot use unified on cgroup v1; use the members of linux.resources, or a host with \
         cgroup v2 alone"
    )]
    UnifiedOnV1,
    /// A value of `linux.resources` is invalid.
    #[error("linux.resources.{setting}: {reason}")]
    Invalid {
        /// The name of the setting in `linux.resources`.
        setting: &'static str,
        /// The reason.
        reason: String,
    },
    /// The cgroup for a new container already contains processes.
    #[error("container's cgroup is not empty: {processes} process(es) found in {directory}")]
    NotEmpty {
        /// The cgroup's directory.
        directory: String,
        /// The number of processes.
        processes: usize,
    },
    /// The cgroup for a new container, in this directory, is frozen.
    #[error("container's cgroup unexpectedly frozen: {0}")]
    Frozen(String),
    /// A limit of a domain controller was requested, but the cgroup is threaded.
    #[error(
        "cannot enter cgroup {directory} with domain controllers: it is {mode}; use a parent cgroup without processes \
         of its own"
    )]
    Threaded {
        /// The cgroup's directory.
        directory: String,
        /// The contents of the cgroup's file cgroup.type.
        mode: String,
    },
    /// A device rule denies part of what a wildcard rule allows, or allows part of what a wildcard rule denies. cgroup
    /// v1 cannot express this.
    #[error(
        "device rule {rule:?} is not supported by cgroup v1: it cannot make an exception to wildcard rule {wildcard:?}"
    )]
    DeviceHole {
        /// The rule.
        rule: String,
        /// The wildcard rule.
        wildcard: String,
    },
    /// The cgroup in this directory did not freeze in time.
    #[error("unable to freeze {0}: timed out, thawed again")]
    NotFreezing(String),
    /// A cgroup could not be removed in time.
    #[error(
        "unable to remove {directory}: {processes} process(es) have not exited; they may be in uninterruptible sleep"
    )]
    Busy {
        /// The cgroup's directory.
        directory: String,
        /// The number of remaining processes.
        processes: usize,
    },
    /// The name of a pool is not a valid size.
    #[error("pool {pool:?}: {reason}")]
    BadPool {
        /// The specified name.
        pool: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no pool of this size.
    #[error("there is no pool of {0}: \"dayfly cgroup pool create {0}\" creates one")]
    NoPool(String),
    /// The contents of a kernel file do not have the documented format.
    #[error("cannot read {file}: got {content:?}")]
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

fn no_controller(controller: &str, file: &str, directory: &str, unified: bool) -> String {
    match unified {
        true => format!(
            "cannot set {file}: cgroup controller {controller:?} is not available in {directory}; \
             enable it in cgroup.subtree_control of the parent cgroups (with systemd: \
             Delegate=yes, for users in user@.service) or drop the limit"
        ),
        false => format!(
            "cannot set {file}: cgroup v1 controller {controller:?} is not mounted under \
             {directory}; mount it or drop the limit"
        ),
    }
}
