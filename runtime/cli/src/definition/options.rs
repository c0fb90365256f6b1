//! The options of all commands. An option that several commands share has the same meaning in each of them.

pub mod images;
pub mod templates;

use crate::option::{Kind, Opt};

/// Shows a command's help; accepted by all commands.
pub static HELP: Opt = Opt::flag("help", "show help").short('h');

// Options before the command.
/// Prints the version.
pub static VERSION: Opt = Opt::flag("version", "print the version").short('v');
/// The state root: the directory for the state of containers.
pub static ROOT: Opt = Opt::text(
    "root",
    "DIR",
    "directory for the state of containers, best on a tmpfs (default: /run/dayfly, or $XDG_RUNTIME_DIR/dayfly for users other than root)",
);
/// The log file.
pub static LOG: Opt = Opt::text("log", "FILE", "append errors and warnings to this file as well");
/// The log format.
pub static LOG_FORMAT: Opt =
    Opt::text("log-format", "FORMAT", "format of the log: text (default) or json")
        .choices(&["text", "json"]);
/// Also writes debug messages to the log.
pub static DEBUG: Opt = Opt::flag("debug", "write debug messages to the log");
/// Selects the systemd driver, as in runc.
pub static SYSTEMD_CGROUP: Opt = Opt::flag(
    "systemd-cgroup",
    "let systemd manage cgroups (the user's own, without root): linux.cgroupsPath is slice:prefix:name",
);
/// Selects the cgroup driver, as in crun.
pub static CGROUP_MANAGER: Opt = Opt::text(
    "cgroup-manager",
    "MANAGER",
    "manager of cgroups: cgroupfs (default), disabled, or systemd (as --systemd-cgroup)",
)
.choices(&["cgroupfs", "disabled", "systemd"]);
/// Permits ignoring cgroup errors, as in runc.
pub static ROOTLESS: Opt = Opt::text(
    "rootless",
    "BOOL",
    "true, false or auto (default): whether a container without limits may start without a cgroup if cgroups cannot be created, and whether systemd is the user's own instance; auto is true for users other than the host's root",
)
.choices(&["true", "false", "auto"]);

/// The options before the command.
pub static GLOBALS: &[&Opt] =
    &[&ROOT, &LOG, &LOG_FORMAT, &DEBUG, &SYSTEMD_CGROUP, &CGROUP_MANAGER, &ROOTLESS, &VERSION];

// create, run, exec.
/// The bundle.
pub static BUNDLE: Opt =
    Opt::text("bundle", "DIR", "the bundle (default: the working directory)").short('b');
/// A configuration file outside the bundle.
pub static CONFIG: Opt =
    Opt::text("config", "FILE", "the configuration (default: config.json in the bundle)");
/// The socket to which the terminal's descriptor is sent.
pub static CONSOLE_SOCKET: Opt = Opt::text(
    "console-socket",
    "SOCKET",
    "AF_UNIX socket to which the master end of the process's terminal is sent",
);
/// The socket to which the process's pidfd is sent.
pub static PIDFD_SOCKET: Opt =
    Opt::text("pidfd-socket", "SOCKET", "AF_UNIX socket to which a pidfd of the process is sent");
/// The file for the pid.
pub static PID_FILE: Opt = Opt::text("pid-file", "FILE", "write the process's pid to this file");
/// Avoids pivot_root(2), which fails if the host's root filesystem is a ramdisk.
pub static NO_PIVOT: Opt =
    Opt::flag("no-pivot", "enter the root filesystem without pivot_root, as required on a ramdisk");
/// Keeps the caller's session keyring.
pub static NO_NEW_KEYRING: Opt =
    Opt::flag("no-new-keyring", "keep the caller's session keyring instead of creating a new one");
