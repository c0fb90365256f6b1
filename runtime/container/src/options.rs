//! What commands are given.

use plan::FastPaths;
use rootfs::Mode;
use rustix::fd::BorrowedFd;

use crate::layered::LayeredOptions;
use crate::{RootMount, Warn};

/// Who manages cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// dayfly, through the cgroup filesystems.
    #[default]
    Cgroupfs,
    /// systemd, over D-Bus.
    Systemd,
    /// Nobody: the container stays in the caller's cgroup.
    Disabled,
}

/// What `create` is given.
#[derive(Debug, Clone)]
pub struct CreateOptions<'a> {
    /// The container.
    pub id: &'a str,
    /// The bundle's directory; empty for the working directory.
    pub bundle: &'a str,
    /// Another file than the bundle's config.json.
    pub config: Option<&'a str>,
    /// Where to write init's pid.
    pub pid_file: Option<&'a str>,
    /// The socket that receives the terminal.
    pub console_socket: Option<&'a str>,
    /// A connected socket that receives the terminal, in the place of that.
    pub console: Option<BorrowedFd<'a>>,
    /// The socket that receives init's pidfd.
    pub pidfd_socket: Option<&'a str>,
    /// Do without pivot_root(2).
    pub no_pivot: bool,
    /// Keep the caller's session keyring.
    pub no_new_keyring: bool,
    /// Descriptors after 2 that go on to the process.
    pub preserve_fds: u32,
    /// Who manages cgroups.
    pub cgroup_driver: CgroupDriver,
    /// Whether a container may be without a cgroup that the caller cannot make; by who that is, if `None`.
    pub rootless: Option<bool>,
    /// The environment of the command, for LISTEN_FDS.
    pub env: sys::Args,
    /// The CPUs to start from, a list or words; the program runs where it would have otherwise.
    pub start_cpus: Option<&'a str>,
    /// What the start makes use of.
    pub fast_paths: FastPaths,
    /// Words for its CPUs.
    pub pin: Option<&'a str>,
    /// The pool that its cgroup is taken from.
    pub pool: Option<&'a str>,
    /// The root filesystem, where it comes in layers.
    pub layered: Option<&'a LayeredOptions<'a>>,
    /// The root filesystem as containerd names it, the root first and then what is mounted below it; empty for the
    /// bundle's own.
    pub rootfs: &'a [RootMount<'a>],
    /// How an overlay among these is assembled; `None` is the best way this kernel has.
    pub rootfs_mode: Option<Mode>,
    /// Where warnings go.
    pub warn: Warn<'a>,
}

impl CreateOptions<'_> {
    /// The same, for an init that moves to its cgroup rather than is born there.
    #[cold]
    pub(crate) fn born_outside(&self) -> Self {
        let fast_paths = self.fast_paths - FastPaths::CLONE_INTO_CGROUP;
        Self { fast_paths, ..self.clone() }
    }
}

/// What `run` is given.
#[derive(Debug, Clone)]
pub struct RunOptions<'a> {
    /// As for `create`.
    pub create: CreateOptions<'a>,
    /// Return once the program runs.
    pub detach: bool,
    /// Leave the container when it has ended.
    pub keep: bool,
    /// Do not become the reaper of orphaned descendants.
    pub no_subreaper: bool,
}
