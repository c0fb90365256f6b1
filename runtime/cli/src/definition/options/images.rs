//! The options of `run` for containers that run an image, and those of `logs`.

use super::*;
use crate::option::{Kind, Opt};

/// The image to run.
pub const IMAGE: Opt = Opt::new(
    "--image REF",
    "run an image of the store instead of a bundle; the arguments are a command, not an id",
);
/// The id of a container that runs an image.
pub const CONTAINER_NAME: Opt =
    Opt::new("--name ID", "id of the container that runs an image (default: a new one)");
/// Makes `run` return once the process is running. The process inherits standard output and
/// standard error of `run`.
pub const RUN_DETACH: Opt =
    Opt::new("--detach", "return as soon as the process runs; its output is that of this command");
/// Makes `run` return once the process is running. The process's output is written to a log.
pub const BACKGROUND: Opt = Opt::new(
    "-d, --background",
    "return as soon as the process runs; with --image, print the container's id, and keep the output for \"dayfly logs\"",
);
/// The maximum size of the log.
pub const LOG_SIZE: Opt = Opt::new(
    "--log-size BYTES",
    "maximum size of the output that -d keeps, such as 64m (default: 8m); the output is in memory, and writes beyond the size fail (ENOSPC; without root EFBIG or EINVAL, until the program truncates the log)",
);
/// Removes the container after its process has exited, which is the default.
pub const REMOVE: Opt = Opt::new(
    "--rm",
    "remove the container when its process has ended, which is the default; not with -d",
)
.destroys();
/// The user of an image's process.
pub const RUN_USER: Opt = Opt::new(
    "-u, --user USER[:GROUP]",
    "user and group of the process, as names in the image or as numbers",
);
/// The working directory in the container.
pub const WORKDIR: Opt = Opt::new("-w, --workdir DIR", "the same as --cwd");
/// The program that runs in place of the image's entrypoint.
pub const ENTRYPOINT: Opt = Opt::new(
    "--entrypoint PROGRAM",
    "program that replaces the image's entrypoint and command, and gets the arguments of the command line; a JSON list for several words, an empty text for none",
);
/// A file or directory of the host to mount in the container.
pub const VOLUME: Opt = Opt::new(
    "-v, --volume SOURCE:DEST[:OPTIONS]",
    "bind-mount a file or directory of the host; options such as ro, idmap, noexec are joined by commas; repeatable",
)
.kind(Kind::Texts);
/// A mount, described by words of the form KEY=VALUE.
pub const MOUNT: Opt = Opt::new(
    "--mount KEY=VALUE,...",
    "mount type=bind,src=PATH,dst=PATH or type=tmpfs,dst=PATH, with ro, bind-propagation=, tmpfs-size=, tmpfs-mode=; repeatable",
)
.kind(Kind::Texts);
/// The memory limit.
pub const RUN_MEMORY: Opt = Opt::new("-m, --memory BYTES", MEMORY_HELP);

/// Variables from a file.
pub const ENV_FILE: Opt = Opt::new(
    "--env-file FILE",
    "set the environment variables that a file lists, NAME=VALUE or NAME a line; repeatable",
)
.kind(Kind::Texts);
/// A tmpfs.
pub const TMPFS: Opt = Opt::new(
    "--tmpfs DEST[:OPTIONS]",
    "mount a tmpfs, by default noexec; options such as size=64m, mode=700 or exec are joined by commas; repeatable",
)
.kind(Kind::Texts);
/// An annotation.
pub const LABEL: Opt =
    Opt::new("-l, --label NAME=VALUE", "set an annotation of the container; repeatable")
        .kind(Kind::Texts);
/// An annotation.
pub const ANNOTATION: Opt =
    Opt::new("--annotation NAME=VALUE", "the same as --label").kind(Kind::Texts);
/// The file for the id.
pub const CIDFILE: Opt =
    Opt::new("--cidfile FILE", "write the container's id to this file, which must not exist")
        .destroys();
/// The size of /dev/shm.
pub const SHM_SIZE: Opt =
    Opt::new("--shm-size BYTES", "size of /dev/shm, such as 256m (default: 62.5 MiB)");
/// Adds a capability.
pub const CAP_ADD: Opt = Opt::new(
    "--cap-add CAPABILITY",
    "add a capability, such as NET_ADMIN, or ALL, and allow the system calls that need it; repeatable",
)
.kind(Kind::Texts);
/// Removes a capability.
pub const CAP_DROP: Opt =
    Opt::new("--cap-drop CAPABILITY", "remove a capability, or ALL; repeatable").kind(Kind::Texts);
/// A device of the host.
pub const DEVICE: Opt = Opt::new(
    "--device HOST[:CONTAINER[:rwm]]",
    "make a device of the host accessible, to read, write and mknod; repeatable",
)
.kind(Kind::Texts);
/// A resource limit.
pub const ULIMIT: Opt = Opt::new(
    "--ulimit NAME=SOFT[:HARD]",
    "set a resource limit, such as nofile=1024:4096; -1 is no limit; repeatable",
)
.kind(Kind::Texts);
/// A kernel parameter.
pub const SYSCTL: Opt = Opt::new(
    "--sysctl NAME=VALUE",
    "set a kernel parameter of the container's namespaces, such as net.core.somaxconn=1024; repeatable",
)
.kind(Kind::Texts);
/// A line of /etc/hosts.
pub const ADD_HOST: Opt =
    Opt::new("--add-host NAME:ADDRESS", "add a line to /etc/hosts; repeatable").kind(Kind::Texts);
