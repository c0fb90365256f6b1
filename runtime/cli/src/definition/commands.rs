//! The commands, in the order in which the help lists them.

use super::Action::{Execute, Run, Status};
use super::images::{LOGS, RUN};
use super::options::*;
use super::{Argument, Command, Example, Opt, Order, checkpoint, count, joined};
use crate::commands;

/// The options of `create`, in the order in which the help lists them.
const OF_CREATE: &[&[&Opt]] = &[
    &[&BUNDLE, &CONFIG, &CONSOLE_SOCKET, &PIDFD_SOCKET, &PID_FILE],
    OF_STARTS,
    OF_LAYERS,
    &[&TRACE],
];

/// Every command.
pub static COMMANDS: &[Command] = &[
    Command {
        description: "\
The program waits in the finished container until \"dayfly start\" lets it run.
Every path of the command line is taken from the working directory, not from
the bundle.",
        options: &joined::<{ count(OF_CREATE) }>(OF_CREATE),
        examples: &[Example {
            line: "create --bundle /srv/web --pid-file /run/web.pid web",
            does: "make the container web from the bundle /srv/web",
        }],
        ..Command::new("create", Run(commands::create::command), "create a container")
    },
    Command {
        options: &[&TRACE],
        ..Command::new(
            "start",
            Run(commands::start::command),
            "run the program of a created container",
        )
    },
    RUN,
    Command {
        description: "Prints the container's state as JSON, as the runtime specification has it.",
        ..Command::new("state", Run(commands::state::command), "print the state of a container")
    },
    Command {
        description: "\
The signal is a number or a name with or without SIG; TERM if none is given. In
a container without a PID namespace of its own, every process is killed by KILL.",
        options: &[&ALL, &TRACE],
        arguments: &[Argument::new("CONTAINER"), Argument::new("SIGNAL").optional()],
        examples: &[Example { line: "kill web KILL", does: "end the container web" }],
        ..Command::new(
            "kill",
            Run(commands::kill::command),
            "send a signal to a container's program",
        )
    },
    Command {
        description: "\
Asks the container's program to end, by the signal that its image names or TERM,
and waits. A program that is still there after --time gets KILL. The container
stays until it is deleted, unless it was started by a run that waits.",
        options: &[&STOP_TIME],
        examples: &[Example { line: "stop --time 2s web", does: "end the container web" }],
        ..Command::new(
            "stop",
            Run(commands::stop::command),
            "ask a container's program to end, and see to it that it does",
        )
    },
    Command {
        options: &[&FORCE, &TRACE],
        examples: &[Example {
            line: "delete --force web",
            does: "remove the container web, whatever its state",
        }],
        ..Command::new(
            "delete",
            Run(commands::delete::command),
            "remove what a container that has ended leaves behind",
        )
    },
    Command {
        description: "\
Runs the command given, or the process that --process describes, and returns
its exit status; 255 if it could not be run. What is not given by an option is
as in the container's configuration.",
        options: &[
            &CONSOLE_SOCKET,
            &PIDFD_SOCKET,
            &CWD,
            &ENV,
            &INTERACTIVE,
            &TTY,
            &USER,
            &ADDITIONAL_GIDS,
            &PROCESS,
            &DETACH,
            &PID_FILE,
            &PROCESS_LABEL,
            &APPARMOR,
            &NO_NEW_PRIVS,
            &CAP,
            &PRESERVE_FDS,
            &CGROUP,
            &IGNORE_PAUSED,
            &TRACE,
        ],
        arguments: &[
            Argument::new("CONTAINER"),
            Argument::new("COMMAND").optional(),
            Argument::new("ARG").optional().repeated(),
        ],
        order: Order::OptionsFirst,
        examples: &[
            Example {
                line: "exec -e HOME=/tmp web ls -l /tmp",
                does: "list a directory of the container web",
            },
            Example { line: "exec -it web sh", does: "run a shell on a terminal" },
        ],
        ..Command::new(
            "exec",
            Status(commands::exec::command),
            "run another process in a container",
        )
    },
    LOGS,
    Command {
        description: "\
On a terminal the table has what fits into a line: no bundle, but image and
command. With --no-trunc, and elsewhere, it is runc's.",
        options: &[&FORMAT, &QUIET, &NO_TRUNC],
        arguments: &[],
        examples: &[Example { line: "list --format json", does: "list containers as JSON" }],
        ..Command::new(
            "list",
            Run(commands::list::command),
            "list the containers of a state directory",
        )
    },
    Command {
        description: "\
Runs the host's ps(1) with the options given, -ef if there are none, on the
container's processes alone. Options that sort or draw trees can't be used.",
        options: &[&FORMAT],
        arguments: &[Argument::new("CONTAINER"), Argument::new("PS-OPTION").optional().repeated()],
        order: Order::OptionsFirst,
        examples: &[Example { line: "ps web -o pid,cmd", does: "list pids and command lines" }],
        ..Command::new("ps", Run(commands::ps::command), "list the processes of a container")
    },
    Command::new(
        "pause",
        Run(commands::pause::command),
        "stop all processes of a container until it is resumed",
    ),
    Command::new("resume", Run(commands::resume::command), "continue a paused container"),
    Command {
        description: "Resources that no option names stay as they are.",
        options: &[
            &RESOURCES,
            &BLKIO_WEIGHT,
            &CPU_PERIOD,
            &CPU_QUOTA,
            &CPU_BURST,
            &CPU_SHARE,
            &CPU_RT_PERIOD,
            &CPU_RT_RUNTIME,
            &CPU_IDLE,
            &CPUSET_CPUS,
            &CPUSET_MEMS,
            &KERNEL_MEMORY,
            &KERNEL_MEMORY_TCP,
            &MEMORY,
            &MEMORY_RESERVATION,
            &MEMORY_SWAP,
            &PIDS_LIMIT,
            &L3_CACHE_SCHEMA,
            &MEM_BW_SCHEMA,
        ],
        examples: &[
            Example { line: "update --memory 512m web", does: "change the memory limit" },
            Example { line: "update -r - web", does: "read resources from standard input" },
        ],
        ..Command::new(
            "update",
            Run(commands::update::command),
            "change the resource limits of a container",
        )
    },
    Command {
        description: "\
Prints a line of JSON with the container's resource use at every interval, and
one whenever the kernel kills a process of the container for lack of memory.
With --format prometheus it prints the figures of now as Prometheus scrapes
them, each with the container's id as a label, and ends.",
        order: Order::MixedUnless(&EVENTS_ALL),
        options: &[&STATS, &INTERVAL, &EVENTS_FORMAT, &EVENTS_ALL],
        examples: &[
            Example { line: "events --stats web", does: "print the figures of now" },
            Example {
                line: "events --format prometheus --all",
                does: "print those of all running containers for Prometheus",
            },
        ],
        ..Command::new(
            "events",
            Run(commands::events::command),
            "print the statistics and events of a container",
        )
    },
    Command {
        description: "\
Writes a config.json that runs a shell in the bundle's directory rootfs. It is
meant to be edited. A file that is there is not overwritten.",
        options: &[&SPEC_BUNDLE, &SPEC_ROOTLESS],
        arguments: &[],
        ..Command::new("spec", Run(commands::spec::command), "write a configuration to begin with")
    },
    Command {
        description: "Prints JSON as features.md of the runtime specification describes it.",
        arguments: &[],
        ..Command::new("features", Run(commands::features::command), "print what dayfly can do")
    },
    Command {
        description: "\
Prints the steps by which the bundle's container would be made: those of the
parent, the process on the host, and those of init, the container's first
process. Nothing is made.

With --check it prints the rules that security and correctness rest on: whether
the plan holds to each, and why it has to. One that is broken is a bug of
dayfly's, is shown with its steps, and makes the exit status 1.",
        options: &[&PLAN_FORMAT, &PLAN_CHECK],
        arguments: &[Argument::new("BUNDLE").optional()],
        examples: &[
            Example { line: "plan /srv/web", does: "show how /srv/web would start" },
            Example { line: "plan --check /srv/web", does: "tell why the steps are in that order" },
        ],
        ..Command::new(
            "plan",
            Status(commands::plan::command),
            "print the steps of a container's start",
        )
    },
    Command {
        description: "\
Executes the program dayfly-bench, which measures dayfly and other runtimes on
this host and writes bundles to measure with. \"dayfly bench --help\" tells what
it can do, \"dayfly bench start --help\" and the like how.",
        arguments: &[Argument::new("EXPERIMENT"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "bench start --view v2",
                does: "time the commands of a container's life, beside crun's and runc's",
            },
            Example {
                line: "bench burst --runtime /usr/bin/crun",
                does: "run many of another runtime's containers at once",
            },
            Example {
                line: "bench report --quick --output report",
                does: "write a page of what papers have published, measured here",
            },
        ],
        ..Command::new("bench", Execute("dayfly-bench", &[]), "measure this and other runtimes")
    },
    Command {
        description: "\
Starts the bundle's container over and over, and tells where the time of a start
goes: by phase, the slowest steps, the critical path; as a table, a picture or a
file for Perfetto. Other runtimes are followed from outside, so that the same
table stands beside dayfly's. Executes the program dayfly-bench; \"dayfly trace
--help\" tells all of it. For a single start there is \"dayfly run --trace\".",
        arguments: &[Argument::new("BUNDLE"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "trace /srv/web -n 100",
                does: "tell where the time of 100 starts goes",
            },
            Example {
                line: "trace /srv/web --runtime /usr/bin/crun --runtime /usr/sbin/runc",
                does: "the same of other runtimes, side by side",
            },
        ],
        ..Command::new(
            "trace",
            Execute("dayfly-bench", &["trace"]),
            "tell where the time of a container's start goes",
        )
    },
    Command {
        description: "\
Keeps images, their layers unpacked once: imports them from layouts, archives
and registries, lists, exports and removes them. \"dayfly run --image\" runs what
is here. Executes the program dayfly-image; \"dayfly image --help\" tells all of
it.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[Example {
            line: "image import layout:/srv/web:latest",
            does: "unpack an image of an OCI layout",
        }],
        ..Command::new("image", Execute("dayfly-image", &["image"]), "keep images, unpacked")
    },
    Command {
        description: "\
Assembles root filesystems from the layers of images, for those who bring their
own runtime, and lists the ranges of ids that containers have. Executes the
program dayfly-image; \"dayfly rootfs --help\" tells all of it.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        ..Command::new(
            "rootfs",
            Execute("dayfly-image", &["rootfs"]),
            "assemble root filesystems from layers",
        )
    },
    Command {
        description: "\
Removes what commands that were killed have left of root filesystems: mounts,
directories and ranges of ids. The same as \"dayfly rootfs gc\"; \"dayfly image gc\"
removes images and layers that nothing names.",
        arguments: &[Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        ..Command::new(
            "gc",
            Execute("dayfly-image", &["gc"]),
            "remove what killed commands have left",
        )
    },
    Command {
        description: "\
Looks at, plans, applies and changes the cgroups of this host: by plan files, by
single commands, pinned to what CPUs and memory mean rather than to their
numbers. Executes the program dayfly-cgtool; \"dayfly cgroup --help\" tells all of
it.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example { line: "cgroup ls", does: "show all groups with what they use" },
            Example {
                line: "cgroup apply --dry-run /etc/cgconfig.conf",
                does: "show what a cgroup plan would change",
            },
            Example {
                line: "cgroup pin db node:0",
                does: "give the group db the CPUs and the memory of node 0",
            },
        ],
        ..Command::new(
            "cgroup",
            Execute("dayfly-cgtool", &["cgroup"]),
            "plan, apply and change the cgroups of this host",
        )
    },
    Command {
        description: "\
Tells what this host does to the start of containers, and what helps: \"check\"
is a screen of verdicts with measured times, \"topology\" shows CPUs, caches and
memory nodes, \"favordynmods\" has cgroups favour changes of their members,
\"locks\" measures how threads get in each other's way, \"score\" makes a number
for schedulers of all that, \"limit\" has starts beyond a number wait their
turn. Executes the program dayfly-host; \"dayfly host --help\" tells all of it.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example { line: "host check", does: "tell what could be improved here" },
            Example {
                line: "host topology --svg topology.svg",
                does: "show memory nodes, caches and CPUs, and draw them",
            },
            Example {
                line: "host locks --svg locks.svg",
                does: "tell how many containers to start at once, and from which CPUs",
            },
            Example {
                line: "host score --quick --output score.json",
                does: "tell schedulers how many starts at once this host carries",
            },
            Example {
                line: "host limit set auto",
                does: "start no more than that at once, whoever calls; the rest wait",
            },
        ],
        ..Command::new(
            "host",
            Execute("dayfly-host", &["host"]),
            "check what this host does to container starts",
        )
    },
    Command {
        description: "\
Runs a bundle some times, finds which system calls its processes make, and
writes a seccomp profile that allows these and nothing that the bundle's own
does not: \"profile learn\". Executes the program dayfly-profile; \"dayfly profile
learn --help\" tells all of it.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "profile learn -b /srv/web -n 5 -o web.json",
                does: "learn from five runs, and tell what the filter saves",
            },
            Example {
                line: "profile learn -b /srv/web --merge web.json -o web.json -- /bin/web --check",
                does: "add what another program of the image does",
            },
        ],
        ..Command::new(
            "profile",
            Execute("dayfly-profile", &["profile"]),
            "learn a seccomp profile from what a container does",
        )
    },
    Command {
        description: "\
Between starts a host keeps compiled seccomp filters, loaded device programs, an
empty mount namespace to make containers from and a read-only mount of dayfly's
own executable, in /run/dayfly-cache. Nothing of it is needed: \"cache clear\"
removes it, with its mounts, from under running containers as well, and the next
start makes what it wants anew.",
        arguments: &[Argument::new("ACTION")],
        examples: &[Example { line: "cache clear", does: "before dayfly is uninstalled" }],
        ..Command::new(
            "cache",
            Run(commands::cache::command),
            "take away what is kept between starts",
        )
    },
    checkpoint::CHECKPOINT,
    checkpoint::RESTORE,
];
