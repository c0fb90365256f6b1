//! What the parent does.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec::Vec;
use sys::clone::CloneFlags;

use super::{
    CloneTree, DeviceSource, Intermediate, Limit, Memory, MountFs, Node, NumberSet, Slot,
    TimeNamespace,
};

/// What the parent does, in order.
#[derive(Debug)]
pub enum ParentStep {
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
    /// Makes a file system from something of the host's, mounted nowhere yet: from a device that the
    /// container may not open, from directories that it does not see.
    MakeTree {
        /// Where it goes.
        slot: Slot,
        /// All but its place.
        filesystem: MountFs,
        /// The user namespace that its ids are mapped by.
        user_namespace: Option<Slot>,
    },
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
    /// Makes device nodes for a container in a user namespace, which may not.
    MakeNodes(OwnNodes),
    /// Opens a namespace to be joined.
    OpenNamespace {
        /// Where it goes.
        slot: Slot,
        /// A file of nsfs, such as /proc/1/ns/net.
        path: CString,
        /// Its type, verified when it is joined.
        kind: CloneFlags,
        /// If it must not be the caller's own: where that is seen in procfs, and what to say then.
        foreign: Option<(CString, String)>,
    },
    /// Opens the root of a container that has no mount namespace.
    OpenRoot {
        /// Where it goes.
        slot: Slot,
        /// The container's init, the one of [`Slot::CONTAINER`].
        init: i32,
    },
    /// Connects to the socket that receives the terminal, unless the caller has already.
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
    /// Joins a namespace that init is to have from its parent; undone after the clone.
    EnterNamespace {
        /// The namespace.
        slot: Slot,
        /// Its type: network, IPC, UTS or cgroup.
        kind: CloneFlags,
    },
    /// Runs on these CPUs, and so does the process it makes; undone after the clone that follows, if one
    /// does.
    RunOn(Box<NumberSet>),
    /// Makes init.
    Clone {
        /// The namespaces it is born in.
        flags: CloneFlags,
        /// If set, init is made by an intermediate process: one that joins a user namespace first, so
        /// that the new namespaces belong to it; one that joins what the parent may not; one that
        /// has init be born with nothing of the host.
        intermediate: Option<Intermediate>,
        /// Whose memory init works in until its exec.
        memory: Memory,
        /// The time namespace it is born in, if not the host's.
        time: Option<TimeNamespace>,
        /// Whether it is born in its cgroup; else, as always on cgroup v1, it moves there itself.
        into_cgroup: bool,
        /// Whether it moves to v1 cgroups by the file `tasks`, as the one thread that it has.
        thread_move: bool,
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

/// [`ParentStep::MakeNodes`].
#[derive(Debug)]
pub struct OwnNodes {
    /// What they are on; seen nowhere as a whole.
    pub filesystem: MountFs,
    /// The user namespace whose ids their owners are; else they are the host's.
    pub id_map: Option<Slot>,
    /// The nodes.
    pub nodes: Vec<OwnNode>,
}

/// A device node that is made for one container.
#[derive(Debug)]
pub struct OwnNode {
    /// What to make.
    pub node: Node,
    /// What is lent instead to a caller who may not make it (no CAP_MKNOD, a cgroup whose device rules deny it), and
    /// the slot that either goes to, a mount of its own.
    pub host: DeviceSource,
}

/// A network device to be moved.
#[derive(Debug)]
pub struct NetDevice {
    /// Its name on the host.
    pub name: String,
    /// Its name in the container; with `%d` in it, the first number that is free.
    pub inside: String,
}