/// The number of additional descriptors for the process.
pub static PRESERVE_FDS: Opt = Opt::new(
    "preserve-fds",
    Kind::Integer,
    "N",
    "pass N more file descriptors: those after standard error and after the descriptors of $LISTEN_FDS",
);
/// The CPUs that dayfly itself uses to start the container.
pub static START_CPUS: Opt = Opt::text(
    "start-cpus",
    "CPUS",
    "CPUs on which dayfly itself runs during the start, for example those that \"dayfly host locks\" advises: a list such as 0-23, or words as for --pin; hooks and the program are not affected",
);
/// The CPUs of the container, selected by topology.
pub static PIN: Opt = Opt::text(
    "pin",
    "WORDS",
    "run the container on these CPUs, with the memory nodes of these CPUs: node:0, ccx:1, package:0, cores:4, spread:4, no-smt, joined by commas",
);
/// The memory limit of the pool that provides the container's cgroup.
pub static POOL: Opt = Opt::text(
    "pool",
    "SIZE",
    "use a cgroup with this memory limit, such as 256M, that \"dayfly cgroup pool create\" has created in advance; for accounting only: starts have not been shown to be faster",
);
/// The former name of `--pool`.
pub static TIER: Opt = Opt::text("tier", "SIZE", "the same as --pool").hidden();
/// The template that forks the program.
pub static TEMPLATE: Opt = Opt::text(
    "template",
    "NAME",
    "let this template fork the program (\"dayfly template\"); if it cannot, the program is executed",
);
/// The options of `create` and `run` that control the start of the container.
pub const OF_STARTS: &[&Opt] =
    &[&NO_PIVOT, &NO_NEW_KEYRING, &PRESERVE_FDS, &PIN, &POOL, &TIER, &START_CPUS, &TEMPLATE];
/// Makes the command return once the program is running.
pub static DETACH: Opt = Opt::flag("detach", "return as soon as the process runs").short('d');
/// Keeps the container after its exit.
pub static KEEP: Opt = Opt::flag("keep", "do not delete the container when its process has ended");
/// Prevents the command from becoming the reaper of orphaned descendants.
pub static NO_SUBREAPER: Opt =
    Opt::flag("no-subreaper", "do not become the parent of the container's orphans");
/// The trace file.
pub static TRACE: Opt = Opt::text(
    "trace",
    "FILE",
    "write the steps of the start and their times to this file, in the format of its suffix (.json for Chrome and Perfetto, .jsonl, .csv, .folded, .svg, else a table; %i, %c and %p stand for container, command and pid), or to standard error if it is -",
);

// exec.
/// The process's working directory.
pub static CWD: Opt = Opt::text("cwd", "DIR", "working directory in the container");
/// Additional environment entries of the process.
pub static ENV: Opt =
    Opt::new("env", Kind::Texts, "NAME=VALUE", "set an environment variable; repeatable")
        .short('e');
/// Accepted without effect, since the process always has standard input.
pub static INTERACTIVE: Opt =
    Opt::flag("interactive", "has no effect: the process has standard input in any case")
        .short('i');
/// Gives the process a terminal.
pub static TTY: Opt = Opt::flag("tty", "allocate a terminal for the process").short('t');
/// The user and group of the process.
pub static USER: Opt =
    Opt::text("user", "UID[:GID]", "user and group id of the process").short('u');
/// Additional groups of the process.
pub static ADDITIONAL_GIDS: Opt =
    Opt::new("additional-gids", Kind::Integers, "GID", "add a supplementary group id; repeatable")
        .short('g');
/// The file with the process as JSON.
pub static PROCESS: Opt =
    Opt::text("process", "FILE", "the process as JSON, as in config.json").short('p');
/// The process's SELinux label.
pub static PROCESS_LABEL: Opt = Opt::text("process-label", "LABEL", "SELinux label of the process");
/// The process's AppArmor profile.
pub static APPARMOR: Opt = Opt::text("apparmor", "PROFILE", "AppArmor profile of the process");
/// Sets no_new_privs for the process.
pub static NO_NEW_PRIVS: Opt =
    Opt::flag("no-new-privs", "prevent the process from gaining privileges by execve");
/// Additional capabilities of the process.
pub static CAP: Opt =
    Opt::new("cap", Kind::Texts, "CAP", "add a capability; repeatable").short('c');
/// The sub-cgroup of the process.
pub static CGROUP: Opt = Opt::new(
    "cgroup",
    Kind::Texts,
    "[CONTROLLER:]PATH",
    "run the process in this existing cgroup below the container's cgroup; repeatable on cgroup v1",
);
/// Runs the process even if the container is paused.
pub static IGNORE_PAUSED: Opt =
    Opt::flag("ignore-paused", "run the process even if the container is paused");

