//! The options of all commands. An option that several commands share has the same meaning in each of them.

mod images;
mod templates;

pub use images::*;
pub use templates::*;

use super::Options;
use crate::option::{Kind, Opt};

/// Shows a command's help; accepted by all commands.
pub const HELP: Opt = Opt::new("-h, --help", "show help");

// Options before the command.
/// Prints the version.
pub const VERSION: Opt = Opt::new("-v, --version", "print the version");
/// The state root: the directory for the state of containers.
pub const ROOT: Opt = Opt::new(
    "--root DIR",
    "directory for the state of containers, best on a tmpfs (default: /run/dayfly, or $XDG_RUNTIME_DIR/dayfly for users other than root)",
);
/// The log file.
pub const LOG: Opt =
    Opt::new("--log FILE", "append errors and warnings to this file as well").destroys();
/// The log format.
pub const LOG_FORMAT: Opt =
    Opt::new("--log-format FORMAT", "format of the log: text (default) or json")
        .choices(&["text", "json"]);
/// Also writes debug messages to the log.
pub const DEBUG: Opt = Opt::new("--debug", "write debug messages to the log");
/// Selects the systemd driver, as in runc.
pub const SYSTEMD_CGROUP: Opt = Opt::new(
    "--systemd-cgroup",
    "let systemd manage cgroups (the user's own, without root): linux.cgroupsPath is slice:prefix:name",
);
/// Selects the cgroup driver, as in crun.
pub const CGROUP_MANAGER: Opt = Opt::new(
    "--cgroup-manager MANAGER",
    "manager of cgroups: cgroupfs (default), disabled, or systemd (as --systemd-cgroup)",
)
.choices(&["cgroupfs", "disabled", "systemd"]);
/// Permits ignoring cgroup errors, as in runc.
pub const ROOTLESS: Opt = Opt::new(
    "--rootless BOOL",
    "true, false or auto (default): whether a container without limits may start without a cgroup if cgroups cannot be created, and whether systemd is the user's own instance; auto is true for users other than the host's root",
)
.choices(&["true", "false", "auto"]);

/// The options before the command.
pub static GLOBALS: Options =
    &[&[&ROOT, &LOG, &LOG_FORMAT, &DEBUG, &SYSTEMD_CGROUP, &CGROUP_MANAGER, &ROOTLESS, &VERSION]];

// create, run, exec.
/// The bundle.
pub const BUNDLE: Opt = Opt::new("-b, --bundle DIR", "the bundle (default: the working directory)");
/// A configuration file outside the bundle.
pub const CONFIG: Opt =
    Opt::new("--config FILE", "the configuration (default: config.json in the bundle)");
/// The socket to which the terminal's descriptor is sent.
pub const CONSOLE_SOCKET: Opt = Opt::new(
    "--console-socket SOCKET",
    "AF_UNIX socket to which the master end of the process's terminal is sent",
);
/// The socket to which the process's pidfd is sent.
pub const PIDFD_SOCKET: Opt =
    Opt::new("--pidfd-socket SOCKET", "AF_UNIX socket to which a pidfd of the process is sent");
/// The file for the pid.
pub const PID_FILE: Opt =
    Opt::new("--pid-file FILE", "write the process's pid to this file").destroys();
/// Avoids pivot_root(2), which fails if the host's root filesystem is a ramdisk.
pub const NO_PIVOT: Opt = Opt::new(
    "--no-pivot",
    "enter the root filesystem without pivot_root, as required on a ramdisk",
);
/// Keeps the caller's session keyring.
pub const NO_NEW_KEYRING: Opt =
    Opt::new("--no-new-keyring", "keep the caller's session keyring instead of creating a new one");
