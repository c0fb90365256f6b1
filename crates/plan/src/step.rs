//! The steps: what the host actor and the init actor do, one variant a kernel object.
//!
//! A step is pure data. Everything init needs is laid out here, so that between clone and exec it
//! only issues system calls.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use rustix::process::{Gid, Resource};
use sys::clone::CloneFlags;
use sys::exec::StringArray;
use sys::mount::MountAttr;
use sys::sched::Attributes;

pub use spec::NumberSet;

/// A numbered place for a descriptor that the host actor opens and init uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(pub u16);

impl Slot {
    /// The host's procfs, opened before anything of the container exists (DESIGN: private procfs).
    pub const PROC: Self = Self(0);
    /// The root filesystem's tree.
    pub const ROOT: Self = Self(1);
    /// The console socket.
    pub const CONSOLE: Self = Self(2);
    /// The socket that `start` connects to; the caller of the launcher provides it.
    pub const START: Self = Self(3);
    /// The host's /dev/null, detached.
    pub const NULL: Self = Self(4);
    /// The pidfd of the container that an exec enters; the caller provides it.
    pub const CONTAINER: Self = Self(5);
    /// The template mount namespace; the caller provides it.
    pub const TEMPLATE: Self = Self(6);
    /// The socket over which init gets its network namespace.
    pub const NETWORK: Self = Self(7);
    /// The cgroup's device program, loaded, where the caller has it.
    pub const DEVICES: Self = Self(8);
    /// The first slot that compile hands out.
    pub const FIRST_FREE: Self = Self(9);
}

/// What the host actor does, in order.
#[derive(Debug)]
pub enum HostStep {
    /// Makes this process and the init it makes untraceable by what init will share namespaces with,
    /// until init's exec.
    Undumpable,
    /// Opens the host's procfs and verifies that it is one.
    OpenProc,
    /// Fails where the kernel has not this security module at work.
    RequireModule(SecurityModule),
    /// Makes a user namespace for nothing but its mappings.
    MakeUserNamespace {
        /// Where it goes.
        slot: Slot,
        /// Its mappings.
        maps: IdMaps,
    },
    /// Takes a detached copy of a mount tree and gives it its final attributes.
    CloneTree(CloneTree),
    /// Takes copies of what has the layers of the root filesystem, with ids as in a user namespace.
    MapLayers {
        /// The user namespace; none leaves the ids.
        user_namespace: Option<Slot>,
    },
    /// Opens the layers, and hands each to overlayfs.
    OpenLayers,
    /// Makes what takes the changes.
    MakeUpper,
    /// Mounts the overlay, attached nowhere yet, for [`Slot::ROOT`].
    AssembleRootfs,
    /// Takes away what older kernels need on the host while the overlay is mounted.
    DetachLayers,
    /// Copies the files of all layers, for [`Slot::ROOT`].
    CopyLayers,
    /// Takes a detached copy of a device node, verified by type and number (CVE-2025-31133).
    CloneDevice(DeviceSource),
    /// Opens a namespace to be joined.
    OpenNamespace {
        /// Where it goes.
        slot: Slot,
        /// A file of nsfs, such as /proc/1/ns/net.
        path: CString,
        /// Its type, verified when it is joined.
        kind: CloneFlags,
    },
    /// Opens the root of a container that has no mount namespace.
    OpenRoot {
        /// Where it goes.
        slot: Slot,
        /// The container's init, the one of [`Slot::CONTAINER`].
        init: i32,
    },
    /// Connects to the socket that receives the terminal.
    ConnectConsole {
        /// A Unix socket.
        path: CString,
    },
    /// Makes the cgroup with its limits and device rules.
    CreateCgroup,
    /// Makes children be born in the PID namespace of a slot; undone after the clone.
    EnterPidNamespace {
        /// A PID namespace, or a pidfd.
        slot: Slot,
    },
    /// Runs on these CPUs, and so does the process it makes; undone after the clone that follows, if one
    /// does.
    RunOn(Box<NumberSet>),
    /// Makes init.
    Clone {
        /// The namespaces it is born in.
        flags: CloneFlags,
        /// If set, init is made by an intermediate process that joins a user namespace first, so
        /// that the new namespaces belong to it, and what the host actor may not join.
        relay: Option<Relay>,
        /// Whose memory init works in until its exec.
        memory: Memory,
        /// The time namespace it is born in, if not the host's.
        time: Option<TimeNamespace>,
        /// Whether it is born in its cgroup; else, as always on cgroup v1, it moves there itself.
        into_cgroup: bool,
    },
    /// Lets the scope that systemd made go on with init alone.
    ReleaseScope {
        /// Whether init was born in all of its cgroup; else it has to be moved there first.
        born_inside: bool,
    },
    /// Has a process make init's network namespace, with `lo` up, and hand it over; it may have been
    /// started before.
    MakeNetwork,
    /// Moves network devices of the host to init's network namespace.
    MoveNetDevices {
        /// The namespace, where it is not init's own.
        namespace: Option<Slot>,
        /// Which.
        devices: Vec<NetDevice>,
    },
    /// Writes the id mappings of a new user namespace.
    MapIds(IdMaps),
    /// Writes those of a caller without privileges who maps nothing but its own user and group, which
    /// takes that setgroups(2) is denied (user_namespaces(7)).
    MapOwnId(IdMaps),
    /// Has newuidmap(1) and newgidmap(1) write them, from the ranges that /etc/subuid and /etc/subgid
    /// give the caller.
    MapIdsThrough([IdHelper; 2]),
    /// Sets resource limits of init from outside, where init lives in a user namespace whose root may
    /// not raise them.
    LimitResources(Vec<Limit>),
    /// Tells init that what must come from outside is done.
    Admit,
    /// Sets init's score for the OOM killer (−1000…1000).
    AdjustOomScore(i32),
    /// Takes that score on before the clone, for init to inherit it: once untraceable, a caller without
    /// privileges may not write there.
    InheritOomScore(i32),
    /// Takes the own score back, if it went along with that of an init in the same memory; once init
    /// has left that.
    RestoreOomScore,
    /// Puts init into its group of the resctrl file system.
    EnterResctrl,
    /// Writes down the new process, before anything can run.
    RecordBirth,
    /// Runs prestart and createRuntime hooks when init says its namespaces are there.
    RunHooks,
    /// Takes the seccomp listener from init, sends it to the agent, and tells init so.
    SendListener(Agent),
    /// Waits until init is ready to become the container's process.
    AwaitReady,
    /// Tells init that everything is on record.
    Commit,
    /// Waits until init has become the container's process, or has failed.
    AwaitExec,
}

