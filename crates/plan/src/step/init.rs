//! What init does.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use rustix::process::Gid;
use sys::clone::CloneFlags;
use sys::exec::StringArray;
use sys::mount::MountAttr;
use sys::sched::Attributes;

use super::{CloneTree, DeviceSource, Hooks, Limit, Link, MountFs, Node, NumberSet, Slot, Target};

/// What init does, in order.
#[derive(Debug)]
pub enum InitStep {
    /// Moves into the cgroups of the v1 hierarchies.
    JoinCgroups,
    /// Runs on these CPUs from now on, as far as the cgroup has them.
    RunOn(Box<NumberSet>),
    /// Runs on every CPU that its cgroup has, whatever CPUs the caller was tied to (as runc since 1.2).
    RunOnEveryCpu,
    /// Joins a namespace.
    JoinNamespace {
        /// The namespace's descriptor.
        slot: Slot,
        /// Its type.
        kind: CloneFlags,
    },
    /// Joins namespaces of the process behind a pidfd.
    JoinProcess {
        /// The pidfd.
        slot: Slot,
        /// Which of its namespaces.
        kinds: CloneFlags,
    },
    /// Waits for what must come from outside: id mappings, resource limits.
    AwaitAdmission,
    /// As [`HostStep::Undumpable`](super::HostStep::Undumpable), in memory of its own.
    Undumpable,
    /// As [`HostStep::CloneTree`](super::HostStep::CloneTree), where only init may take mounts.
    CloneTree(CloneTree),
    /// As [`HostStep::CloneDevice`](super::HostStep::CloneDevice).
    CloneDevice(DeviceSource),
    /// Becomes uid 0 and gid 0 of the user namespace.
    BecomeRoot,
    /// Leaves namespaces for new ones: the cgroup namespace, whose root is the cgroup it is in, and
    /// the mount namespace where it joined the template.
    Unshare(CloneFlags),
    /// Joins the network namespace that is being made meanwhile.
    JoinNetwork,
    /// Has SELinux label the keys that are made from now on; empty for no more.
    LabelKeys(String),
    /// Joins a new session keyring.
    JoinKeyring {
        /// `_ses.` and the container's id.
        name: CString,
    },
    /// Starts a session of its own.
    NewSession,
    /// Brings `lo` up.
    LoopbackUp,
    /// Sets the host name.
    SetHostname(String),
    /// Sets the NIS domain name.
    SetDomainname(String),
    /// Cuts the mount namespace off from the host's: what happens inside does not travel out.
    DetachPropagation,
    /// Attaches the root filesystem.
    AttachRoot {
        /// On the host; where hooks look for it.
        path: CString,
    },
    /// Attaches a tree that the host actor took.
    AttachTree {
        /// The tree.
        slot: Slot,
        /// Where.
        target: Target,
    },
    /// Makes and attaches a filesystem.
    MountFs(MountFs),
    /// Makes device nodes in one directory.
    MakeDevices {
        /// In the root.
        directory: CString,
        /// The nodes.
        nodes: Vec<Node>,
    },
    /// Makes symbolic links in one directory.
    MakeLinks {
        /// In the root.
        directory: CString,
        /// The links.
        links: Vec<Link>,
    },
    /// Makes a directory with its parents.
    MakeDirectory {
        /// In the root.
        path: CString,
    },
    /// Lets the host actor run prestart and createRuntime hooks.
    AwaitHooks,
    /// Runs hooks itself.
    RunHooks(Hooks),
    /// Makes the root filesystem the root, and lets go of the host's.
    PivotRoot,
    /// Makes the root filesystem the root where nothing of the host is below it.
    EnterRoot,
    /// Makes the root of a container that has no mount namespace the own one.
    EnterRootOf {
        /// A directory.
        slot: Slot,
    },
    /// Makes the root filesystem the root without pivot_root(2) (`--no-pivot`).
    ChangeRoot,
    /// Opens a terminal in the container's devpts, sends its master out, and makes its other end
    /// standard input, output and error.
    OpenConsole {
        /// Rows and columns, if given.
        size: Option<(u16, u16)>,
        /// The owner of the terminal.
        uid: u32,
        /// Whether to bind it to /dev/console.
        bind: bool,
        /// Whether it is carried to the terminal of the command, which makes the line ends then.
        carried: bool,
    },
    /// Makes a tmpfs itself read-only: attributes of a mount that is part of no mount namespace, and not
    /// the root of its tree, can't be changed.
    FreezeTmpfs {
        /// In the root.
        path: CString,
    },
    /// Changes options of the file system that is mounted at a place in the root (`remount`).
    Reconfigure {
        /// In the root.
        path: CString,
        /// A flag, or key and value. Without any, that something is mounted there is all that is asked.
        parameters: Vec<(CString, Option<CString>)>,
    },
    /// Sets mount attributes at a place in the root.
    SetMountAttr {
        /// In the root; empty for the root itself.
        path: CString,
        /// With the mounts below it.
        recursive: bool,
        /// What to change.
        attr: MountAttr,
    },
    /// Writes a kernel parameter of the container's namespaces.
    WriteSysctl {
        /// In procfs: `sys/net/ipv4/…`.
        path: CString,
        /// The value.
        value: String,
    },
    /// Covers a path so that it reads as nothing.
    MaskPath {
        /// In the root.
        path: CString,
        /// Whether what covers directories is shared by all that are masked.
        shared: bool,
        /// The SELinux label of what covers directories.
        context: Option<CString>,
    },
    /// Makes a path read-only.
    ReadonlyPath {
        /// In the root.
        path: CString,
    },
    /// Sets resource limits, before the user changes.
    LimitResources(Vec<Limit>),
    /// Sets scheduling policy and parameters.
    SetScheduler(Attributes),
    /// Sets the I/O priority: class and level, as ioprio_set(2) takes them.
    SetIoPriority(u16),
    /// Sets the execution domain, as personality(2) numbers it.
    SetPersonality(u32),
    /// Sets the NUMA memory policy.
    SetMemoryPolicy {
        /// Mode and flags, as set_mempolicy(2) numbers them.
        mode: u32,
        /// Memory nodes.
        nodes: Box<NumberSet>,
    },
    /// Sets the file mode creation mask.
    SetUmask(u32),
    /// Gives up capabilities for good.
    LimitCapabilities {
        /// Bits to drop from the bounding set.
        drop: u64,
    },
    /// Enters the working directory, now or (if root may not) as the user.
    ChangeDirectory {
        /// In the container.
        path: CString,
    },
    /// Changes groups and user, keeping capabilities.
    ChangeUser {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
        /// Supplementary groups; `None` where setgroups(2) is denied.
        groups: Option<Vec<Gid>>,
    },
    /// Proves that the working directory lies inside the root (CVE-2024-21626).
    VerifyDirectory,
    /// Sets the capability sets.
    SetCapabilities(Capabilities),
    /// Forbids gaining privileges by exec.
    NoNewPrivileges,
    /// Has AppArmor change the profile at the exec: `exec` and the profile.
    ApplyProfile(String),
    /// Has SELinux change the label at the exec.
    LabelProcess(String),
    /// Finds the program.
    FindProgram {
        /// Paths in the order to try.
        candidates: Vec<CString>,
        /// What was asked for.
        name: String,
        /// Whether `PATH` is searched.
        searched: bool,
    },
    /// Closes what was leaked to us, on exec.
    CloseFds {
        /// The first descriptor to close.
        from: u32,
    },
    /// Tells the host actor that all is set up.
    AnnounceReady,
    /// Waits until it is on record.
    AwaitCommit,
    /// Closes every descriptor that is no longer needed. Whoever is let into the container while init is
    /// still in it, by exec or as a hook, could reach them through /proc/1/fd (the lesson of
    /// CVE-2024-21626).
    ReleaseDescriptors {
        /// Descriptors below are the process's own.
        from: u32,
    },
    /// Waits for the `start` command.
    AwaitStart,
    /// Loads the seccomp filter.
    LoadSeccomp {
        /// Its length; the filter is the plan's.
        instructions: usize,
    },
    /// Tells the host actor where the filter's listener is, and lets go of it once that has a copy.
    HandOverListener,
    /// Becomes the container's process.
    Exec {
        /// Its arguments.
        argv: StringArray,
        /// Its environment.
        envp: StringArray,
        /// If HOME is to be added: the user whose home directory the container's /etc/passwd has.
        home_of: Option<u32>,
    },
}

/// Capability sets as bit masks (capabilities(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Effective.
    pub effective: u64,
    /// Permitted.
    pub permitted: u64,
    /// Inheritable.
    pub inheritable: u64,
    /// Ambient.
    pub ambient: u64,
}