/// The number of additional descriptors for the process.
pub const PRESERVE_FDS: Opt = Opt::new(
    "--preserve-fds N",
    "pass N more file descriptors: those after standard error and after the descriptors of $LISTEN_FDS",
)
.kind(Kind::Integer);
/// The CPUs that dayfly itself uses to start the container.
pub const START_CPUS: Opt = Opt::new(
    "--start-cpus CPUS",
    "CPUs on which dayfly itself runs during the start, for example those that \"dayfly host locks\" advises: a list such as 0-23, or words as for --pin; hooks and the program are not affected",
);
/// The CPUs of the container, selected by topology.
pub const PIN: Opt = Opt::new(
    "--pin WORDS",
    "run the container on these CPUs, with the memory nodes of these CPUs: node:0, ccx:1, package:0, cores:4, spread:4, no-smt, joined by commas",
);
/// The memory limit of the pool that provides the container's cgroup.
pub const POOL: Opt = Opt::new(
    "--pool SIZE",
    "use a cgroup with this memory limit, such as 256M, that \"dayfly cgroup pool create\" has created in advance; for accounting only: starts have not been shown to be faster",
);
/// The former name of `--pool`.
pub const TIER: Opt = Opt::new("--tier SIZE", "the same as --pool").hidden();
/// The template that forks the program.
pub const TEMPLATE: Opt = Opt::new(
    "--template NAME",
    "let this template fork the program (\"dayfly template\"); if it cannot, the program is executed",
);
/// The options of `create` and `run` that control the start of the container.
pub const OF_STARTS: &[&Opt] =
    &[&NO_PIVOT, &NO_NEW_KEYRING, &PRESERVE_FDS, &PIN, &POOL, &TIER, &START_CPUS, &TEMPLATE];
/// Makes the command return once the program is running.
pub const DETACH: Opt = Opt::new("-d, --detach", "return as soon as the process runs");
/// Keeps the container after its exit.
pub const KEEP: Opt = Opt::new("--keep", "do not delete the container when its process has ended");
/// Prevents the command from becoming the reaper of orphaned descendants.
pub const NO_SUBREAPER: Opt =
    Opt::new("--no-subreaper", "do not become the parent of the container's orphans");
/// The trace file.
pub const TRACE: Opt = Opt::new(
    "--trace FILE",
    "write the steps of the start and their times to this file, in the format of its suffix (.json for Chrome and Perfetto, .jsonl, .csv, .folded, .svg, else a table; %i, %c and %p stand for container, command and pid), or to standard error if it is -",
)
.destroys();

// exec.
/// The process's working directory.
pub const CWD: Opt = Opt::new("--cwd DIR", "working directory in the container");
/// Additional environment entries of the process.
pub const ENV: Opt =
    Opt::new("-e, --env NAME=VALUE", "set an environment variable; repeatable").kind(Kind::Texts);
/// Accepted without effect, since the process always has standard input.
pub const INTERACTIVE: Opt =
    Opt::new("-i, --interactive", "has no effect: the process has standard input in any case");
/// Gives the process a terminal.
pub const TTY: Opt = Opt::new("-t, --tty", "allocate a terminal for the process");
/// The user and group of the process.
pub const USER: Opt = Opt::new("-u, --user UID[:GID]", "user and group id of the process");
/// Additional groups of the process.
pub const ADDITIONAL_GIDS: Opt =
    Opt::new("-g, --additional-gids GID", "add a supplementary group id; repeatable")
        .kind(Kind::Integers);
/// The file with the process as JSON.
pub const PROCESS: Opt = Opt::new("-p, --process FILE", "the process as JSON, as in config.json");
/// The process's SELinux label.
pub const PROCESS_LABEL: Opt = Opt::new("--process-label LABEL", "SELinux label of the process");
/// The process's AppArmor profile.
pub const APPARMOR: Opt = Opt::new("--apparmor PROFILE", "AppArmor profile of the process");
/// Sets no_new_privs for the process.
pub const NO_NEW_PRIVS: Opt =
    Opt::new("--no-new-privs", "prevent the process from gaining privileges by execve");
