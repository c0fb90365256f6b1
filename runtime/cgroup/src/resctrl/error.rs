//! Errors of resctrl.

use alloc::string::String;
use core::fmt;

/// An error of resctrl operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A system call failed.
    System(sys::Error),
    /// resctrl is not mounted.
    NotMounted,
    /// The hardware, or the kernel with its command line, does not support a limit.
    Missing {
        /// The name of the setting in `linux.intelRdt`.
        setting: &'static str,
        /// Intel's name for the missing feature.
        feature: &'static str,
    },
    /// The class of service in `linux.intelRdt.closID` does not exist, and the configuration contains no limits with
    /// which to create it.
    NoClass {
        /// The expected path of the class.
        directory: String,
    },
    /// The class of service in `linux.intelRdt.closID` already exists, with other limits.
    OtherSchemata {
        /// The line of the configuration that differs.
        line: String,
        /// The path of the class.
        directory: String,
    },
    /// The contents of a kernel file do not have the documented format.
    Unreadable {
        /// The file's path.
        file: String,
        /// The file's contents.
        content: String,
    },
}

impl From<sys::Error> for Error {
    fn from(error: sys::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => error.fmt(f),
            Self::NotMounted => f.write_str(
                "intelRdt is specified in config, but Intel RDT is not enabled: \
                 no resctrl file system is mounted (mount -t resctrl resctrl /sys/fs/resctrl)",
            ),
            Self::Missing { setting, feature } => write!(
                f,
                "intelRdt.{setting} is specified in config, but Intel RDT/{feature} is not enabled"
            ),
            Self::NoClass { directory } => write!(
                f,
                "clos dir {directory} not accessible (must be pre-created when schemata, \
                 l3CacheSchema and memBwSchema are empty)"
            ),
            Self::OtherSchemata { line, directory } => {
                write!(f, "intelRdt: {directory} exists and has other schemata than {line:?}")
            }
            Self::Unreadable { file, content } => write!(f, "cannot read {file}: got {content:?}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            _ => None,
        }
    }
}
