//! The parent's steps.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use sys::clone::CloneFlags;

use super::{
    CloneTree, DeviceSource, Intermediate, Limit, Memory, MountFs, Node, NumberSet, Slot,
    TimeNamespace,
};

/// The parent's steps, in order.
#[derive(Debug)]
pub enum ParentStep {
    /// Makes this process, and the init it creates, undumpable until init's exec, so that processes that will share
    /// namespaces with init cannot trace them.
    Undumpable,
    /// Opens the host's procfs and verifies that it is a procfs.
    OpenProc,
    /// Fails if this security module is not active in the kernel.
    RequireModule(SecurityModule),
    /// Creates a user namespace without processes, whose mappings are used for id-mapped mounts.
    MakeUserNamespace {
        /// The slot for the namespace.
        slot: Slot,
        /// The namespace's mappings.
        maps: IdMaps,
    },
    /// Makes a detached copy of a mount tree with its final attributes.
    CloneTree(CloneTree),
    /// Copies mount trees again in which mount namespaces are pinned (mounts of their files), without these.
    LeaveOutPins,
    /// Creates a detached file system from resources of the host: from a device that the container may not open, or
    /// from directories that are not visible in the container.
    MakeTree {
        /// The slot for the file system.
        slot: Slot,
        /// The file system. Its destination is not used.
        filesystem: MountFs,
        /// The user namespace that maps the file system's ids.
        user_namespace: Option<Slot>,
    },
    /// Makes id-mapped copies of the mounts that contain the layers of the root filesystem.
    MapLayers {
        /// The user namespace; without one, ids are unchanged.
        user_namespace: Option<Slot>,
    },
    /// Opens the layers and passes each to overlayfs.
    OpenLayers,
    /// Creates the upper directory.
    MakeUpper,
    /// Creates the overlay mount, detached, for [`Slot::ROOT`].
    AssembleRootfs,
    /// Unmounts the mounts that the modes for older kernels (`parent`, `per-layer`) attach on the host while they make
    /// the overlay.
    DetachLayers,
    /// Copies the files of all layers, for [`Slot::ROOT`].
    CopyLayers,
    /// Makes a detached copy of a device node, verified by type and number (CVE-2025-31133).
    CloneDevice(DeviceSource),
    /// Creates device nodes for a container in a user namespace, which may not create them itself.
    MakeNodes(OwnNodes),
    /// Opens a namespace to be joined.
    OpenNamespace {
        /// The slot for the namespace.
        slot: Slot,
        /// A file of nsfs, such as /proc/1/ns/net.
        path: CString,
        /// The namespace's type, verified by setns(2).
        kind: CloneFlags,
        /// If the namespace must differ from the caller's own: the path of the caller's namespace in procfs, and the
        /// error message for equal namespaces.
        foreign: Option<(CString, String)>,
    },
    /// Opens the root of a container that has no mount namespace.
    OpenRoot {
        /// The slot for the root.
        slot: Slot,
        /// The container's init, the process of [`Slot::CONTAINER`].
        init: i32,
    },
    /// Connects to the socket that receives the terminal's master, unless the caller has already done so.
    ConnectConsole {
        /// The Unix socket's path.
        path: CString,
    },
    /// Creates the cgroup with its limits and device rules.
    CreateCgroup,
    /// Selects the PID namespace in which children are created; undone after the clone.
    EnterPidNamespace {
        /// The slot of a PID namespace, or of a pidfd.
        slot: Slot,
    },
    /// Joins a namespace that init inherits; undone after the clone.
    EnterNamespace {
        /// The namespace.
        slot: Slot,
        /// The namespace's type: network, IPC, UTS or cgroup.
        kind: CloneFlags,
    },
    /// Sets the CPU affinity, which children inherit; undone after the next clone, if there is one.
    RunOn(Box<NumberSet>),
    /// Creates init.
    Clone {
        /// The new namespaces.
        flags: CloneFlags,
        /// If set, an intermediate process creates init, for one of three reasons: it first joins a user namespace,
        /// which then owns the new namespaces; or it joins namespaces that the parent may not join; or it prevents init
        /// from inheriting resources of the host.
        intermediate: Option<Intermediate>,
        /// The memory of the parent's child, which is the intermediate or, without one, init.
        memory: Memory,
        /// The time namespace for init, if not the host's.
        time: Option<TimeNamespace>,
        /// Whether init is created in its cgroup. If not, init moves to its cgroup itself, as it always does on cgroup
        /// v1.
        into_cgroup: bool,
        /// Whether init, which has only one thread, moves to v1 cgroups by writing to the file `tasks`.
        thread_move: bool,
    },
    /// Kills the holder, so that only init is in the scope that systemd created. If the scope is early, the holder stays
    /// until the scope has started.
    ReleaseScope {
        /// Whether init was created in all of its cgroups. If not, init must be moved to the scope before the holder
        /// exits.
        born_inside: bool,
    },
    /// Waits for an early scope.
    AwaitScope(ScopeState),
    /// Makes the network maker create init's network namespace, with `lo` up, and pass the namespace to init. The
    /// network maker may have been started before this step.
    MakeNetwork,
    /// Moves network devices of the host to init's network namespace.
    MoveNetDevices {
        /// The namespace, if not init's own.
        namespace: Option<Slot>,
        /// The devices.
        devices: Vec<NetDevice>,
    },
    /// Writes the id mappings of a new user namespace.
    MapIds(IdMaps),
    /// Writes the id mappings of a caller without privileges that maps only its own user and group. For this, the
    /// kernel requires that setgroups(2) is denied (user_namespaces(7)).
    MapOwnId(IdMaps),
    /// Runs newuidmap(1) and newgidmap(1), which map ids from the caller's ranges in /etc/subuid and /etc/subgid.
    MapIdsThrough([IdHelper; 2]),
    /// Fails unless the joined user namespace, which init is in, has these mappings.
    VerifyIds(IdMaps),
    /// Sets init's resource limits in init's place, if init is in a user namespace: root of a user namespace may not
    /// raise limits.
    LimitResources(Vec<Limit>),
    /// Notifies init that the id mappings are written and the resource limits are set.
    Admit,
    /// Sets init's score for the OOM killer (−1000…1000).
    AdjustOomScore(i32),
    /// Sets the parent's own OOM score before the clone, so that init inherits it. An unprivileged caller cannot set
    /// init's score later, because init is undumpable then.
    InheritOomScore(i32),
    /// Restores the parent's own OOM score after init's exec. The parent's score was changed by
    /// [`Self::InheritOomScore`], or together with init's score, because processes that share memory have one score.
    RestoreOomScore,
    /// Moves init into its group of the resctrl file system.
    EnterResctrl,
    /// Records the new process before it can execute a program.
    RecordBirth,
    /// Runs prestart and createRuntime hooks after init reports that its namespaces exist.
    RunHooks,
    /// Receives the seccomp listener from init, sends it to the agent, and confirms that to init.
    SendListener(Agent),
    /// Waits until init reports that it is ready to execute the container's program.
    AwaitReady,
    /// Notifies init that the container's state is recorded.
    Commit,
    /// Waits until init has executed the container's program, or has failed.
    AwaitExec,
}

