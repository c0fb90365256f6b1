//! Options of commands.

use alloc::string::String;

use plan::FastPaths;
use rootfs::Mode;
use rootfs::ids::Config;
use rustix::fd::BorrowedFd;

use crate::image::ImageRun;
use crate::{RootMount, TemplateUse, Warn};

/// The manager of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// dayfly, through the cgroup filesystems.
    #[default]
    Cgroupfs,
    /// systemd, over D-Bus.
    Systemd,
    /// Nothing manages cgroups: the container stays in the caller's cgroup.
    Disabled,
}

/// The message that [`CreateOptions::claim_socket`] receives.
pub const CLAIMED: u8 = 255;

/// The options of `create`.
#[derive(Debug, Clone)]
pub struct CreateOptions<'a> {
    /// The container's id.
    pub id: &'a str,
    /// The bundle's directory; empty for the working directory.
    pub bundle: &'a str,
    /// A file used instead of the bundle's config.json.
    pub config: Option<&'a str>,
    /// The file for init's pid.
    pub pid_file: Option<&'a str>,
    /// The socket that receives the terminal.
    pub console_socket: Option<&'a str>,
    /// A connected socket that receives the terminal, in place of `console_socket`.
    pub console: Option<BorrowedFd<'a>>,
    /// A connected socket that receives the byte [`CLAIMED`] once the id belongs to this container. Until then, an
    /// existing container with this id is a different one.
    pub claim_socket: Option<BorrowedFd<'a>>,
    /// The socket that receives init's pidfd.
    pub pidfd_socket: Option<&'a str>,
    /// Whether pivot_root(2) must not be used.
    pub no_pivot: bool,
    /// Whether to keep the caller's session keyring.
    pub no_new_keyring: bool,
    /// The number of descriptors, from 3 on, that the process inherits.
    pub preserve_fds: u32,
    /// The manager of cgroups.
    pub cgroup_driver: CgroupDriver,
    /// Whether the container may start without a cgroup if the caller cannot create one; with `None`, the caller's
    /// privileges decide.
    pub rootless: Option<bool>,
    /// The environment of the command, which may contain LISTEN_FDS, NOTIFY_SOCKET and others.
    pub env: sys::Args,
    /// The environment by which criu is found, and which criu gets.
    pub criu_env: sys::Args,
    /// The CPUs on which the start runs: a list, or words such as `node:0`. The program's affinity is not affected.
    pub start_cpus: Option<&'a str>,
    /// The fast paths to use.
    pub fast_paths: FastPaths,
    /// Words such as `node:0` that select the container's CPUs.
    pub pin: Option<&'a str>,
    /// The pool that provides the container's cgroup.
    pub pool: Option<&'a str>,
    /// The root filesystem, if it consists of layers.
    pub layered: Option<&'a LayeredOptions<'a>>,
    /// The root filesystem as mounts in containerd's format: first the root, then the mounts below it. If empty, the
    /// bundle's root filesystem is used.
    pub rootfs: &'a [RootMount<'a>],
    /// The mode in which an overlay among the mounts is assembled; `None` chooses the best mode for
    /// this kernel.
    pub rootfs_mode: Option<Mode>,
    /// The container's relation to a template, if the command line names one.
    pub template: Option<TemplateUse<'a>>,
    /// The receiver of warnings.
    pub warn: Warn<'a>,
}

/// What a configuration is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A container is made.
    Start,
    /// criu makes the processes of a container.
    Restore,
    /// The plan of a start is printed. Nothing is changed on the host and nothing is taken: neither id, nor range of
    /// ids, nor a cgroup of a pool.
    Plan,
}

/// Returns the fast paths to use. With a pidfd socket, init is not created in its cgroup: the pidfd of an init that the
/// kernel kills for that could not be withdrawn.
pub(crate) fn safe_fast_paths(wanted: FastPaths, pidfd_socket: Option<&str>) -> FastPaths {
    match pidfd_socket {
        None => wanted,
        Some(_) => wanted - FastPaths::CLONE_INTO_CGROUP,
    }
}

/// The options of `run`.
#[derive(Debug, Clone)]
pub struct RunOptions<'a> {
    /// The options shared with `create`.
    pub create: CreateOptions<'a>,
    /// Whether to return once the program is running.
    pub detach: bool,
    /// Whether to keep the container after its exit.
    pub keep: bool,
    /// If true, the command does not become the reaper of orphaned descendants.
    pub no_subreaper: bool,
}

/// A root filesystem from layers, as requested on the command line.
#[derive(Debug, Clone)]
pub struct LayeredOptions<'a> {
    /// A file that lists one directory per line, the bottom layer first.
    pub layers: String,
    /// The image that has these layers.
    pub image: Option<ImageRun<'a>>,
    /// The mapping of the container's ids.
    pub user_namespace: UserNamespace,
    /// The mode in which the root filesystem is assembled; `None` chooses the best mode for this
    /// kernel.
    pub mode: Option<Mode>,
    /// Whether changes are kept in memory.
    pub ephemeral: bool,
    /// The size limit in bytes for changes in memory.
    pub size: Option<u64>,
    /// The store's absolute path; changes on disk are kept there.
    pub store: &'a str,
    /// The directory that records id ranges in use.
    pub leases: &'a str,
    /// The ids from which a container's range is taken.
    pub ids: Config<'a>,
    /// Whether to print how the root filesystem was assembled, and how long that took.
    pub stats: bool,
}

/// The mapping of a container's ids to ids of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserNamespace {
    /// The ids are mapped by the mappings in the configuration.
    Configured,
    /// The ids are not mapped: the container uses the host's ids.
    Host,
    /// The ids are mapped to a range that no other container uses.
    Auto,
    /// Like `Auto`, but the range must be the one with this first id, because a restored container
    /// keeps its ids.
    Range(u32),
    /// The ids are mapped to one range that all containers with this setting share.
    Shared,
}