/// Additional capabilities of the process.
pub const CAP: Opt = Opt::new("-c, --cap CAP", "add a capability; repeatable").kind(Kind::Texts);
/// The sub-cgroup of the process.
pub const CGROUP: Opt = Opt::new(
    "--cgroup [CONTROLLER:]PATH",
    "run the process in this existing cgroup below the container's cgroup; repeatable on cgroup v1",
)
.kind(Kind::Texts);
/// Runs the process even if the container is paused.
pub const IGNORE_PAUSED: Opt =
    Opt::new("--ignore-paused", "run the process even if the container is paused");

// Root filesystems from layers: create, run.
/// The file that lists the layers.
pub const LAYERS: Opt = Opt::new(
    "--layers FILE",
    "assemble the root filesystem from the directories listed in this file, the bottom layer first",
);
/// The directory for images and for changes that containers make to their root filesystems.
pub const STORE: Opt = Opt::new(
    "--store DIR",
    "directory of images, and of files that containers change (default: $DAYFLY_STORE, /var/lib/dayfly, or ~/.local/share/dayfly for a user, also as root of a user namespace)",
);
/// The mapping of a container's ids to ids of the host, for containers with layers.
pub const USERNS: Opt = Opt::new(
    "--userns WHOSE",
    "ids of a container with layers: auto (a separate range), shared (one range for all shared containers), or host (default: as in the configuration)",
)
.choices(&["auto", "shared", "host"]);
/// The mode in which the root filesystem is assembled.
pub const ROOTFS_MODE: Opt = Opt::new(
    "--rootfs-mode MODE",
    "how layers are assembled: fd, path, parent, per-layer, copy, or auto (default), the best mode that the kernel supports",
)
.choices(&["auto", "fd", "path", "parent", "per-layer", "copy"]);
/// The file with the mounts of the root filesystem, in containerd's format.
pub const ROOTFS_MOUNTS: Opt = Opt::new(
    "--rootfs-mounts FILE",
    "for shims: the mounts of the root filesystem as containerd passes them, a JSON list with type, source, target and options",
);
/// Keeps changes of the root filesystem in memory.
pub const EPHEMERAL: Opt =
    Opt::new("--ephemeral", "keep changes of the root filesystem in memory, not on disk");
/// The size limit of changes in memory.
pub const EPHEMERAL_SIZE: Opt = Opt::new(
    "--ephemeral-size BYTES",
    "memory for changes, such as 512m; with --ephemeral (default: half of the host's memory)",
);
/// Prints how the root filesystem was assembled.
pub const ROOTFS_STATS: Opt = Opt::new(
    "--stats",
    "print how the root filesystem was assembled, the number of mount operations, and the time",
);
/// The options of `create` and `run` for root filesystems from layers.
pub const OF_LAYERS: &[&Opt] =
    &[&LAYERS, &STORE, &USERNS, &ROOTFS_MODE, &ROOTFS_MOUNTS, &EPHEMERAL, &EPHEMERAL_SIZE];

// kill, delete.
/// Formerly made runc send the signal to all processes.
pub const ALL: Opt = Opt::new("-a, --all", "succeed if the container is not running").hidden();
/// The signal, as in Docker and Podman.
pub const SIGNAL: Opt = Opt::new("-s, --signal SIGNAL", "the signal; all arguments are containers");
/// Accepted without effect: containers have no volumes that would be removed with them.
pub const VOLUMES: Opt =
    Opt::new("-v, --volumes", "has no effect: containers have no volumes of their own").hidden();
/// Accepted without effect, since `list` lists all containers.
pub const LIST_ALL: Opt = Opt::new("-a, --all", "has no effect: all are listed").hidden();
/// Deletes a running container.
pub const FORCE: Opt = Opt::new(
    "-f, --force",
    "kill the container if it is running, and succeed if it does not exist",
)
.destroys();

// stop.
/// The time to wait for the program's exit.
pub const STOP_TIME: Opt = Opt::new(
    "-t, --time TIME",
    "time after which the program is killed, such as 500ms, or a number of seconds (default: 10s)",
);