/// A security module whose profiles or labels a configuration may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityModule {
    /// Profiles by name.
    AppArmor,
    /// Labels of processes and files.
    SeLinux,
}

/// The agent that decides about system calls, and the data sent to it.
#[derive(Debug)]
pub struct Agent {
    /// The agent's listening Unix socket.
    pub socket: CString,
    /// Metadata of the configuration; empty for none.
    pub metadata: String,
    /// The container's status.
    pub status: &'static str,
    /// The pid of the container's init, if the listener belongs to another process.
    pub init: Option<i32>,
}

/// A setuid program that writes one of the maps.
#[derive(Debug)]
pub struct IdHelper {
    /// The program's path.
    pub path: CString,
    /// The program's name.
    pub name: &'static str,
    /// Lines "inside outside size".
    pub map: String,
}

/// The contents of uid_map and gid_map (user_namespaces(7)).
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct IdMaps {
    /// Lines "inside outside size".
    pub uid_map: String,
    /// Lines "inside outside size".
    pub gid_map: String,
}

/// The data of [`ParentStep::MakeNodes`].
#[derive(Debug)]
pub struct OwnNodes {
    /// The file system that contains the nodes. It is never attached as a whole.
    pub filesystem: MountFs,
    /// The user namespace that maps the nodes' owners; without one, owners are the host's ids.
    pub id_map: Option<Slot>,
    /// The nodes.
    pub nodes: Vec<OwnNode>,
}

/// A device node created for one container.
#[derive(Debug)]
pub struct OwnNode {
    /// The node to create.
    pub node: Node,
    /// The host's node, which is bind-mounted instead if the caller may not create a node: without CAP_MKNOD, or in a
    /// cgroup whose device rules deny the node. The slot of `host` contains the mount in both cases.
    pub host: DeviceSource,
}

/// A network device to move.
#[derive(Debug)]
pub struct NetDevice {
    /// The device's name on the host.
    pub name: String,
    /// The device's name in the container; `%d` stands for the first free number.
    pub inside: String,
}

/// What systemd has done about an early scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeState {
    /// The unit exists, with its properties; its job is queued. systemd leaves the limits alone from now on, or writes
    /// the same.
    Accepted,
    /// The job is done. From now on, systemd leaves the cgroup's subtree to the container.
    Started,
}
