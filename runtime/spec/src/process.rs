//! The `process` object.
//!
//! Source: runtime-spec 1.3, config.md "Process" and "Linux Process".
use alloc::vec::Vec;

use crate::object::{Absent, object};
use crate::text::{Str, drop_if_empty};

object! {
    /// The process that a container runs (`process`); `exec --process` reads the same object from a file.
    pub struct Process<'a> {
        /// Whether the process gets a pseudo terminal.
        pub terminal: bool,
        /// Size of the pseudo terminal.
        pub console_size: Option<ConsoleSize>,
        /// User and group ids of the process.
        pub user: User<'a>,
        /// Executable, followed by its arguments.
        pub args: Vec<Str<'a>>,
        /// Environment as `NAME=value`.
        pub env: Vec<Str<'a>>,
        /// Working directory, absolute inside the container.
        pub cwd: Str<'a>,
        /// Capability sets; if absent, the process keeps the caller's capabilities, as in runc.
        pub capabilities: Option<Capabilities<'a>>,
        /// Resource limits.
        pub rlimits: Vec<Rlimit<'a>>,
        /// Whether execve(2) may not raise privileges (PR_SET_NO_NEW_PRIVS).
        pub no_new_privileges: bool,
        /// AppArmor profile.
        pub apparmor_profile: Option<Str<'a>>,
        /// Score adjustment for the OOM killer, -1000 to 1000.
        pub oom_score_adj: Option<i32>,
        /// Scheduling policy, sched_setattr(2).
        pub scheduler: Option<Scheduler<'a>>,
        /// SELinux label.
        pub selinux_label: Option<Str<'a>>,
        /// I/O priority, ioprio_set(2).
        pub io_priority: Option<IoPriority<'a>>,
        /// CPU affinity of processes that join the container.
        #[serde(rename = "execCPUAffinity")]
        pub exec_cpu_affinity: Option<CpuAffinity<'a>>,
    }
}

object! {
    /// Size of a terminal in characters.
    pub struct ConsoleSize {
        /// Rows.
        pub height: u16,
        /// Columns.
        pub width: u16,
    }
}

object! {
    /// User and group ids that a process runs with (`process.user`).
    pub struct User<'a> {
        /// User id inside the container.
        pub uid: u32,
        /// Group id inside the container.
        pub gid: u32,
        /// File mode creation mask.
        pub umask: Option<u32>,
        /// Supplementary groups inside the container.
        pub additional_gids: Vec<u32>,
        /// User name; used only on Windows, and ignored here.
        pub username: Option<Str<'a>>,
    }
}

// Engines and validators expect `user` to be present even if all its ids are 0.
impl Absent for User<'_> {}

object! {
    /// Capability sets by name (`process.capabilities`), see
    /// [`CapabilitySet`](crate::capability::CapabilitySet).
    pub struct Capabilities<'a> {
        /// Bounding set: limits the capabilities that execve(2) can add.
        pub bounding: Vec<Str<'a>>,
        /// Effective set: the capabilities that the kernel checks.
        pub effective: Vec<Str<'a>>,
        /// Inheritable set: kept across execve(2) for files that allow it.
        pub inheritable: Vec<Str<'a>>,
        /// Permitted set: limits the effective set.
        pub permitted: Vec<Str<'a>>,
        /// Ambient set: kept across execve(2) of a file without capabilities.
        pub ambient: Vec<Str<'a>>,
    }
}

object! {
    /// One resource limit (`process.rlimits`), setrlimit(2).
    pub struct Rlimit<'a> {
        /// Name such as `RLIMIT_NOFILE`, see [`rlimit::number`](crate::rlimit::number).
        #[serde(rename = "type")]
        pub kind: Str<'a>,
        /// Hard limit, which only a privileged process may raise.
        pub hard: u64,
        /// Soft limit.
        pub soft: u64,
    }
}

object! {
    /// Scheduling policy (`process.scheduler`), sched_setattr(2).
    pub struct Scheduler<'a> {
        /// `SCHED_OTHER`, `SCHED_FIFO`, …
        pub policy: Str<'a>,
        /// Nice value.
        pub nice: i32,
        /// Static priority.
        pub priority: i32,
        /// `SCHED_FLAG_…`.
        pub flags: Vec<Str<'a>>,
        /// Deadline policy: run time in nanoseconds.
        pub runtime: u64,
        /// Deadline policy: deadline in nanoseconds.
        pub deadline: u64,
        /// Deadline policy: period in nanoseconds.
        pub period: u64,
    }
}

object! {
    /// I/O priority (`process.ioPriority`), ioprio_set(2).
    pub struct IoPriority<'a> {
        /// `IOPRIO_CLASS_RT`, `IOPRIO_CLASS_BE` or `IOPRIO_CLASS_IDLE`.
        pub class: Str<'a>,
        /// Level within the class, 0 (highest) to 7.
        pub priority: i32,
    }
}

object! {
    /// CPUs of a process that joins the container (`process.execCPUAffinity`).
    pub struct CpuAffinity<'a> {
        /// CPUs of the process before it enters the container's cgroup.
        pub initial: Option<Str<'a>>,
        /// CPUs of the process after it has entered the cgroup.
        #[serde(rename = "final")]
        pub settled: Option<Str<'a>>,
    }
}

impl Process<'_> {
    /// Replaces empty strings by `None`, like `Spec::drop_empty`.
    pub(crate) fn drop_empty(&mut self) {
        drop_if_empty(&mut self.user.username);
        drop_if_empty(&mut self.apparmor_profile);
        drop_if_empty(&mut self.selinux_label);
    }
}
