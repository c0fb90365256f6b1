//! The options of `run` for containers that run an image, and those of `logs`.

use super::{CWD, ENV, INTERACTIVE, MEMORY_HELP, PIDS_LIMIT, TTY};
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

/// The limit of CPU time.
pub const CPUS: Opt =
    Opt::new("--cpus NUMBER", "CPU time that the container may use, in CPUs, such as 1.5");
/// The container's network.
pub const NETWORK: Opt = Opt::new(
    "--network NETWORK",
    "none (default): only a loopback device; host; container:ID, the network of another container; ns:PATH",
);
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

/// The options that apply to images only, not to bundles.
pub const OF_IMAGES: &[&Opt] = &[
    &CONTAINER_NAME,
    &READ_ONLY,
    &HOSTNAME,
    &INTERACTIVE,
    &TTY,
    &ENV,
    &CWD,
    &WORKDIR,
    &ENTRYPOINT,
    &RUN_USER,
    &VOLUME,
    &MOUNT,
    &RUN_MEMORY,
    &CPUS,
    &PIDS_LIMIT,
    &NETWORK,
    &INIT,
    &LOG_SIZE,
];

/// Continues to print new output until the program exits.
pub const FOLLOW: Opt = Opt::new("-f, --follow", "continue with new output until the program ends");
/// The number of lines to print from the end of the log.
pub const TAIL: Opt = Opt::new("-n, --tail LINES", "print at most this number of last lines");