// list, ps, plan.
/// The format: table or JSON.
pub const FORMAT: Opt =
    Opt::new("-f, --format FORMAT", "table (default) or json").choices(&["table", "json"]);
/// The format: text or JSON.
pub const PLAN_FORMAT: Opt =
    Opt::new("-f, --format FORMAT", "text (default) or json").choices(&["text", "json"]);
/// Prints the rules for the order of the steps instead of the steps.
pub const PLAN_CHECK: Opt = Opt::new(
    "--check",
    "print the rules on the order of steps instead, and whether the plan follows them",
);
/// Plans the start by `run` instead of `create`.
pub const PLAN_OF_RUN: Opt = Opt::new("--run", "plan a start by run; by default, by create");
/// The format: a template.
pub const INSPECT_FORMAT: Opt = Opt::new(
    "-f, --format TEMPLATE",
    "print a line for each container instead: this text, with values for {{.State.Status}}, {{json .Mounts}} and the like",
);
/// Prints a table without truncation.
pub const NO_TRUNC: Opt =
    Opt::new("--no-trunc", "print all columns in full, regardless of the terminal's width");
/// Prints only ids.
pub const QUIET: Opt = Opt::new("-q, --quiet", "print container ids only");

// events.
/// The format of the output: JSON or metrics.
pub const EVENTS_FORMAT: Opt = Opt::new(
    "-f, --format FORMAT",
    "json (default), or prometheus: the current statistics in Prometheus's text format",
)
.choices(&["json", "prometheus"]);
/// Prints the statistics of all running containers.
pub const EVENTS_ALL: Opt = Opt::new(
    "-a, --all",
    "print the statistics of all running containers; with --stats or --format prometheus",
);
/// Prints the statistics once.
pub const STATS: Opt = Opt::new("--stats", "print the container's statistics once, and exit");
/// The time between two sets of statistics.
pub const INTERVAL: Opt = Opt::new(
    "--interval TIME",
    "time between two sets of statistics, such as 500ms or 1m (default: 5s)",
)
.kind(Kind::Duration);

// spec.
/// The bundle to which the configuration is written.
pub const SPEC_BUNDLE: Opt =
    Opt::new("-b, --bundle DIR", "the bundle to write to (default: the working directory)");
/// Writes a configuration for a user who is not root.
pub const SPEC_ROOTLESS: Opt =
    Opt::new("--rootless", "write a configuration for the calling user instead of root");

// update.
/// The file with the resources as JSON.
pub const RESOURCES: Opt = Opt::new(
    "-r, --resources FILE",
    "read the resources as JSON, as in config.json, from this file or, if it is -, from standard input; the other options are then ignored",
);
/// Sets blkio.weight, io.bfq.weight or io.weight.
pub const BLKIO_WEIGHT: Opt =
    Opt::new("--blkio-weight WEIGHT", "weight of block device access, 10 to 1000")
        .kind(Kind::Integer);
/// Sets cpu.cfs_period_us (v1), or the period in cpu.max (v2).
pub const CPU_PERIOD: Opt = Opt::new("--cpu-period MICROSECONDS", "period of the CPU quota");
/// Sets cpu.cfs_quota_us (v1), or the quota in cpu.max (v2).
pub const CPU_QUOTA: Opt =
    Opt::new("--cpu-quota MICROSECONDS", "CPU time that the container may use in a period");
/// Sets cpu.cfs_burst_us (v1) or cpu.max.burst (v2).
pub const CPU_BURST: Opt =
    Opt::new("--cpu-burst MICROSECONDS", "unused CPU time that may be used later in a burst");
/// Sets cpu.shares (v1) or cpu.weight (v2).
pub const CPU_SHARE: Opt =
    Opt::new("--cpu-share SHARES", "weight of CPU time relative to other containers, 2 to 262144");
/// Sets cpu.rt_period_us; cgroup v1 only.
pub const CPU_RT_PERIOD: Opt =
    Opt::new("--cpu-rt-period MICROSECONDS", "period of the limit on real-time CPU time");
