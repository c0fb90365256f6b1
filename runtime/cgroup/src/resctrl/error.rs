//! Errors of resctrl.

use alloc::string::String;

/// An error of resctrl operations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] sys::Error),
    /// resctrl is not mounted.
    #[error(
        "intelRdt is specified in config, but Intel RDT is not enabled: no resctrl file system is mounted (mount -t \
         resctrl resctrl /sys/fs/resctrl)"
    )]
    NotMounted,
    /// The hardware, or the kernel with its command line, does not support a limit.
    #[error("intelRdt.{setting} is specified in config, but Intel RDT/{feature} is not enabled")]
    Missing {
        /// The name of the setting in `linux.intelRdt`.
        setting: &'static str,
        /// Intel's name for the missing feature.
        feature: &'static str,
    },
    /// The class of service in `linux.intelRdt.closID` does not exist, and the configuration contains no limits with
    /// which to create it.
    #[error(
        "clos dir {0} not accessible (must be pre-created when schemata, l3CacheSchema and memBwSchema are \
         empty)"
    )]
    NoClass(String),
    /// The class of service in `linux.intelRdt.closID` already exists, with other limits.
    #[error("intelRdt: {directory} exists and has other schemata than {line:?}")]
    OtherSchemata {
        /// The line of the configuration that differs.
        line: String,
        /// The path of the class.
        directory: String,
    },
    /// The contents of a kernel file do not have the documented format.
    #[error("cannot read {file}: got {content:?}")]
    Unreadable {
        /// The file's path.
        file: String,
        /// The file's contents.
        content: String,
    },
}
