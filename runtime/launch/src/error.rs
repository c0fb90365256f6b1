//! Why a launch failed, in words that name step, object and errno.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

use init::Failure;
use plan::step::SecurityModule;
use rustix::fd::OwnedFd;
use sys::Errno;

/// Why a launch failed. Whatever it had made is gone when this is returned.
#[derive(Debug)]
pub enum Error {
    /// A step of the parent.
    Parent(sys::Error),
    /// A step of the parent for a mount of the configuration.
    Mount {
        /// What was to be mounted where.
        mount: String,
        /// What exactly failed.
        error: sys::Error,
    },
    /// A step of init.
    Init {
        /// The step: name and object.
        step: String,
        /// What exactly failed.
        detail: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The program to run is not there or may not be run.
    Program {
        /// In the words that engines look for.
        text: String,
        /// ENOENT, EACCES or another.
        errno: Errno,
    },
    /// What the configuration asks for would be done to the host.
    Refused(String),
    /// A hook.
    Hook(String),
    /// newuidmap(1) or newgidmap(1).
    Helper(String),
    /// The cgroup.
    Cgroup(cgroup::Error),
    /// The group of the resctrl file system.
    Resctrl(resctrl::Error),
    /// The root filesystem.
    Rootfs(rootfs::Error),
    /// The kernel does not have a security module that the configuration names.
    NoModule(SecurityModule),
    /// Init ended without a word: killed from outside, mostly by a memory limit it cannot start in.
    Died(String),
    /// The kernel kills whoever is born into the cgroup: see [`crate::kills_newborn`]. With the connection to the
    /// console socket, if one was made: its listener may take no other one.
    Stillborn(Option<OwnedFd>),
}

impl Error {
    /// The end of an init that did not say why, by the signal that ended it if one did.
    pub(crate) fn death(signal: Option<i32>) -> Self {
        Self::Died(match signal {
            Some(9) => "container init was killed by SIGKILL (maybe its memory limit is too low)"
                .to_string(),
            Some(signal) => format!("container init was killed by signal {signal}"),
            None => "container init ended unexpectedly".to_string(),
        })
    }
}

/// What init has said of a failure.
pub(crate) fn words(failure: &Failure) -> String {
    String::from_utf8_lossy(failure.text()).into_owned()
}

impl trace::Failed for Error {
    fn errno(&self) -> u16 {
        match self {
            Self::Parent(error) | Self::Mount { error, .. } => error.errno(),
            Self::Init { errno, .. } | Self::Program { errno, .. } => errno.errno(),
            Self::Cgroup(cgroup::Error::System(error))
            | Self::Resctrl(resctrl::Error::System(error))
            | Self::Rootfs(rootfs::Error::System(error)) => error.errno(),
            Self::NoModule(_) => Errno::OPNOTSUPP.errno(),
            Self::Cgroup(_)
            | Self::Resctrl(_)
            | Self::Rootfs(_)
            | Self::Refused(_)
            | Self::Hook(_)
            | Self::Helper(_)
            | Self::Died(_)
            | Self::Stillborn(_) => Errno::CANCELED.errno(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parent(error) => write!(f, "unable to start container process: {error}"),
            Self::Mount { mount, error } => {
                write!(f, "unable to start container process: {mount}: {error}")
            }
            Self::Init { step, detail, errno } => {
                f.write_str("unable to start container process: error during container init: ")?;
                f.write_str(step)?;
                if !detail.is_empty() {
                    write!(f, ": {detail}")?;
                }
                let operation = if detail.is_empty() { step } else { detail };
                write!(f, ": {}", sys::refusal::describe(operation, *errno))
            }
            Self::Program { text, .. } => write!(f, "unable to start container process: {text}"),
            Self::Refused(text) | Self::Hook(text) => f.write_str(text),
            Self::Cgroup(error) => write!(f, "unable to start container process: {error}"),
            Self::Resctrl(error) => write!(f, "unable to start container process: {error}"),
            Self::Rootfs(error) => write!(f, "unable to assemble the root filesystem: {error}"),
            Self::NoModule(SecurityModule::AppArmor) => {
                f.write_str("apparmor: config provided but apparmor not supported by this kernel")
            }
            Self::NoModule(SecurityModule::SeLinux) => f.write_str(
                "selinux label is specified in config, but selinux is disabled or not supported",
            ),
            Self::Stillborn(_) => f.write_str(
                "unable to start container process: the kernel kills what is born into the container's \
                 cgroup (Linux 6.14 and newer, where cgroup.kill of the caller's cgroup was once written \
                 to: call from another one)",
            ),
            Self::Helper(text) | Self::Died(text) => {
                write!(f, "unable to start container process: {text}")
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::Parent(error)
    }
}

impl From<rootfs::Error> for Error {
    fn from(error: rootfs::Error) -> Self {
        Self::Rootfs(error)
    }
}

impl From<resctrl::Error> for Error {
    fn from(error: resctrl::Error) -> Self {
        Self::Resctrl(error)
    }
}

impl From<cgroup::Error> for Error {
    fn from(error: cgroup::Error) -> Self {
        Self::Cgroup(error)
    }
}