// Root filesystems from layers: create, run.
/// The file that lists the layers.
pub static LAYERS: Opt = Opt::text(
    "layers",
    "FILE",
    "assemble the root filesystem from the directories listed in this file, the bottom layer first",
);
/// The directory for images and for changes that containers make to their root filesystems.
pub static STORE: Opt = Opt::text(
    "store",
    "DIR",
    "directory of images, and of files that containers change (default: $DAYFLY_STORE, /var/lib/dayfly, or ~/.local/share/dayfly for a user, also as root of a user namespace)",
);
/// The mapping of a container's ids to ids of the host, for containers with layers.
pub static USERNS: Opt = Opt::text(
    "userns",
    "WHOSE",
    "ids of a container with layers: auto (a separate range), shared (one range for all shared containers), or host (default: as in the configuration)",
)
.choices(&["auto", "shared", "host"]);
/// The mode in which the root filesystem is assembled.
pub static ROOTFS_MODE: Opt = Opt::text(
    "rootfs-mode",
    "MODE",
    "how layers are assembled: fd, path, parent, per-layer, copy, or auto (default), the best mode that the kernel supports",
)
.choices(&["auto", "fd", "path", "parent", "per-layer", "copy"]);
/// The file with the mounts of the root filesystem, in containerd's format.
pub static ROOTFS_MOUNTS: Opt = Opt::text(
    "rootfs-mounts",
    "FILE",
    "for shims: the mounts of the root filesystem as containerd passes them, a JSON list with type, source, target and options",
);
/// Keeps changes of the root filesystem in memory.
pub static EPHEMERAL: Opt =
    Opt::flag("ephemeral", "keep changes of the root filesystem in memory, not on disk");
/// The size limit of changes in memory.
pub static EPHEMERAL_SIZE: Opt = Opt::text(
    "ephemeral-size",
    "BYTES",
    "memory for changes, such as 512m; with --ephemeral (default: half of the host's memory)",
);
/// Prints how the root filesystem was assembled.
pub static ROOTFS_STATS: Opt = Opt::flag(
    "stats",
    "print how the root filesystem was assembled, the number of mount operations, and the time",
);
/// The options of `create` and `run` for root filesystems from layers.
pub const OF_LAYERS: &[&Opt] =
    &[&LAYERS, &STORE, &USERNS, &ROOTFS_MODE, &ROOTFS_MOUNTS, &EPHEMERAL, &EPHEMERAL_SIZE];

// kill, delete.
/// Formerly made runc send the signal to all processes.
pub static ALL: Opt =
    Opt::flag("all", "succeed if the container is not running").short('a').hidden();
/// Deletes a running container.
pub static FORCE: Opt =
    Opt::flag("force", "kill the container if it is running, and succeed if it does not exist")
        .short('f');

// stop.
/// The time to wait for the program's exit.
pub static STOP_TIME: Opt = Opt::new(
    "time",
    Kind::Text,
    "TIME",
    "time after which the program is killed, such as 500ms, or a number of seconds (default: 10s)",
)
.short('t');

// list, ps, plan.
/// The format: table or JSON.
pub static FORMAT: Opt =
    Opt::text("format", "FORMAT", "table (default) or json").short('f').choices(&["table", "json"]);
/// The format: text or JSON.
pub static PLAN_FORMAT: Opt =
    Opt::text("format", "FORMAT", "text (default) or json").short('f').choices(&["text", "json"]);
/// Prints the rules for the order of the steps instead of the steps.
pub static PLAN_CHECK: Opt = Opt::flag(
    "check",
    "print the rules on the order of steps instead, and whether the plan follows them",
);
/// Plans the start by `run` instead of `create`.
pub static PLAN_OF_RUN: Opt = Opt::flag("run", "plan a start by run; by default, by create");
/// Prints a table without truncation.
pub static NO_TRUNC: Opt =
    Opt::flag("no-trunc", "print all columns in full, regardless of the terminal's width");
/// Prints only ids.
pub static QUIET: Opt = Opt::flag("quiet", "print container ids only").short('q');

// events.
/// The format of the output: JSON or metrics.
pub static EVENTS_FORMAT: Opt = Opt::text(
    "format",
    "FORMAT",
    "json (default), or prometheus: the current statistics in Prometheus's text format",
)
.short('f')
.choices(&["json", "prometheus"]);
/// Prints the statistics of all running containers.
pub static EVENTS_ALL: Opt = Opt::flag(
    "all",
    "print the statistics of all running containers; with --stats or --format prometheus",
)
.short('a');
/// Prints the statistics once.
pub static STATS: Opt = Opt::flag("stats", "print the container's statistics once, and exit");
/// The time between two sets of statistics.
pub static INTERVAL: Opt = Opt::new(
    "interval",
    Kind::Duration,
    "TIME",
    "time between two sets of statistics, such as 500ms or 1m (default: 5s)",
);

// spec.
/// The bundle to which the configuration is written.
pub static SPEC_BUNDLE: Opt =
    Opt::text("bundle", "DIR", "the bundle to write to (default: the working directory)")
        .short('b');
