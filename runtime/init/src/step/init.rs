//! What init does.

use core::ffi::CStr;

use rustix::process::Gid;
use rustix::thread::CpuSet;
use sys::clone::CloneFlags;
use sys::exec::StringArray;
use sys::mount::MountAttr;
use sys::sched::Attributes;

use super::{
    AttachBind, BindSource, CloneTree, DeviceSource, Hooks, Limit, Link, MountFs, Node, Parameter,
    Slot, Target,
};

/// What init does, in order.
#[derive(Debug, Clone, Copy)]
pub enum InitStep<'a> {
    /// Moves into the cgroups of the v1 hierarchies.
    JoinCgroups,
    /// Runs on these CPUs from now on, as far as the cgroup has them.
    RunOn(&'a CpuSet),
    /// Runs on every CPU that its cgroup has, whatever CPUs the caller was tied to (as runc since 1.2).
    RunOnEveryCpu,
    /// Makes a procfs of the PID namespace it is in, attached nowhere, for [`Slot::PROC`], which had the host's.
    OpenProc,
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
    /// Makes a time namespace and enters it. This process must not share its memory (Linux 5.6).
    EnterTime {
        /// What is written to its timens_offsets.
        offsets: &'a str,
        /// Nanoseconds by which its monotonic clock is ahead.
        ahead: i64,
    },
    /// Makes itself untraceable until its exec, in memory of its own.
    Undumpable,
    /// Takes a detached copy of a mount tree, where only init may take mounts.
    CloneTree(CloneTree<'a>),
    /// Takes a detached copy of a device node, where only init may.
    CloneDevice(DeviceSource<'a>),
    /// Becomes uid 0 and gid 0 of the user namespace.
    BecomeRoot,
    /// Leaves namespaces for new ones: the cgroup namespace, whose root is the cgroup it is in, and
    /// the mount namespace where it joined the template.
    Unshare(CloneFlags),
    /// Joins the network namespace that is being made meanwhile.
    JoinNetwork,
    /// Has SELinux label the keys that are made from now on; empty for no more.
    LabelKeys(&'a str),
    /// Joins a new session keyring.
    JoinKeyring {
        /// `_ses.` and the container's id.
        name: &'a CStr,
    },
    /// Starts a session of its own.
    NewSession,
    /// Brings `lo` up.
    LoopbackUp,
    /// Sets the host name.
    SetHostname(&'a str),
    /// Sets the NIS domain name.
    SetDomainname(&'a str),
    /// Cuts the mount namespace off from the host's: what happens inside does not travel out.
    DetachPropagation,
    /// Attaches the root filesystem.
    AttachRoot {
        /// On the host; where hooks look for it.
        path: &'a CStr,
    },
    /// Attaches a tree that the parent took.
    AttachTree {
        /// The tree.
        slot: Slot,
        /// Where.
        target: Target<'a>,
    },
    /// Attaches a bind mount whose source is in the root, or one that has symbolic links left as they are.
    AttachBind(AttachBind<'a>),
    /// Makes and attaches a filesystem.
    MountFs(MountFs<'a>),
    /// Makes device nodes in one directory.
    MakeDevices {
        /// In the root.
        directory: &'a CStr,
        /// The nodes.
        nodes: &'a [Node<'a>],
    },
    /// Makes symbolic links in one directory.
    MakeLinks {
        /// In the root.
        directory: &'a CStr,
        /// The links.
        links: &'a [Link<'a>],
    },
    /// Makes a directory with its parents.
    MakeDirectory {
        /// In the root.
        path: &'a CStr,
    },
    /// Lets the parent run prestart and createRuntime hooks.
    AwaitHooks,
    /// Runs hooks itself.
    RunHooks {
        /// The hooks.
        hooks: Hooks<'a>,
        /// As with [`InitStep::Exec`], for those with the process's environment.
        home_of: Option<u32>,
        /// Where the filter is not loaded yet: what each hook does to itself before its exec.
        confined: Option<Confined>,
    },
    /// Makes the root filesystem the root, and lets go of the host's.
    PivotRoot,
    /// Makes the root filesystem the root where nothing of the host is below it.
    EnterRoot,
    /// Makes the root of a container that has no mount namespace the own one.
    EnterRootOf {
        /// A directory.
        slot: Slot,
    },
    /// Makes the root filesystem the root without pivot_root(2) (`--no-pivot`). Of the host's mounts below it those of
    /// the kernel are taken away, since who sees one in full may mount a fresh one in a user namespace.
    ChangeRoot {
        /// Whether they cannot be, and are covered instead: a user namespace has them from its parent.
        locked: bool,
    },
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
        path: &'a CStr,
    },
    /// Changes options of the file system that is mounted at a place in the root (`remount`).
    Reconfigure {
        /// In the root.
        path: &'a CStr,
        /// A flag, or key and value. Without any, that something is mounted there is all that is asked.
        parameters: &'a [Parameter<'a>],
    },
    /// Sets mount attributes at a place in the root.
    SetMountAttr {
        /// In the root; empty for the root itself.
        path: &'a CStr,
        /// With the mounts below it.
        recursive: bool,
        /// What to change.
        attr: MountAttr,
    },
    /// Writes a kernel parameter of the container's namespaces.
    WriteSysctl {
        /// In procfs: `sys/net/ipv4/…`.
        path: &'a CStr,
        /// The value.
        value: &'a str,
    },
    /// Covers a path so that it reads as nothing.
    MaskPath {
        /// In the root.
        path: &'a CStr,
        /// Whether what covers directories is shared by all that are masked.
        shared: bool,
        /// The SELinux label of what covers directories.
        context: Option<&'a CStr>,
    },
    /// Makes a path read-only.
    ReadonlyPath {
        /// In the root.
        path: &'a CStr,
    },
    /// Sets resource limits, before the user changes.
    LimitResources(&'a [Limit]),
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
        /// Memory nodes, number 0 the lowest bit of the first word.
        nodes: &'a [u64; 16],
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
        path: &'a CStr,
    },
    /// Gives the standard streams to the user, and changes groups and user, keeping capabilities.
    ChangeUser {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
        /// Supplementary groups; `None` where setgroups(2) is denied.
        groups: Option<&'a [Gid]>,
        /// What becomes of standard streams that are the host's /dev/null, where the container has none.
        without_null: WithoutNull,
    },
    /// Proves that the working directory lies inside the root (CVE-2024-21626).
    VerifyDirectory,
    /// Sets the capability sets.
    SetCapabilities(Capabilities),
    /// Forbids gaining privileges by exec.
    NoNewPrivileges,
    /// Has AppArmor change the profile at the exec: `exec` and the profile.
    ApplyProfile(&'a str),
    /// Has SELinux change the label at the exec.
    LabelProcess(&'a str),
    /// Finds the program.
    FindProgram {
        /// Paths in the order to try.
        candidates: &'a [&'a CStr],
        /// What was asked for.
        name: &'a str,
        /// Whether `PATH` is searched.
        searched: bool,
    },
    /// Closes what was leaked to us, on exec.
    CloseFds {
        /// The first descriptor to close.
        from: u32,
    },
    /// Tells the parent that all is set up.
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
    /// Tells the parent where the filter's listener is, and lets go of it once that has a copy.
    HandOverListener,
    /// Becomes the container's process.
    Exec {
        /// Its arguments.
        argv: StringArray<'a>,
        /// Its environment.
        envp: StringArray<'a>,
        /// If HOME is to be added: the user whose home directory the container's /etc/passwd has.
        home_of: Option<u32>,
    },
}

impl InitStep<'_> {
    /// Whether a child of the process that does this has its effect as well.
    pub fn is_inherited(&self) -> bool {
        matches!(
            self,
            Self::JoinCgroups
                | Self::RunOn(_)
                | Self::RunOnEveryCpu
                | Self::JoinNamespace { .. }
                | Self::JoinProcess { .. }
                | Self::Unshare(_)
                | Self::EnterRootOf { .. }
        )
    }

    /// The slots that it reads.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let slots = match self {
            Self::JoinNamespace { slot, .. }
            | Self::JoinProcess { slot, .. }
            | Self::EnterRootOf { slot } => [Some(*slot), None],
            Self::AttachTree { slot, .. } => [Some(*slot), Some(Slot::ROOT)],
            Self::AttachBind(bind) => match &bind.source {
                BindSource::Taken(slot) => [Some(*slot), Some(Slot::ROOT)],
                BindSource::Inside(tree) => {
                    [tree.id_map.map(|map| map.user_namespace), Some(Slot::ROOT)]
                }
            },
            Self::CloneTree(tree) => [tree.id_map.map(|map| map.user_namespace), None],
            Self::JoinNetwork => [Some(Slot::NETWORK), None],
            Self::LabelKeys(_)
            | Self::ApplyProfile(_)
            | Self::LabelProcess(_)
            | Self::EnterTime { .. }
            | Self::WriteSysctl { .. } => [Some(Slot::PROC), None],
            Self::MakeLinks { .. } | Self::ChangeRoot { .. } => {
                [Some(Slot::PROC), Some(Slot::ROOT)]
            }
            Self::MaskPath { .. } => [Some(Slot::NULL), Some(Slot::ROOT)],
            Self::OpenConsole { .. } => [Some(Slot::CONSOLE), Some(Slot::ROOT)],
            Self::AwaitStart => [Some(Slot::START), None],
            Self::AttachRoot { .. }
            | Self::MountFs(_)
            | Self::MakeDevices { .. }
            | Self::MakeDirectory { .. }
            | Self::PivotRoot
            | Self::EnterRoot
            | Self::SetMountAttr { .. }
            | Self::Reconfigure { .. }
            | Self::FreezeTmpfs { .. }
            | Self::ReadonlyPath { .. } => [Some(Slot::ROOT), None],
            Self::JoinCgroups
            | Self::RunOn(_)
            | Self::RunOnEveryCpu
            | Self::OpenProc
            | Self::AwaitAdmission
            | Self::Undumpable
            | Self::CloneDevice(_)
            | Self::BecomeRoot
            | Self::Unshare(_)
            | Self::JoinKeyring { .. }
            | Self::NewSession
            | Self::LoopbackUp
            | Self::SetHostname(_)
            | Self::SetDomainname(_)
            | Self::DetachPropagation
            | Self::AwaitHooks
            | Self::RunHooks { .. }
            | Self::LimitResources(_)
            | Self::SetScheduler(_)
            | Self::SetIoPriority(_)
            | Self::SetPersonality(_)
            | Self::SetMemoryPolicy { .. }
            | Self::SetUmask(_)
            | Self::LimitCapabilities { .. }
            | Self::ChangeDirectory { .. }
            | Self::ChangeUser { .. }
            | Self::VerifyDirectory
            | Self::SetCapabilities(_)
            | Self::NoNewPrivileges
            | Self::FindProgram { .. }
            | Self::CloseFds { .. }
            | Self::AnnounceReady
            | Self::AwaitCommit
            | Self::ReleaseDescriptors { .. }
            | Self::LoadSeccomp { .. }
            | Self::HandOverListener
            | Self::Exec { .. } => [None, None],
        };
        slots.into_iter().flatten()
    }
}

/// A process that loads the plan's seccomp filter, and then sets its last capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    /// Those that change with the filter.
    pub capabilities: Option<Capabilities>,
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

/// What becomes of standard streams that are the host's /dev/null where the container has no /dev/null, or another file of
/// that name. The host's is not for the root of a container, who could change its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutNull {
    /// The container does not start.
    Refuse,
    /// They stay where there is no file of that name: all of /dev is bound from outside.
    Keep,
    /// They become a device of nobody else's. Root of a user namespace may not make one: there standard input is an
    /// empty pipe, which ends at once as well, and output, which has nowhere to go, is refused.
    Private,
}
