//! Init's steps.

use core::ffi::CStr;

use rustix::process::Gid;
use rustix::termios::Winsize;
use rustix::thread::CpuSet;
use sys::clone::CloneFlags;
use sys::exec::StringArray;
use sys::mount::MountAttr;
use sys::sched::Attributes;

use super::{
    AttachBind, BindSource, CloneTree, DeviceSource, Hooks, Limit, Link, MountFs, Node, Parameter,
    Slot, Target,
};

/// Init's steps, in order.
#[derive(Debug, Clone, Copy)]
pub enum InitStep<'a> {
    /// Joins the cgroups in which init was not created: the cgroups of v1 hierarchies always, and the v2 cgroup if
    /// CLONE_INTO_CGROUP was not used.
    JoinCgroups,
    /// Sets the CPU affinity, limited to the cgroup's CPUs.
    RunOn(&'a CpuSet),
    /// Resets the CPU affinity to every CPU of the cgroup, whatever the caller's affinity was (like runc since 1.2).
    RunOnEveryCpu,
    /// Creates a detached procfs of init's PID namespace for [`Slot::PROC`], in place of the host's procfs.
    OpenProc,
    /// Joins a namespace.
    JoinNamespace {
        /// The namespace's descriptor.
        slot: Slot,
        /// The namespace's type.
        kind: CloneFlags,
    },
    /// Joins namespaces of the process behind a pidfd.
    JoinProcess {
        /// The pidfd.
        slot: Slot,
        /// The types of namespaces to join.
        kinds: CloneFlags,
    },
    /// Waits until the parent has written the id mappings and set the resource limits.
    AwaitAdmission,
    /// Creates a time namespace (Linux 5.6) and enters it. Init must not share the parent's memory.
    EnterTime {
        /// The text for the file timens_offsets.
        offsets: &'a str,
        /// The number of nanoseconds by which the namespace's monotonic clock is ahead of the host's.
        ahead: i64,
    },
    /// Makes init undumpable, and so untraceable, until its exec. Used only if init does not share the parent's memory.
    Undumpable,
    /// Makes a detached copy of a mount tree. Used if init may do this and the parent may not.
    CloneTree(CloneTree<'a>),
    /// Makes a detached bind mount of a device node. Used if init may do this and the parent may not.
    CloneDevice(DeviceSource<'a>),
    /// Becomes uid 0 and gid 0 of the user namespace.
    BecomeRoot,
    /// Unshares namespaces: the cgroup namespace, whose root becomes the current cgroup; the mount namespace, if init
    /// joined the blank namespace; and the IPC namespace, if init is in a user namespace.
    Unshare(CloneFlags),
    /// Waits for the network namespace that the network maker creates, and joins it.
    JoinNetwork,
    /// Sets the SELinux label for new keys; an empty label restores the default.
    LabelKeys(&'a str),
    /// Joins a new session keyring.
    JoinKeyring {
        /// `_ses.` and the container's id.
        name: &'a CStr,
    },
    /// Starts a new session.
    NewSession,
    /// Brings `lo` up.
    LoopbackUp,
    /// Sets the host name.
    SetHostname(&'a str),
    /// Sets the NIS domain name.
    SetDomainname(&'a str),
    /// Makes the mount namespace's mounts slaves: the namespace's mount events do not propagate to the host.
    DetachPropagation,
    /// Attaches the root filesystem.
    AttachRoot {
        /// The root filesystem's path on the host, where hooks look for it.
        path: &'a CStr,
    },
    /// Attaches a tree opened by the parent.
    AttachTree {
        /// The tree.
        slot: Slot,
        /// The mount point.
        target: Target<'a>,
    },
    /// Attaches a bind mount whose source is in the root, or that does not follow symbolic links.
    AttachBind(AttachBind<'a>),
    /// Creates a filesystem, which a later step attaches.
    MakeTree {
        /// The slot for the tree.
        slot: Slot,
        /// The filesystem.
        filesystem: MountFs<'a>,
    },
    /// Creates and attaches a filesystem.
    MountFs(MountFs<'a>),
    /// Creates device nodes in one directory.
    MakeDevices {
        /// The directory's path in the root.
        directory: &'a CStr,
        /// The nodes.
        nodes: &'a [Node<'a>],
    },
    /// Creates symbolic links in one directory.
    MakeLinks {
        /// The directory's path in the root.
        directory: &'a CStr,
        /// The links.
        links: &'a [Link<'a>],
    },
    /// Creates a directory with its parents.
    MakeDirectory {
        /// The directory's path in the root.
        path: &'a CStr,
    },
    /// Waits while the parent runs prestart and createRuntime hooks.
    AwaitHooks,
    /// Runs hooks in init.
    RunHooks {
        /// The hooks.
        hooks: Hooks<'a>,
        /// See [`InitStep::Exec`]; used for hooks with the process's environment.
        home_of: Option<u32>,
        /// The confinement that each hook's process applies to itself before its exec, if the filter is not loaded yet.
        confined: Option<Confined>,
    },
    /// Makes the root filesystem the root with pivot_root(2), and detaches the host's mounts.
    PivotRoot,
    /// Makes the root filesystem the root with chroot(2). Used if init's mount namespace is a copy of the blank
    /// namespace, or if the container has no mount namespace.
    EnterRoot,
    /// Changes the root to the root of a container without a mount namespace.
    EnterRootOf {
        /// The root directory.
        slot: Slot,
    },
    /// Makes the root filesystem the root without pivot_root(2) (`--no-pivot`). The host's mounts stay below it, except
    /// procfs and sysfs: a process that sees a complete procfs or sysfs may mount a fresh one in a user namespace.
    ChangeRoot {
        /// Whether proc and sysfs cannot be unmounted and are covered instead: a process in a user namespace cannot
        /// unmount mounts that were copied from the parent mount namespace.
        locked: bool,
    },
    /// Opens a terminal in the container's devpts, sends its master, and makes its slave standard input, output and
    /// error.
    OpenConsole {
        /// The terminal's size, if it is known.
        size: Option<Winsize>,
        /// The owner of the terminal.
        uid: u32,
        /// Whether to bind-mount the terminal's slave at /dev/console.
        bind: bool,
        /// Whether the command copies the terminal's data to its own terminal, which then
        /// translates line ends.
        carried: bool,
    },
    /// Makes the superblock of a tmpfs that init has created read-only. Used if the mount is in no mount namespace and
    /// is not the root of its tree, because mount_setattr(2) cannot change such a mount.
    FreezeTmpfs {
        /// The mount.
        slot: Slot,
        /// The mount's path in the root, for messages.
        path: &'a CStr,
    },
    /// Opens the mount at a path in the root for a later step that changes it: by then, another mount may cover it.
    OpenMount {
        /// The slot for the mount.
        slot: Slot,
        /// The mount's path in the root.
        path: &'a CStr,
    },
    /// Changes options of the file system mounted at a path in the root (`remount`).
    Reconfigure {
        /// The mount's path in the root.
        path: &'a CStr,
        /// Flags, or keys and values. If empty, the step only checks that something is mounted there.
        parameters: &'a [Parameter<'a>],
    },
    /// Sets mount attributes at a path in the root.
    SetMountAttr {
        /// The mount, if an earlier step has opened or created it; otherwise the path is resolved.
        slot: Option<Slot>,
        /// The mount's path in the root; empty for the root itself.
        path: &'a CStr,
        /// Whether mounts below the path are included.
        recursive: bool,
        /// The attributes to change.
        attr: MountAttr,
    },
    /// Writes a kernel parameter of the container's namespaces.
    WriteSysctl {
        /// The parameter's path in procfs: `sys/net/ipv4/…`.
        path: &'a CStr,
        /// The value.
        value: &'a str,
    },
    /// Covers a path so that it appears empty.
    MaskPath {
        /// The covered path in the root.
        path: &'a CStr,
        /// Whether all masked directories are covered by mounts of one empty directory.
        shared: bool,
        /// The SELinux label of a directory's cover.
        context: Option<&'a CStr>,
    },
    /// Makes a path read-only.
    ReadonlyPath {
        /// The path in the root.
        path: &'a CStr,
    },
    /// Sets resource limits, before the user changes.
    LimitResources(&'a [Limit]),
    /// Sets scheduling policy and parameters.
    SetScheduler(Attributes),
    /// Sets the I/O priority: class and level in ioprio_set(2)'s encoding.
    SetIoPriority(u16),
    /// Sets the execution domain, in personality(2)'s numbering.
    SetPersonality(u32),
    /// Sets the NUMA memory policy.
    SetMemoryPolicy {
        /// Mode and flags in set_mempolicy(2)'s encoding.
        mode: u32,
        /// Memory nodes; node 0 is the lowest bit of the first word.
        nodes: &'a [u64; 16],
    },
    /// Sets the file mode creation mask.
    SetUmask(u32),
    /// Drops capabilities from the bounding set. This cannot be undone.
    LimitCapabilities {
        /// Bits to drop from the bounding set.
        drop: u64,
    },
    /// Enters the working directory as root. If root may not enter it, init enters it later as the user.
    ChangeDirectory {
        /// The directory's path in the container.
        path: &'a CStr,
    },
    /// Makes the user the owner of the standard streams, and then changes groups and user. The permitted capabilities
    /// are kept.
    ChangeUser {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
        /// Supplementary groups; `None` where setgroups(2) is denied.
        groups: Option<&'a [Gid]>,
        /// The treatment of standard streams that are the host's /dev/null, if the container has none.
        without_null: WithoutNull,
    },
    /// Verifies that the working directory lies inside the root (CVE-2024-21626).
    VerifyDirectory,
    /// Sets the capability sets.
    SetCapabilities(Capabilities),
    /// Sets no_new_privs.
    NoNewPrivileges,
    /// Makes AppArmor change the profile at exec. The text is `exec` and the profile's name.
    ApplyProfile(&'a str),
    /// Makes SELinux change the label at exec.
    LabelProcess(&'a str),
    /// Finds the program.
    FindProgram {
        /// Paths in the order to try.
        candidates: &'a [&'a CStr],
        /// The requested name.
        name: &'a str,
        /// Whether `PATH` was searched.
        searched: bool,
    },
    /// Sets close-on-exec on all descriptors from a number on, including descriptors that the caller has leaked.
    CloseFds {
        /// The first of these descriptors.
        from: u32,
    },
    /// Reports to the parent that the set-up is complete.
    AnnounceReady,
    /// Waits until the container is recorded. The message may announce a process that a template has forked to run as
    /// the program.
    AwaitCommit,
    /// Closes every descriptor that is no longer needed. Processes that enter the container before init's exec, by
    /// `exec` or as a hook, could reach these descriptors through /proc/1/fd (as in CVE-2024-21626).
    ReleaseDescriptors {
        /// Descriptors below this number are the process's own.
        from: u32,
    },
    /// Waits for the `start` command.
    AwaitStart,
    /// Loads the seccomp filter.
    LoadSeccomp {
        /// The length of the filter; the filter itself is in the plan.
        instructions: usize,
    },
    /// Reports the filter's listener to the parent, and closes it once the parent has a copy.
    HandOverListener,
    /// Creates the process that runs the remaining steps, and remains as its reaper: the first process of a template's
    /// PID namespace. The socket in [`Slot::REQUESTS`] is passed to the program.
    BecomeReaper,
    /// Passes the socket in [`Slot::REQUESTS`] to the program, a template that is to be saved.
    PassRequests,
    /// Lets the process that a template has forked run as the container's program, and remains as its stand-in. The
    /// remaining steps are what that process has done itself; init does not run them.
    StandIn,
    /// Executes the container's program.
    Exec {
        /// The program's arguments.
        argv: StringArray<'a>,
        /// The program's environment.
        envp: StringArray<'a>,
        /// The user whose home directory in the container's /etc/passwd becomes HOME; `None` if
        /// HOME need not be added.
        home_of: Option<u32>,
    },
}

impl InitStep<'_> {
    /// Returns whether the intermediate may perform this step in init's place, because init inherits the effect.
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

    /// Returns the slots that the step reads.
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
            Self::BecomeReaper | Self::PassRequests => [Some(Slot::REQUESTS), None],
            Self::StandIn => [Some(Slot::STAND_IN), None],
            Self::AttachRoot { .. }
            | Self::MountFs(_)
            | Self::MakeDevices { .. }
            | Self::MakeDirectory { .. }
            | Self::PivotRoot
            | Self::EnterRoot
            | Self::OpenMount { .. }
            | Self::Reconfigure { .. }
            | Self::ReadonlyPath { .. } => [Some(Slot::ROOT), None],
            Self::SetMountAttr { slot, .. } => [Some(slot.unwrap_or(Slot::ROOT)), None],
            Self::FreezeTmpfs { slot, .. } => [Some(*slot), None],
            Self::JoinCgroups
            | Self::RunOn(_)
            | Self::RunOnEveryCpu
            | Self::OpenProc
            | Self::AwaitAdmission
            | Self::Undumpable
            | Self::CloneDevice(_)
            | Self::MakeTree { .. }
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

/// The confinement of a hook's process, which loads the plan's seccomp filter and then sets its final capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    /// The capability sets to set once the filter is loaded.
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

/// The treatment of standard streams that are the host's /dev/null, if the container has no /dev/null or has another
/// file at that path. The container's root must not get such a stream, because it could change the mode of the host's
/// inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutNull {
    /// The container does not start.
    Refuse,
    /// If the container has no file at that path, the streams are left unchanged, because all of /dev is a bind mount.
    /// If it has another file there, the container does not start.
    Keep,
    /// The streams are replaced by a private null device. Root of a user namespace cannot create one: in that case
    /// standard input becomes an empty pipe, which also returns end-of-file at once, and a start with standard output
    /// or error on /dev/null is refused.
    Private,
}