/// Writes a configuration for a user who is not root.
pub static SPEC_ROOTLESS: Opt =
    Opt::flag("rootless", "write a configuration for the calling user instead of root");

// update.
/// The file with the resources as JSON.
pub static RESOURCES: Opt = Opt::text(
    "resources",
    "FILE",
    "read the resources as JSON, as in config.json, from this file or, if it is -, from standard input; the other options are then ignored",
)
.short('r');
/// Sets blkio.weight, io.bfq.weight or io.weight.
pub static BLKIO_WEIGHT: Opt =
    Opt::new("blkio-weight", Kind::Integer, "WEIGHT", "weight of block device access, 10 to 1000");
/// Sets cpu.cfs_period_us (v1), or the period in cpu.max (v2).
pub static CPU_PERIOD: Opt = Opt::text("cpu-period", "MICROSECONDS", "period of the CPU quota");
/// Sets cpu.cfs_quota_us (v1), or the quota in cpu.max (v2).
pub static CPU_QUOTA: Opt =
    Opt::text("cpu-quota", "MICROSECONDS", "CPU time that the container may use in a period");
/// Sets cpu.cfs_burst_us (v1) or cpu.max.burst (v2).
pub static CPU_BURST: Opt =
    Opt::text("cpu-burst", "MICROSECONDS", "unused CPU time that may be used later in a burst");
/// Sets cpu.shares (v1) or cpu.weight (v2).
pub static CPU_SHARE: Opt = Opt::text(
    "cpu-share",
    "SHARES",
    "weight of CPU time relative to other containers, 2 to 262144",
);
/// Sets cpu.rt_period_us; cgroup v1 only.
pub static CPU_RT_PERIOD: Opt =
    Opt::text("cpu-rt-period", "MICROSECONDS", "period of the limit on real-time CPU time");
/// Sets cpu.rt_runtime_us; cgroup v1 only.
pub static CPU_RT_RUNTIME: Opt = Opt::text(
    "cpu-rt-runtime",
    "MICROSECONDS",
    "real-time CPU time that the container may use in a period",
);
/// Sets cpuset.cpus.
pub static CPUSET_CPUS: Opt = Opt::text("cpuset-cpus", "LIST", "CPUs to run on, such as 0-2,7");
/// Sets cpuset.mems.
pub static CPUSET_MEMS: Opt = Opt::text("cpuset-mems", "LIST", "memory nodes to use, such as 0");
/// Sets cpu.idle.
pub static CPU_IDLE: Opt = Opt::text(
    "cpu-idle",
    "0|1",
    "1: run only when no other task needs the CPU (SCHED_IDLE), 0: run normally",
);
/// Accepted without effect; formerly set memory.kmem.limit_in_bytes.
pub static KERNEL_MEMORY: Opt =
    Opt::text("kernel-memory", "BYTES", "has no effect: the kernel dropped this limit").hidden();
/// Accepted without effect; formerly set memory.kmem.tcp.limit_in_bytes.
pub static KERNEL_MEMORY_TCP: Opt =
    Opt::text("kernel-memory-tcp", "BYTES", "has no effect: the kernel dropped this limit")
        .hidden();
/// Sets memory.limit_in_bytes (v1) or memory.max (v2).
pub const MEMORY_LIMIT: Opt =
    Opt::text("memory", "BYTES", "memory limit, such as 512m; -1 is no limit");
/// The option `--memory` of `update`.
pub static MEMORY: Opt = MEMORY_LIMIT;
/// Sets memory.soft_limit_in_bytes (v1) or memory.low (v2).
pub static MEMORY_RESERVATION: Opt =
    Opt::text("memory-reservation", "BYTES", "soft memory limit: memory.low on cgroup v2");
/// Sets memory.memsw.limit_in_bytes (v1) or memory.swap.max (v2).
pub static MEMORY_SWAP: Opt =
    Opt::text("memory-swap", "BYTES", "limit of memory and swap together; -1 is no limit");
/// Sets pids.max.
pub static PIDS_LIMIT: Opt =
    Opt::new("pids-limit", Kind::Integer, "N", "number of processes and threads; -1 is no limit");
/// Sets the cache line of the resctrl schemata.
pub static L3_CACHE_SCHEMA: Opt =
    Opt::text("l3-cache-schema", "SCHEMA", "Intel RDT cache schema, as L3:0=ff");
/// Sets the memory bandwidth line of the resctrl schemata.
pub static MEM_BW_SCHEMA: Opt =
    Opt::text("mem-bw-schema", "SCHEMA", "Intel RDT memory bandwidth schema, as MB:0=50");

