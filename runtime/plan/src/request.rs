//! What a command brings to a compilation besides the configuration.

use alloc::string::String;
use alloc::vec::Vec;
use resctrl::Group;
use spec::{IdMapping, Mount};
use sys::clone::CloneFlags;

use crate::Kernel;
use crate::attributes::Execution;
use crate::caller::Caller;
use crate::fast_path::FastPaths;
use crate::listener::ExecAgent;
use crate::step::NumberSet;

/// Who receives the master of a terminal.
#[derive(Debug, Clone, Copy)]
pub enum Console<'a> {
    /// A listening Unix socket of this path.
    Socket(&'a str),
    /// A connected socket that the caller puts into [`Slot::CONSOLE`](crate::step::Slot::CONSOLE).
    Given,
}

/// A root filesystem that is not a directory of the bundle.
#[derive(Debug, Clone, Copy)]
pub struct GivenRoot<'a> {
    /// What it is.
    pub source: RootSource<'a>,
    /// A directory of the host, absolute: where it is attached in the container's own mount namespace,
    /// if that begins as a copy of the host's.
    pub place: &'a str,
}

impl<'a> GivenRoot<'a> {
    /// Layers with the ids of the container's user namespace.
    pub fn layered(recipe: &'a rootfs::Recipe, place: &'a str) -> Self {
        Self { source: RootSource::Layers { recipe, ids: None }, place }
    }

    /// How it is assembled, where it comes in layers.
    pub(crate) fn recipe(&self) -> Option<&'a rootfs::Recipe> {
        match self.source {
            RootSource::Layers { recipe, .. } => Some(recipe),
            RootSource::Mount(_) => None,
        }
    }
}

/// What a root filesystem is made of.
#[derive(Debug, Clone, Copy)]
pub enum RootSource<'a> {
    /// Layers.
    Layers {
        /// How they are assembled.
        recipe: &'a rootfs::Recipe,
        /// The mappings of their users and groups, if those are not the container's.
        ids: Option<(&'a [IdMapping], &'a [IdMapping])>,
    },
    /// A bind mount, or a new filesystem. Its destination counts for nothing, and its ids are mapped where it has
    /// mappings.
    Mount(&'a Mount<'a>),
}

/// What the command line and the host add to a configuration.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The container.
    pub id: &'a str,
    /// The bundle, absolute.
    pub bundle: &'a str,
    /// The root filesystem, if it is not a directory of the bundle.
    pub rootfs: Option<GivenRoot<'a>>,
    /// Whether init waits for a `start` command.
    pub wait_for_start: bool,
    /// Whether the caller stays to the container's end, and asks only then whether it began.
    pub attended: bool,
    /// `--no-pivot`
    pub no_pivot: bool,
    /// `--no-new-keyring`
    pub no_new_keyring: bool,
    /// `--preserve-fds`, with those of LISTEN_FDS.
    pub preserve_fds: u32,
    /// Who receives the terminal, if there is one.
    pub console: Option<Console<'a>>,
    /// Environment entries that are not in the configuration, such as LISTEN_FDS.
    pub extra_env: Vec<String>,
    /// The environment of the command, which is that of hooks outside the container that have none.
    pub env: sys::Args,
    /// The container's place in the cgroup tree.
    pub cgroup: Option<cgroup::Location>,
    /// The container's group of the resctrl file system.
    pub resctrl: Option<Group>,
    /// The program of the configuration's seccomp profile, where the caller has it.
    pub filter: Option<seccomp::Program>,
    /// Who runs dayfly.
    pub caller: Caller,
    /// Whether the caller may lack the right to some of the cgroup (`--rootless`).
    pub rootless: bool,
    /// What a mount of cgroups shows where the container has no cgroup of its own: the caller's.
    pub shown_cgroup: Option<cgroup::Location>,
    /// The CPUs that the caller ran on before it went to those it starts containers from; hooks of the
    /// host get them back.
    pub own_cpus: Option<NumberSet>,
    /// Whether the network namespace that the container joins, or stays in, is not owned by the user namespace that it
    /// joins or stays in.
    pub foreign_network: bool,
    /// Whether the caller has a template mount namespace for [`Slot::TEMPLATE`](crate::step::Slot::TEMPLATE).
    pub template: bool,
    /// What the kernel can do.
    pub kernel: Kernel,
}

impl<'a> Request<'a> {
    /// A request for what the configuration says and nothing else.
    pub fn new(id: &'a str, bundle: &'a str, kernel: Kernel) -> Self {
        Self {
            id,
            bundle,
            rootfs: None,
            wait_for_start: false,
            attended: false,
            no_pivot: false,
            no_new_keyring: false,
            preserve_fds: 0,
            console: None,
            extra_env: Vec::new(),
            env: sys::Args::empty(),
            cgroup: None,
            resctrl: None,
            filter: None,
            caller: Caller::default(),
            rootless: false,
            shown_cgroup: None,
            own_cpus: None,
            foreign_network: false,
            template: false,
            kernel,
        }
    }
}

/// What `exec` brings besides the process.
#[derive(Debug, Clone)]
pub struct ExecRequest<'a> {
    /// The container.
    pub id: &'a str,
    /// The namespaces of its init that differ from the host's.
    pub namespaces: CloneFlags,
    /// The cgroup to join.
    pub cgroup: Option<cgroup::Location>,
    /// Whether the cgroup was asked for; if not, and it takes no processes, init's is joined.
    pub cgroup_is_asked_for: bool,
    /// Whether the container's own cgroup has a memory limit, or may have one.
    pub memory_is_limited: bool,
    /// Its init.
    pub init: i32,
    /// What every process of the container has.
    pub execution: Execution,
    /// Its group of the resctrl file system.
    pub resctrl: Option<Group>,
    /// The container's filter.
    pub filter: Option<seccomp::Program>,
    /// The agent of a filter that has a listener.
    pub agent: Option<ExecAgent<'a>>,
    /// `--preserve-fds`
    pub preserve_fds: u32,
    /// Who receives the terminal, if there is one.
    pub console: Option<Console<'a>>,
    /// The keyring is only joined if the container has one.
    pub keyring: bool,
    /// Whether it keeps the caller's supplementary groups: [`crate::keeps_groups`].
    pub keep_groups: bool,
    /// What the start makes use of.
    pub fast_paths: FastPaths,
    /// Who runs dayfly.
    pub caller: Caller,
}

impl<'a> ExecRequest<'a> {
    /// A request for a process in these namespaces of the container whose init is `init`.
    pub fn new(id: &'a str, init: i32, namespaces: CloneFlags) -> Self {
        Self {
            id,
            namespaces,
            cgroup: None,
            cgroup_is_asked_for: false,
            memory_is_limited: false,
            init,
            execution: Execution::default(),
            resctrl: None,
            filter: None,
            agent: None,
            preserve_fds: 0,
            console: None,
            keyring: true,
            keep_groups: false,
            fast_paths: FastPaths::all(),
            caller: Caller::default(),
        }
    }
}