/// A security module that a configuration may name profiles or labels of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityModule {
    /// Profiles by name.
    AppArmor,
    /// Labels of processes and files.
    SeLinux,
}

/// Who decides about system calls that the filter asks about, and what it is told.
#[derive(Debug)]
pub struct Agent {
    /// A listening Unix socket.
    pub socket: CString,
    /// Metadata of the configuration; empty for none.
    pub metadata: String,
    /// The container's status.
    pub status: &'static str,
    /// The container's init, if that is not the process whose listener it is.
    pub init: Option<i32>,
}

/// Whose memory init works in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// A copy of the host actor's.
    Copied,
    /// The host actor's own. Only where init is the first process of a PID namespace: anybody else in
    /// there could trace it, and write to the host actor.
    Shared,
}

/// A time namespace. Only children are born in a new one, and its clocks are set before the first
/// (time_namespaces(7)); so it is the host actor who goes there, for the time of the clone.
#[derive(Debug)]
pub enum TimeNamespace {
    /// A new one, with this written to its timens_offsets.
    New(String),
    /// The one of a slot, or of the process behind the pidfd there.
    Joined(Slot),
}

/// [`HostStep::CloneTree`].
#[derive(Debug)]
pub struct CloneTree {
    /// Where it goes.
    pub slot: Slot,
    /// On the host.
    pub source: CString,
    /// With the mounts below it.
    pub recursive: bool,
    /// For the top mount; propagation is for all of them.
    pub attr: MountAttr,
    /// For all mounts of the tree (`rro` and its kin).
    pub recursive_attr: MountAttr,
    /// Whose mappings the ids of its files go through.
    pub id_map: Option<TreeIdMap>,
}