// checkpoint, restore.
/// The directory for criu's images.
pub static IMAGE_PATH: Opt = Opt::text(
    "image-path",
    "DIR",
    "directory of criu's images, which only the caller can write to (default: checkpoint in the working directory)",
);
/// The directory for criu's log and work files.
pub static WORK_PATH: Opt = Opt::text(
    "work-path",
    "DIR",
    "directory of criu's log and work files (default: that of the images)",
);
/// The directory with the images of an earlier dump.
pub static PARENT_PATH: Opt = Opt::text(
    "parent-path",
    "DIR",
    "images of the container's latest --pre-dump, relative to --image-path: save only what has changed since then",
);
/// Leaves the container running after the checkpoint.
pub static LEAVE_RUNNING: Opt =
    Opt::flag("leave-running", "leave the container running afterwards");
/// Saves and restores open TCP connections.
pub static TCP_ESTABLISHED: Opt =
    Opt::flag("tcp-established", "save and restore open TCP connections");
/// Restores TCP connections as closed ones.
pub static TCP_CLOSE: Opt = Opt::flag(
    "tcp-close",
    "restore open TCP connections as closed ones; for copies of a container",
);
/// The longest time that criu may take.
pub static RESTORE_TIMEOUT: Opt = Opt::text(
    "timeout",
    "TIME",
    "end criu, and remove the container, if the restore takes longer, such as 30s (default: no limit)",
);
/// Omits TCP connections that are being established.
pub static TCP_SKIP_IN_FLIGHT: Opt =
    Opt::flag("tcp-skip-in-flight", "skip TCP connections that are not established yet");
/// Gives a temporary name to each file that is open but unlinked.
pub static LINK_REMAP: Opt =
    Opt::flag("link-remap", "allow open files without a name, by linking them temporarily");
/// Permits UNIX sockets that are connected to sockets outside the container.
pub static EXT_UNIX_SK: Opt =
    Opt::flag("ext-unix-sk", "allow UNIX sockets connected to sockets outside the container");
/// Permits sessions and terminals from outside the container.
pub static SHELL_JOB: Opt =
    Opt::flag("shell-job", "allow a session or terminal from outside the container");
/// Transfers memory pages when the restored processes access them.
pub static LAZY_PAGES: Opt =
    Opt::flag("lazy-pages", "transfer memory only when it is accessed (userfaultfd)");
/// The descriptor to which a byte is written once memory pages can be fetched.
pub static STATUS_FD: Opt = Opt::new(
    "status-fd",
    Kind::Integer,
    "FD",
    "descriptor to which a NUL byte is written when the memory of --lazy-pages can be fetched",
);
/// The address of the page server.
pub static PAGE_SERVER: Opt = Opt::text(
    "page-server",
    "ADDRESS:PORT",
    "address to which memory is sent; with --lazy-pages, from which it can be fetched",
);
/// Saves and restores file locks.
pub static FILE_LOCKS: Opt = Opt::flag("file-locks", "save and restore locks on files");
/// Saves only the memory.
pub static PRE_DUMP: Opt =
    Opt::flag("pre-dump", "save memory alone, for --parent-path, and leave the container running");
/// The mode in which criu saves and restores cgroups.
pub static MANAGE_CGROUPS_MODE: Opt = Opt::text(
    "manage-cgroups-mode",
    "MODE",
    "how criu handles cgroups: soft (default), full, strict or ignore",
)
.choices(&["soft", "full", "strict", "ignore"]);
/// Namespaces that are restored without their contents.
pub static EMPTY_NS: Opt = Opt::new(
    "empty-ns",
    Kind::Texts,
    "NAMESPACE",
    "create this namespace without restoring its content; the only value, network, always applies",
);
/// Frees pages of the parent's images that were saved again.
pub static AUTO_DEDUP: Opt = Opt::flag(
    "auto-dedup",
    "checkpoint: free memory in the images of --parent-path that is saved again; restore: not supported yet",
);
/// The AppArmor profile or SELinux label that replaces the saved one.
pub static LSM_PROFILE: Opt = Opt::text(
    "lsm-profile",
    "TYPE:NAME",
    "AppArmor profile or SELinux label in place of the saved one (criu 3.16)",
);
/// The SELinux context of mounts that replaces the saved one.
pub static LSM_MOUNT_CONTEXT: Opt = Opt::text(
    "lsm-mount-context",
    "CONTEXT",
    "SELinux context of mounts in place of the saved one (criu 3.16)",
);