/// A name server.
pub const DNS: Opt =
    Opt::new("--dns ADDRESS", "name server in /etc/resolv.conf, instead of the host's; repeatable")
        .kind(Kind::Texts);
/// A search domain.
pub const DNS_SEARCH: Opt =
    Opt::new("--dns-search DOMAIN", "search domain in /etc/resolv.conf; repeatable")
        .kind(Kind::Texts);
/// An option of the resolver.
pub const DNS_OPTION: Opt =
    Opt::new("--dns-option OPTION", "option in /etc/resolv.conf; repeatable").kind(Kind::Texts);
/// The signal of `stop`.
pub const STOP_WITH: Opt =
    Opt::new("--stop-signal SIGNAL", "signal with which \"dayfly stop\" asks the program to end");
/// Options for the container's security.
pub const SECURITY_OPT: Opt =
    Opt::new("--security-opt OPTION", "no-new-privileges or seccomp=unconfined; repeatable")
        .kind(Kind::Texts);
/// Supplementary groups.
pub const GROUP_ADD: Opt =
    Opt::new("--group-add GID", "add a supplementary group id; repeatable").kind(Kind::Texts);
/// The score for the OOM killer.
pub const OOM_SCORE_ADJ: Opt =
    Opt::new("--oom-score-adj N", "adjustment of the OOM killer's score, -1000 to 1000")
        .kind(Kind::Integer);
/// The PID namespace.
pub const PID: Opt = Opt::new("--pid WHOSE", "PID namespace: private (default) or host");
/// The IPC namespace.
pub const IPC: Opt = Opt::new("--ipc WHOSE", "IPC namespace: private (default) or host");
/// The UTS namespace.
pub const UTS: Opt = Opt::new("--uts WHOSE", "UTS namespace: private (default) or host");
/// The cgroup namespace.
pub const CGROUPNS: Opt =
    Opt::new("--cgroupns WHOSE", "cgroup namespace: private (default) or host");
/// The weight of CPU time.
pub const CPU_SHARES: Opt =
    Opt::new("-c, --cpu-shares SHARES", "weight of CPU time, 2 to 262144 (default: 1024)");

/// The limit of CPU time.
pub const CPUS: Opt =
    Opt::new("--cpus NUMBER", "CPU time that the container may use, in CPUs, such as 1.5");
/// The container's network.
pub const NETWORK: Opt = Opt::new(
    "--network NETWORK",
    "none (default): only a loopback device; host; bridge, by CNI plugins; container:ID, the network of another container; ns:PATH",
);
/// A published port.
pub const PUBLISH: Opt = Opt::new(
    "-p, --publish [ADDRESS:]PORT:PORT[/udp]",
    "publish a port of the container at a port of the host, the first one, with --network bridge, which it implies; repeatable",
)
.kind(Kind::Texts);
/// The former name of `--network` in Docker and Podman.
pub const NET: Opt = Opt::new("--net NETWORK", "the same as --network").hidden();
/// Runs an additional first process that reaps orphans.
pub const INIT: Opt = Opt::new(
    "--init",
    "run a small init as the first process, which reaps orphans and forwards signals to the program",
);
/// Makes the root filesystem read-only.
pub const READ_ONLY: Opt =
    Opt::new("--read-only", "make the root filesystem of an image read-only");
/// The host name of a container that runs an image.
pub const HOSTNAME: Opt =
    Opt::new("--hostname NAME", "host name of a container that runs an image (default: its id)");

/// What users of images type most.
pub const EVERYDAY: &[&Opt] = &[
    &INTERACTIVE,
    &TTY,
    &CONTAINER_NAME,
    &VOLUME,
    &MOUNT,
    &TMPFS,
    &ENV,
    &ENV_FILE,
    &CWD,
    &WORKDIR,
    &RUN_USER,
    &ENTRYPOINT,
    &NETWORK,
    &NET,
    &PUBLISH,
    &HOSTNAME,
    &READ_ONLY,
    &INIT,
    &LABEL,
    &ANNOTATION,
    &STOP_WITH,
    &LOG_SIZE,
    &CIDFILE,
];
/// Limits of containers that run an image.
pub const LIMITS: &[&Opt] = &[
    &RUN_MEMORY,
    &CPUS,
    &PIDS_LIMIT,
    &SHM_SIZE,
    &ULIMIT,
    &MEMORY_RESERVATION,
    &MEMORY_SWAP,
    &CPU_SHARES,
    &CPU_PERIOD,
    &CPU_QUOTA,
    &CPUSET_CPUS,
    &CPUSET_MEMS,
    &BLKIO_WEIGHT,
    &OOM_SCORE_ADJ,
];
/// Rights and namespaces of containers that run an image.
pub const RIGHTS: &[&Opt] = &[
    &CAP_ADD,
    &CAP_DROP,
    &SECURITY_OPT,
    &DEVICE,
    &GROUP_ADD,
    &SYSCTL,
    &PID,
    &IPC,
    &UTS,
    &CGROUPNS,
    &ADD_HOST,
    &DNS,
    &DNS_SEARCH,
    &DNS_OPTION,
];
/// The options that apply to images only, not to bundles.
pub const OF_IMAGES: &[&[&Opt]] = &[EVERYDAY, LIMITS, RIGHTS];

/// Prints one table only.
pub const NO_STREAM: Opt = Opt::new("--no-stream", "print one table instead of one each second");

/// Continues to print new output until the program exits.
pub const FOLLOW: Opt = Opt::new("-f, --follow", "continue with new output until the program ends");
/// The number of lines to print from the end of the log.
pub const TAIL: Opt = Opt::new("-n, --tail LINES", "print at most this number of last lines");