/// [`HostStep::CloneDevice`].
#[derive(Debug)]
pub struct DeviceSource {
    /// Where it goes.
    pub slot: Slot,
    /// On the host.
    pub path: CString,
    /// S_IFCHR or S_IFBLK.
    pub file_type: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// How the ids of a tree are mapped.
#[derive(Debug, Clone, Copy)]
pub struct TreeIdMap {
    /// A user namespace.
    pub user_namespace: Slot,
    /// For all mounts of the tree (`ridmap`).
    pub recursive: bool,
}

/// What the process that makes init in place of the host actor joins first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relay {
    /// A user namespace, or a process in it.
    pub user: Option<Slot>,
    /// The PID namespace that init is born in, where the host actor may not go and come back; of the same
    /// process where it is the same slot.
    pub pid: Option<Slot>,
    /// Likewise the time namespace.
    pub time: bool,
}

/// A setuid program that writes one of the maps.
#[derive(Debug)]
pub struct IdHelper {
    /// The program.
    pub path: CString,
    /// What it is called.
    pub name: &'static str,
    /// Lines "inside outside size".
    pub map: String,
}

/// The contents of uid_map, gid_map and setgroups (user_namespaces(7)).
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct IdMaps {
    /// Lines "inside outside size".
    pub uid_map: String,
    /// Lines "inside outside size".
    pub gid_map: String,
}

/// A network device to be moved.
#[derive(Debug)]
pub struct NetDevice {
    /// Its name on the host.
    pub name: String,
    /// Its name in the container; with `%d` in it, the first number that is free.
    pub inside: String,
}

/// One resource limit; `None` is unlimited.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// Which.
    pub resource: Resource,
    /// The soft limit.
    pub soft: Option<u64>,
    /// The hard limit.
    pub hard: Option<u64>,
}

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
    /// As [`HostStep::Undumpable`], in memory of its own.
    Undumpable,
    /// As [`HostStep::CloneTree`], where only init may take mounts.
    CloneTree(CloneTree),
    /// As [`HostStep::CloneDevice`].
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
    },
    /// Makes a tmpfs itself read-only: attributes of a mount that is part of no mount namespace, and not
    /// the root of its tree, can't be changed.
    FreezeTmpfs {
        /// In the root.
        path: CString,
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

/// Where a mount goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// In the root, without a leading slash; empty for the root itself.
    pub path: CString,
    /// Refuse symbolic links on the way (/proc and /sys: CVE-2019-19921).
    pub no_symlinks: bool,
}

/// [`InitStep::MountFs`].
#[derive(Debug)]
pub struct MountFs {
    /// Such as `tmpfs`.
    pub kind: CString,
    /// What mountinfo shows as the source.
    pub source: CString,
    /// Options of the filesystem: a flag, or key and value.
    pub parameters: Vec<(CString, Option<CString>)>,
    /// MOUNT_ATTR_* and propagation of the new mount.
    pub attr: MountAttr,
    /// Where it goes.
    pub target: Target,
    /// The SELinux label of its root, set once it is mounted.
    pub label: Option<CString>,
    /// Fill it with what it covers.
    pub copy_up: bool,
    /// Give it the permissions of what it covers.
    pub inherit_mode: bool,
    /// The whole option string for mount(2), where a value is longer than the 255 bytes that
    /// fsconfig(2) takes.
    pub oversized: Option<CString>,
}

/// A device node to make.
#[derive(Debug)]
pub struct Node {
    /// In its directory.
    pub name: CString,
    /// Type and permission bits.
    pub mode: u32,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// A symbolic link to make.
#[derive(Debug)]
pub struct Link {
    /// In its directory.
    pub name: CString,
    /// What it says.
    pub text: CString,
    /// Whether it takes the place of what is there; else that stays.
    pub replace: bool,
    /// Only if this exists in the host's procfs.
    pub only_if: Option<CString>,
}

/// Hooks of one kind, for [`InitStep::RunHooks`] and the host actor.
#[derive(Debug, Default)]
pub struct Hooks {
    /// The kind, as config.json names it.
    pub kind: &'static str,
    /// In order.
    pub list: Vec<Hook>,
}

/// One hook.
#[derive(Debug)]
pub struct Hook {
    /// The program.
    pub path: CString,
    /// Its arguments.
    pub argv: StringArray,
    /// Its environment.
    pub envp: StringArray,
    /// Seconds it may take.
    pub timeout: Option<u32>,
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
