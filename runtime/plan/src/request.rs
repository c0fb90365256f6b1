//! The input of the compiler besides the configuration.

use alloc::string::String;
use alloc::vec::Vec;
use cgroup::resctrl::Group;
use rustix::termios::Winsize;
use spec::{IdMapping, Mount};
use sys::clone::CloneFlags;

use crate::Kernel;
use crate::attributes::Execution;
use crate::caller::Caller;
use crate::fast_path::FastPaths;
use crate::listener::ExecAgent;
use crate::step::{Limit, NumberSet};

/// The socket that receives the master of a pseudoterminal.
#[derive(Debug, Clone, Copy)]
pub enum Console<'a> {
    /// A listening Unix socket at this path.
    Socket(&'a str),
    /// A connected socket that the caller puts into [`Slot::CONSOLE`](crate::step::Slot::CONSOLE).
    Given,
    /// As [`Console::Given`], but the receiver is a command in the foreground, which copies the output to its own
    /// terminal, to a pipe or to a file.
    Foreground,
}

/// A root filesystem other than a directory of the bundle.
#[derive(Debug, Clone, Copy)]
pub struct GivenRoot<'a> {
    /// The source.
    pub source: RootSource<'a>,
    /// The absolute path at which the root is attached in the container's own mount namespace, if
    /// that namespace begins as a copy of the host's.
    pub place: &'a str,
}

impl<'a> GivenRoot<'a> {
    /// Returns a root filesystem from layers with the ids of the container's user namespace.
    pub fn layered(recipe: &'a rootfs::Recipe, place: &'a str) -> Self {
        Self { source: RootSource::Layers { recipe, ids: None }, place }
    }

    /// Returns the recipe if the root filesystem is assembled from layers.
    pub(crate) fn recipe(&self) -> Option<&'a rootfs::Recipe> {
        match self.source {
            RootSource::Layers { recipe, .. } => Some(recipe),
            RootSource::Mount(_) => None,
        }
    }
}

/// The source of a root filesystem.
#[derive(Debug, Clone, Copy)]
pub enum RootSource<'a> {
    /// Layers.
    Layers {
        /// The recipe.
        recipe: &'a rootfs::Recipe,
        /// The mappings of the layers' users and groups, if different from the container's.
        ids: Option<(&'a [IdMapping], &'a [IdMapping])>,
    },
    /// A bind mount or a new file system. Its destination is ignored, and its ids are mapped if the mount has mappings.
    Mount(&'a Mount<'a>),
}

/// How the container's program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgramStart {
    /// Init executes the program.
    #[default]
    Executed,
    /// A child of init executes the program, which is a template: init remains as the reaper.
    Reaped,
    /// Init executes the program, which is to be saved as a template.
    Saved,
    /// A template forks the program: init remains as its stand-in.
    Forked,
}

/// The input of the compiler besides the configuration: data from the command line and the host.
#[derive(Debug, Clone, Default)]
pub struct Request<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The bundle, absolute.
    pub bundle: &'a str,
    /// The root filesystem, unless it is a directory of the bundle.
    pub rootfs: Option<GivenRoot<'a>>,
    /// How the program is started.
    pub program_start: ProgramStart,
    /// Whether init waits for a `start` command.
    pub wait_for_start: bool,
    /// Whether the caller waits for the container's exit, and learns only then whether the program was started.
    pub attended: bool,
    /// `--no-pivot`
    pub no_pivot: bool,
    /// `--no-new-keyring`
    pub no_new_keyring: bool,
    /// The number of `--preserve-fds`, plus the number of descriptors in LISTEN_FDS.
    pub preserve_fds: u32,
    /// The receiver of the terminal, if there is one.
    pub console: Option<Console<'a>>,
    /// The size of the terminal with which the process's terminal exchanges data, if it is known.
    pub terminal_size: Option<Winsize>,
    /// Additional environment entries, such as LISTEN_FDS.
    pub extra_env: Vec<String>,
    /// The environment of the dayfly command. A hook outside the container inherits it, unless the configuration sets
    /// the hook's environment.
    pub env: sys::Args,
    /// The container's place in the cgroup tree.
    pub cgroup: Option<cgroup::Location>,
    /// The container's group of the resctrl file system.
    pub resctrl: Option<Group>,
    /// The program of the configuration's seccomp profile, if the caller has already compiled it.
    pub filter: Option<seccomp::Program>,
    /// The caller of dayfly.
    pub caller: Caller,
    /// Whether the caller may lack permission for parts of the cgroup (`--rootless`).
    pub rootless: bool,
    /// The caller's cgroup. If the container has no cgroup of its own, a cgroup mount shows the caller's cgroup.
    pub shown_cgroup: Option<cgroup::Location>,
    /// The CPU affinity that the caller had before it switched to the start CPUs. It is restored for hooks on the host.
    pub own_cpus: Option<NumberSet>,
    /// Whether the container's network namespace, joined or inherited, is not owned by the container's user namespace.
    pub foreign_network: bool,
    /// Whether the caller provides a blank mount namespace in [`Slot::BLANK`](crate::step::Slot::BLANK).
    pub blank: bool,
    /// The caller's own limit on open descriptors, if the configuration may need more.
    pub own_nofile: Option<Limit>,
    /// The kernel's capabilities.
    pub kernel: Kernel,
}

impl<'a> Request<'a> {
    /// Returns a request that adds nothing to the configuration.
    pub fn new(id: &'a str, bundle: &'a str, kernel: Kernel) -> Self {
        Self { id, bundle, kernel, ..Self::default() }
    }
}

/// The input of `exec` besides the process.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The namespaces of the container's init that differ from the host's.
    pub namespaces: CloneFlags,
    /// The cgroup to join.
    pub cgroup: Option<cgroup::Location>,
    /// Whether the cgroup was requested explicitly. If a cgroup that was not requested explicitly accepts no processes,
    /// the process joins the cgroup of the container's init instead.
    pub cgroup_is_asked_for: bool,
    /// Whether the container's own cgroup has a memory limit, or may have one.
    pub memory_is_limited: bool,
    /// The pid of the container's init.
    pub init: i32,
    /// Attributes of every process of the container.
    pub execution: Execution,
    /// The container's group of the resctrl file system.
    pub resctrl: Option<Group>,
    /// The container's filter.
    pub filter: Option<seccomp::Program>,
    /// The agent of a filter with a listener.
    pub agent: Option<ExecAgent<'a>>,
    /// `--preserve-fds`
    pub preserve_fds: u32,
    /// The receiver of the terminal, if there is one.
    pub console: Option<Console<'a>>,
    /// The size of the terminal with which the process's terminal exchanges data, if it is known.
    pub terminal_size: Option<Winsize>,
    /// Whether the process joins the container's session keyring; false if the container has none.
    pub keyring: bool,
    /// Whether the process keeps the caller's supplementary groups: [`crate::keeps_groups`].
    pub keep_groups: bool,
    /// The fast paths to use.
    pub fast_paths: FastPaths,
    /// The caller of dayfly.
    pub caller: Caller,
}

impl<'a> ExecRequest<'a> {
    /// Returns a request for a process in these namespaces of the container whose init is `init`.
    pub fn new(id: &'a str, init: i32, namespaces: CloneFlags) -> Self {
        Self { id, init, namespaces, keyring: true, ..Self::default() }
    }
}