/// Sets cpu.rt_runtime_us; cgroup v1 only.
pub const CPU_RT_RUNTIME: Opt = Opt::new(
    "--cpu-rt-runtime MICROSECONDS",
    "real-time CPU time that the container may use in a period",
);
/// Sets cpuset.cpus.
pub const CPUSET_CPUS: Opt = Opt::new("--cpuset-cpus LIST", "CPUs to run on, such as 0-2,7");
/// Sets cpuset.mems.
pub const CPUSET_MEMS: Opt = Opt::new("--cpuset-mems LIST", "memory nodes to use, such as 0");
/// Sets cpu.idle.
pub const CPU_IDLE: Opt = Opt::new(
    "--cpu-idle 0|1",
    "1: run only when no other task needs the CPU (SCHED_IDLE), 0: run normally",
);
/// Accepted without effect; formerly set memory.kmem.limit_in_bytes.
pub const KERNEL_MEMORY: Opt =
    Opt::new("--kernel-memory BYTES", "has no effect: the kernel dropped this limit").hidden();
/// Accepted without effect; formerly set memory.kmem.tcp.limit_in_bytes.
pub const KERNEL_MEMORY_TCP: Opt =
    Opt::new("--kernel-memory-tcp BYTES", "has no effect: the kernel dropped this limit").hidden();
const MEMORY_HELP: &str = "memory limit, such as 512m; -1 is no limit";
/// Sets memory.limit_in_bytes (v1) or memory.max (v2).
pub const MEMORY: Opt = Opt::new("--memory BYTES", MEMORY_HELP);
/// Sets memory.soft_limit_in_bytes (v1) or memory.low (v2).
pub const MEMORY_RESERVATION: Opt =
    Opt::new("--memory-reservation BYTES", "soft memory limit: memory.low on cgroup v2");
/// Sets memory.memsw.limit_in_bytes (v1) or memory.swap.max (v2).
pub const MEMORY_SWAP: Opt =
    Opt::new("--memory-swap BYTES", "limit of memory and swap together; -1 is no limit");
/// Sets pids.max.
pub const PIDS_LIMIT: Opt =
    Opt::new("--pids-limit N", "number of processes and threads; -1 is no limit")
        .kind(Kind::Integer);
/// Sets the cache line of the resctrl schemata.
pub const L3_CACHE_SCHEMA: Opt =
    Opt::new("--l3-cache-schema SCHEMA", "Intel RDT cache schema, as L3:0=ff");
/// Sets the memory bandwidth line of the resctrl schemata.
pub const MEM_BW_SCHEMA: Opt =
    Opt::new("--mem-bw-schema SCHEMA", "Intel RDT memory bandwidth schema, as MB:0=50");

// checkpoint, restore.
/// The directory for criu's images.
pub const IMAGE_PATH: Opt = Opt::new(
    "--image-path DIR",
    "directory of criu's images, which only the caller can write to (default: checkpoint in the working directory)",
)
.destroys();
/// The directory for criu's log and work files.
pub const WORK_PATH: Opt = Opt::new(
    "--work-path DIR",
    "directory of criu's log and work files (default: that of the images)",
)
.destroys();
/// The directory with the images of an earlier dump.
pub const PARENT_PATH: Opt = Opt::new(
    "--parent-path DIR",
    "images of the container's latest --pre-dump, relative to --image-path: save only what has changed since then",
);
/// Leaves the container running after the checkpoint.
pub const LEAVE_RUNNING: Opt =
    Opt::new("--leave-running", "leave the container running afterwards");
/// Saves and restores open TCP connections.
pub const TCP_ESTABLISHED: Opt =
    Opt::new("--tcp-established", "save and restore open TCP connections");
/// Restores TCP connections as closed ones.
pub const TCP_CLOSE: Opt = Opt::new(
    "--tcp-close",
    "restore open TCP connections as closed ones; for copies of a container",
);
/// Loads all memory before the program continues.
pub const EAGER: Opt =
    Opt::new("--eager", "load all memory before the program continues, also if there is a record");
