//! Why a configuration is refused.
use alloc::string::String;
use core::fmt;

use crate::kinds::NamespaceKind;

/// What is wrong with a configuration. The texts are runc's where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// `ociVersion` is no semantic version, or not of major version 1.
    Version(String),
    /// `root` is missing.
    NoRoot,
    /// `root.path` is empty.
    NoRootPath,
    /// `process.cwd` is empty.
    NoCwd,
    /// `process.cwd` is relative.
    RelativeCwd,
    /// `process.args` is empty.
    NoArgs,
    /// An entry of `process.env` has no `=`.
    EnvWithoutValue,
    /// An entry of `process.env` begins with `=`.
    EnvWithoutName,
    /// A user or group id of `process.user` is -1, which the kernel takes for "no change".
    NoId,
    /// `process.user.umask` has bits beside the permissions.
    Umask(u32),
    /// `process.oomScoreAdj` is out of range.
    OomScoreAdj(i32),
    /// An entry of `process.rlimits` has no known type.
    RlimitType(String),
    /// Two entries of `process.rlimits` are of one type.
    RlimitTwice(String),
    /// A soft limit above the hard one.
    RlimitSoft(String),
    /// `hostname` without a uts namespace.
    Hostname,
    /// `domainname` without a uts namespace.
    Domainname,
    /// A mount without a destination.
    NoDestination,
    /// A bind mount, by its destination, without a source.
    BindWithoutSource(String),
    /// A bind mount, by its destination, with filesystem options.
    BindWithData(String),
    /// An idmapped mount, by its destination, that is no bind mount.
    IdMapWithoutBind(String),
    /// An idmapped mount, by its destination, without mappings for users or groups.
    IdMapWithoutMappings(String),
    /// A hook, by its property, whose path is relative.
    HookPath(&'static str, String),
    /// A hook, by its property, whose timeout is 0 or less.
    HookTimeout(&'static str, i64),
    /// Two entries of `linux.namespaces` are of one kind.
    NamespaceTwice(NamespaceKind),
    /// A namespace to join, whose path is relative.
    NamespacePath(NamespaceKind, String),
    /// Id mappings without a user namespace.
    MappingsWithoutUserNamespace,
    /// An id mapping, by its property, of no ids or of ids beyond 2³² − 1.
    MappingSize(&'static str),
    /// `linux.maskedPaths` or `readonlyPaths` without a mount namespace.
    MasksWithoutMountNamespace,
    /// `linux.rootfsPropagation` is no propagation word.
    RootfsPropagation(String),
    /// A device without a path.
    NoDevicePath,
    /// A device, by its path, with a number below 0.
    DeviceNumber(String),
    /// `linux.netDevices` without a network namespace to move them to.
    NetDeviceWithoutNamespace,
    /// A name of `linux.netDevices` that can be none.
    NetDeviceName(String),
    /// `linux.intelRdt.closID` is no name of a directory.
    ClosId(String),
    /// A line of `linux.intelRdt`, by its property, that is none or not of its kind.
    Schema(&'static str, String),
    /// A sysctl name that is no path below /proc/sys.
    SysctlName(String),
    /// A parameter of the ipc namespace, and the container has none.
    SysctlHostIpc(String),
    /// A parameter of the network namespace, and the container has none.
    SysctlHostNetwork(String),
    /// A parameter of the user namespace, and the container has none.
    SysctlHostUser(String),
    /// `kernel.hostname`, for which there is a property.
    SysctlHostname(String),
    /// A parameter that is the whole host's.
    SysctlNotNamespaced(String),
    /// Known to the specification, not done yet.
    Unsupported(&'static str),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                write!(
                    f,
                    "ociVersion {version:?} is not supported: it must be 1.0.0 or a later 1.x"
                )
            }
            Self::NoRoot => f.write_str("root must be specified"),
            Self::NoRootPath => f.write_str("root.path must not be empty"),
            Self::NoCwd => f.write_str("Cwd property must not be empty"),
            Self::RelativeCwd => f.write_str("Cwd must be an absolute path"),
            Self::NoArgs => f.write_str("args must not be empty"),
            Self::EnvWithoutValue => f.write_str("invalid environment variable: missing '='"),
            Self::EnvWithoutName => {
                f.write_str("invalid environment variable: name cannot be empty")
            }
            Self::NoId => f.write_str(
                "process.user: 4294967295 is no user or group id: the kernel takes it for \"no change\"",
            ),
            Self::Umask(umask) => {
                write!(f, "process.user.umask {umask:#o} is out of range, 0 to 0o777")
            }
            Self::OomScoreAdj(score) => {
                write!(f, "process.oomScoreAdj {score} is out of range, -1000 to 1000")
            }
            Self::RlimitType(kind) => write!(f, "wrong rlimit value: {kind}"),
            Self::RlimitTwice(kind) => write!(f, "duplicated rlimit {kind}"),
            Self::RlimitSoft(kind) => {
                write!(f, "rlimit {kind}: soft limit is above the hard limit")
            }
            Self::Hostname => f.write_str("unable to set hostname without a private UTS namespace"),
            Self::Domainname => {
                f.write_str("unable to set domainname without a private UTS namespace")
            }
            Self::NoDestination => f.write_str("mount destination must not be empty"),
            Self::BindWithoutSource(mount) => {
                write!(f, "invalid mount {mount}: bind mount without a source")
            }
            Self::BindWithData(mount) => write!(
                f,
                "invalid mount {mount}: \
                 bind mounts cannot have any filesystem-specific options applied"
            ),
            Self::IdMapWithoutBind(mount) => write!(
                f,
                "invalid mount {mount}: id-mapped mounts are only supported for bind-mounts"
            ),
            Self::IdMapWithoutMappings(mount) => write!(
                f,
                "invalid mount {mount}: \
                 id-mapped mounts must have both uid and gid mappings specified"
            ),
            Self::HookPath(list, path) => {
                write!(f, "hooks.{list}: path {path:?} is not an absolute path")
            }
            Self::HookTimeout(list, timeout) => {
                write!(f, "hooks.{list}: timeout {timeout} is not greater than zero")
            }
            Self::NamespaceTwice(kind) => {
                write!(f, "malformed spec file: duplicated ns \"{kind}\"")
            }
            Self::NamespacePath(kind, path) => {
                write!(f, "{kind} namespace: path {path:?} is not an absolute path")
            }
            Self::MappingsWithoutUserNamespace => f.write_str(
                "user namespace mappings specified, \
                 but user namespace isn't enabled in the config",
            ),
            Self::MappingSize(property) => write!(
                f,
                "{property}: the size of a mapping must be at least 1 \
                 and its ids must not exceed 4294967295"
            ),
            Self::MasksWithoutMountNamespace => {
                f.write_str("unable to restrict sys entries without a private MNT namespace")
            }
            Self::RootfsPropagation(word) => {
                write!(f, "rootfsPropagation={word} is not supported")
            }
            Self::NoDevicePath => f.write_str("device path must not be empty"),
            Self::DeviceNumber(path) => {
                write!(f, "device {path}: major and minor must be 0 to 4294967295")
            }
            Self::NetDeviceWithoutNamespace => {
                f.write_str("unable to move network devices without a NET namespace")
            }
            Self::NetDeviceName(name) => write!(f, "invalid network device name {name:?}"),
            Self::ClosId(clos) => write!(f, "invalid intelRdt.ClosID {clos:?}"),
            Self::Schema(property, line) => write!(
                f,
                "invalid intelRdt.{property} {line:?}: \
                 one line is expected, and of memBwSchema that it begins with \"MB:\""
            ),
            Self::SysctlName(name) => write!(f, "sysctl {name:?} is not a valid name"),
            Self::SysctlHostIpc(name) => {
                write!(f, "sysctl {name:?} is not allowed in the hosts ipc namespace")
            }
            Self::SysctlHostNetwork(name) => {
                write!(f, "sysctl {name:?} not allowed in host network namespace")
            }
            Self::SysctlHostUser(name) => {
                write!(f, "setting ucounts without a user namespace not allowed: {name}")
            }
            Self::SysctlHostname(name) => write!(
                f,
                "sysctl {name:?} is not allowed as it conflicts with the OCI \"hostname\" field"
            ),
            Self::SysctlNotNamespaced(name) => {
                write!(f, "sysctl {name:?} is not in a separate kernel namespace")
            }
            Self::Unsupported(property) => write!(f, "{property} is not supported yet by dayfly"),
        }
    }
}

impl core::error::Error for Invalid {}
