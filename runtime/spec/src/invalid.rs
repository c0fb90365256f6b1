//! Errors of validating a configuration.
use alloc::string::String;
use core::fmt;

use crate::kinds::NamespaceKind;
use crate::number_set::InvalidNumbers;

/// The reason why a configuration is invalid. Where runc reports the same error, its message is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invalid {
    /// `ociVersion` is not a semantic version of major version 1.
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
    /// A user or group id of `process.user` is -1, which means "no change" to the kernel.
    NoId,
    /// `process.user.umask` has bits other than permissions.
    Umask(u32),
    /// `process.oomScoreAdj` is out of range.
    OomScoreAdj(i32),
    /// An entry of `process.rlimits` has an unknown type.
    RlimitType(String),
    /// Two entries of `process.rlimits` have the same type.
    RlimitTwice(String),
    /// An entry of `process.rlimits` has a soft limit above its hard limit.
    RlimitSoft(String),
    /// `process.scheduler.policy` is missing or unknown.
    SchedulerPolicy(String),
    /// An entry of `process.scheduler.flags` is unknown.
    SchedulerFlag(String),
    /// `process.scheduler.nice` is out of range for its policy.
    SchedulerNice(i32, String),
    /// `process.scheduler.priority` is set for a policy without priorities.
    SchedulerPriority,
    /// `process.scheduler.runtime`, `deadline` or `period` is set for a policy other than `SCHED_DEADLINE`.
    SchedulerTimes,
    /// Times of `SCHED_DEADLINE` that the kernel refuses, in nanoseconds.
    SchedulerDeadline {
        /// `process.scheduler.runtime`.
        runtime: u64,
        /// `process.scheduler.deadline`.
        deadline: u64,
        /// `process.scheduler.period`.
        period: u64,
    },
    /// `process.ioPriority.class` is unknown.
    IoClass(String),
    /// `process.ioPriority.priority` is out of range.
    IoLevel(i32),
    /// An invalid list in `process.execCPUAffinity`.
    CpuAffinity(&'static str, InvalidNumbers),
    /// `hostname` without a uts namespace.
    Hostname,
    /// `domainname` without a uts namespace.
    Domainname,
    /// A mount without a destination.
    NoDestination,
    /// The bind mount with this destination has no source.
    BindWithoutSource(String),
    /// The idmapped mount with this destination is not a bind mount.
    IdMapWithoutBind(String),
    /// The idmapped mount with this destination has no user id mappings or no group id mappings.
    IdMapWithoutMappings(String),
    /// A hook in this list (such as `poststop`) has a path that is not absolute.
    HookPath(&'static str, String),
    /// A hook in this list (such as `poststop`) has a timeout of 0 or less.
    HookTimeout(&'static str, i64),
    /// Two entries of `linux.namespaces` have the same type.
    NamespaceTwice(NamespaceKind),
    /// The path of a namespace to join is not absolute.
    NamespacePath(NamespaceKind, String),
    /// A new user namespace with mappings of one type of ids (`uid` or `gid`, the missing one) only.
    NoMappings(&'static str),
    /// A mapping in this property (such as `linux.uidMappings`) has size 0 or exceeds the range of ids.
    MappingSize(&'static str),
    /// `linux.timeOffsets` without a time namespace.
    OffsetsWithoutTimeNamespace,
    /// `linux.timeOffsets` for a joined time namespace.
    OffsetsOfJoinedTimeNamespace,
    /// This key of `linux.timeOffsets` does not name a clock of time namespaces.
    OffsetClock(String),
    /// The entry of `linux.timeOffsets` with this key has 1,000,000,000 nanoseconds or more.
    OffsetNanoseconds(String),
    /// `linux.maskedPaths` or `readonlyPaths` without a mount namespace.
    MasksWithoutMountNamespace,
    /// `linux.rootfsPropagation` is not a propagation type.
    RootfsPropagation(String),
    /// `linux.personality.domain` is unknown.
    PersonalityDomain(String),
    /// `linux.personality.flags` is not empty, although the specification defines no flags.
    PersonalityFlag(String),
    /// `linux.memoryPolicy.mode` is unknown.
    MemoryMode(String),
    /// An entry of `linux.memoryPolicy.flags` is unknown.
    MemoryFlag(String),
    /// `linux.memoryPolicy.nodes` is not a list of nodes.
    MemoryNodes(String, InvalidNumbers),
    /// `linux.memoryPolicy.nodes` contains this number of nodes, and the mode allows none.
    MemoryNodesGiven(u32),
    /// `linux.memoryPolicy.nodes` is empty, and the mode requires nodes.
    MemoryNodesMissing,
    /// A device without a path.
    NoDevicePath,
    /// The device with this path has a major or minor number beyond the kernel's range.
    DeviceNumber(String),
    /// The device with this path has the owner or group -1, which means "no change" to the kernel.
    DeviceOwner(String),
    /// `linux.netDevices` is set without a network namespace to move the devices to.
    NetDeviceWithoutNamespace,
    /// An invalid name in `linux.netDevices`.
    NetDeviceName(String),
    /// `linux.intelRdt.closID` is not a valid directory name.
    ClosId(String),
    /// A line in this property of `linux.intelRdt` contains a line break or concerns another resource.
    Schema(&'static str, String),
    /// A sysctl name that is not a path below /proc/sys.
    SysctlName(String),
    /// A parameter of the ipc namespace in a container without an ipc namespace of its own.
    SysctlHostIpc(String),
    /// A parameter of the network namespace in a container without a network namespace of its own.
    SysctlHostNetwork(String),
    /// A parameter of the user namespace in a container without a user namespace of its own.
    SysctlHostUser(String),
    /// The sysctl `kernel.hostname`; the property `hostname` must be used instead.
    SysctlHostname(String),
    /// The sysctl `kernel.domainname`, with a value that differs from the property `domainname`.
    SysctlDomainname(String),
    /// A parameter that is not namespaced and applies to the whole host.
    SysctlNotNamespaced(String),
    /// A property that dayfly does not support.
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
                "process.user: 4294967295 (-1) is not a user or group id: the kernel takes it for \"no change\"",
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
            Self::SchedulerPolicy(policy) if policy.is_empty() => {
                f.write_str("scheduler policy is required")
            }
            Self::SchedulerPolicy(policy) => write!(f, "invalid scheduler policy: {policy}"),
            Self::SchedulerFlag(flag) => write!(f, "invalid scheduler flag: {flag}"),
            Self::SchedulerNice(nice, policy) => {
                write!(f, "invalid scheduler.nice: {nice} when scheduler.policy is {policy}")
            }
            Self::SchedulerPriority => f.write_str(
                "scheduler.priority can only be specified for SchedFIFO or SchedRR policy",
            ),
            Self::SchedulerTimes => f.write_str(
                "scheduler runtime/deadline/period can only be specified for SchedDeadline policy",
            ),
            Self::SchedulerDeadline { runtime, deadline, period } => write!(
                f,
                "sched_setattr: SCHED_DEADLINE takes 0 < runtime <= deadline <= period, in nanoseconds, and \
                 was given runtime {runtime}, deadline {deadline}, period {period}: invalid argument"
            ),
            Self::IoClass(class) => write!(f, "invalid ioPriority.Class: {class:?}"),
            Self::IoLevel(level) => write!(f, "invalid ioPriority.Priority: {level}"),
            Self::CpuAffinity(which, error) => write!(f, "bad CPUAffinity.{which}: {error}"),
            Self::Hostname => f.write_str("unable to set hostname without a private UTS namespace"),
            Self::Domainname => {
                f.write_str("unable to set domainname without a private UTS namespace")
            }
            Self::NoDestination => f.write_str("mount destination must not be empty"),
            Self::BindWithoutSource(mount) => {
                write!(f, "invalid mount {mount}: bind mount without a source")
            }
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
            Self::NoMappings(kind) => {
                write!(f, "user namespaces enabled, but no {kind} mappings found")
            }
            Self::MappingSize(property) => write!(
                f,
                "{property}: the size of a mapping must be at least 1 \
                 and its ids must not exceed 4294967295"
            ),
            Self::OffsetsWithoutTimeNamespace => f.write_str(
                "time namespace offsets specified, \
                 but time namespace isn't enabled in the config",
            ),
            Self::OffsetsOfJoinedTimeNamespace => f.write_str(
                "time namespace enabled, but both namespace path and time offsets specified \
                 -- you may only provide one",
            ),
            Self::OffsetClock(clock) => {
                write!(f, "linux.timeOffsets: {clock:?} is neither monotonic nor boottime")
            }
            Self::OffsetNanoseconds(clock) => {
                write!(f, "linux.timeOffsets.{clock}: nanosecs must be below 1000000000")
            }
            Self::MasksWithoutMountNamespace => {
                f.write_str("unable to restrict sys entries without a private MNT namespace")
            }
            Self::RootfsPropagation(word) => {
                write!(f, "rootfsPropagation={word} is not supported")
            }
            Self::PersonalityDomain(domain) => write!(f, "invalid personality domain {domain}"),
            Self::PersonalityFlag(flag) => {
                write!(f, "linux.personality: flag {flag:?} is not supported, nor is any other")
            }
            Self::MemoryMode(mode) => write!(f, "invalid memory policy mode {mode:?}"),
            Self::MemoryFlag(flag) => write!(f, "invalid memory policy flag {flag:?}"),
            Self::MemoryNodes(nodes, error) => {
                write!(f, "invalid memory policy nodes {nodes:?}: {error}")
            }
            Self::MemoryNodesGiven(count) => {
                write!(f, "memory policy mode requires 0 nodes but got {count}")
            }
            Self::MemoryNodesMissing => {
                f.write_str("memory policy mode requires at least one node but got 0")
            }
            Self::NoDevicePath => f.write_str("device path must not be empty"),
            Self::DeviceNumber(path) => {
                write!(f, "device {path}: major must be 0 to 4095, minor 0 to 1048575")
            }
            Self::DeviceOwner(path) => write!(
                f,
                "device {path}: 4294967295 (-1) is not a user or group id: the kernel takes it for \"no change\""
            ),
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
            Self::SysctlDomainname(name) => write!(
                f,
                "sysctl {name:?} is not allowed as it conflicts with the OCI \"domainname\" field"
            ),
            Self::SysctlNotNamespaced(name) => {
                write!(f, "sysctl {name:?} is not in a separate kernel namespace")
            }
            Self::Unsupported(property) => write!(f, "{property} is not supported yet by dayfly"),
        }
    }
}

impl core::error::Error for Invalid {}