/// Loads memory late, and records what of it is accessed first.
pub const RECORD: Opt = Opt::new(
    "--record",
    "let the first restore record the memory that the program accesses first; later ones load it first, and the rest while the program runs",
);
/// The longest time that criu may take.
pub const RESTORE_TIMEOUT: Opt = Opt::new(
    "--timeout TIME",
    "end criu, and remove the container, if the restore takes longer, such as 30s (default: no limit)",
);
/// Omits TCP connections that are being established.
pub const TCP_SKIP_IN_FLIGHT: Opt =
    Opt::new("--tcp-skip-in-flight", "skip TCP connections that are not established yet");
/// Gives a temporary name to each file that is open but unlinked.
pub const LINK_REMAP: Opt =
    Opt::new("--link-remap", "allow open files without a name, by linking them temporarily");
/// Permits UNIX sockets that are connected to sockets outside the container.
pub const EXT_UNIX_SK: Opt =
    Opt::new("--ext-unix-sk", "allow UNIX sockets connected to sockets outside the container");
/// Permits sessions and terminals from outside the container.
pub const SHELL_JOB: Opt =
    Opt::new("--shell-job", "allow a session or terminal from outside the container");
/// Transfers memory pages when the restored processes access them.
pub const LAZY_PAGES: Opt =
    Opt::new("--lazy-pages", "transfer memory only when it is accessed (userfaultfd)");
/// The descriptor to which a byte is written once memory pages can be fetched.
pub const STATUS_FD: Opt = Opt::new(
    "--status-fd FD",
    "descriptor to which a NUL byte is written when the memory of --lazy-pages can be fetched",
)
.kind(Kind::Integer);
/// The address of the page server.
pub const PAGE_SERVER: Opt = Opt::new(
    "--page-server ADDRESS:PORT",
    "address to which memory is sent; with --lazy-pages, from which it can be fetched",
);
/// Saves and restores file locks.
pub const FILE_LOCKS: Opt = Opt::new("--file-locks", "save and restore locks on files");
/// Saves only the memory.
pub const PRE_DUMP: Opt =
    Opt::new("--pre-dump", "save memory alone, for --parent-path, and leave the container running");
/// The mode in which criu saves and restores cgroups.
pub const MANAGE_CGROUPS_MODE: Opt = Opt::new(
    "--manage-cgroups-mode MODE",
    "how criu handles cgroups: soft (default), full, strict or ignore",
)
.choices(&["soft", "full", "strict", "ignore"]);
/// Namespaces that are restored without their contents.
pub const EMPTY_NS: Opt = Opt::new(
    "--empty-ns NAMESPACE",
    "create this namespace without restoring its content; the only value, network, always applies",
)
.kind(Kind::Texts);
/// The containers that may name the checkpoint by an annotation.
pub const CHECKPOINT_FOR: Opt = Opt::new(
    "--for KEY=VALUE",
    "containers with this annotation may name the checkpoint, in /var/lib/dayfly/checkpoints, by the annotation run.dayfly.checkpoint; if repeated, with all of them",
)
.kind(Kind::Texts);
/// Frees pages of the parent's images that were saved again.
pub const AUTO_DEDUP: Opt = Opt::new(
    "--auto-dedup",
    "checkpoint: free memory in the images of --parent-path that is saved again; restore: not supported yet",
);
/// The AppArmor profile or SELinux label that replaces the saved one.
pub const LSM_PROFILE: Opt = Opt::new(
    "--lsm-profile TYPE:NAME",
    "AppArmor profile or SELinux label in place of the saved one (criu 3.16)",
);
/// The SELinux context of mounts that replaces the saved one.
pub const LSM_MOUNT_CONTEXT: Opt = Opt::new(
    "--lsm-mount-context CONTEXT",
    "SELinux context of mounts in place of the saved one (criu 3.16)",
);
