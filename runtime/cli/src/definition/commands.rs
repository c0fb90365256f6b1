//! The commands, in the order in which the help lists them.

mod checkpoint;
mod run;
mod template;

use super::Action::{Execute, Run, Status};
use super::options::*;
use super::{Argument, Command, Example, Order, count, joined};
use crate::commands;
use crate::option::Opt;

/// The options of `create`, in the order in which the help lists them.
const OF_CREATE: &[&[&Opt]] = &[
    &[&BUNDLE, &CONFIG, &CONSOLE_SOCKET, &PIDFD_SOCKET, &PID_FILE],
    OF_STARTS,
    OF_LAYERS,
    &[&TRACE],
];

/// The options of `plan`, in the order in which the help lists them.
const OF_PLAN: &[&[&Opt]] = &[
    &[&PLAN_FORMAT, &PLAN_CHECK, &PLAN_OF_RUN, &CONFIG, &CONSOLE_SOCKET],
    &[&NO_PIVOT, &NO_NEW_KEYRING, &PRESERVE_FDS, &PIN, &START_CPUS, &TEMPLATE],
    OF_LAYERS,
];

/// Every command.
pub static COMMANDS: &[Command] = &[
    Command {
        description: "\
The container's program does not run until \"dayfly start\". Relative paths on
the command line are resolved from the working directory, not from the bundle.",
        options: &joined::<{ count(OF_CREATE) }>(OF_CREATE),
        examples: &[Example {
            line: "create --bundle /srv/web --pid-file /run/web.pid web",
            does: "create the container web from the bundle /srv/web",
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
    run::RUN,
    Command {
        description: "Prints the container's state as JSON, in the form of the runtime specification.",
        ..Command::new("state", Run(commands::state::command), "print the state of a container")
    },
    Command {
        description: "\
The signal is a number, or a name with or without SIG; the default is TERM. KILL
kills every process of a container that has no PID namespace of its own.",
        options: &[&ALL, &TRACE],
        arguments: &[Argument::new("CONTAINER"), Argument::new("SIGNAL").optional()],
        examples: &[Example { line: "kill web KILL", does: "kill the container web" }],
        ..Command::new(
            "kill",
            Run(commands::kill::command),
            "send a signal to a container's program",
        )
    },
    Command {
        description: "\
Sends the container's program the signal that its image names, or TERM, and
waits for its end. If the program still runs after --time, it gets KILL. The
container exists until it is deleted, unless a \"dayfly run\" that waits started
it.",
        options: &[&STOP_TIME],
        examples: &[Example { line: "stop --time 2s web", does: "stop the container web" }],
        ..Command::new(
            "stop",
            Run(commands::stop::command),
            "stop a container's program, and kill it after a timeout",
        )
    },
    Command {
        options: &[&FORCE, &TRACE],
        examples: &[Example {
            line: "delete --force web",
            does: "remove the container web in any state",
        }],
        ..Command::new(
            "delete",
            Run(commands::delete::command),
            "remove a stopped container and its resources",
        )
    },
    Command {
        description: "\
Runs the given command, or the process that --process describes, and returns its
exit status, or 255 if it could not be run. Properties that no option sets are
those of the process in the container's configuration.",
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
    run::LOGS,
    Command {
        description: "\
On a terminal, the table has columns that fit into a line: image and command,
but not the bundle. With --no-trunc, or if the output is not a terminal, the
table has the columns of runc.",
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
Runs the host's ps(1) with the given options, by default -ef, and prints only
the container's processes. Options that sort or draw trees cannot be used.",
        options: &[&FORMAT],
        arguments: &[Argument::new("CONTAINER"), Argument::new("PS-OPTION").optional().repeated()],
        order: Order::OptionsFirst,
        examples: &[Example { line: "ps web -o pid,cmd", does: "list pids and command lines" }],
        ..Command::new("ps", Run(commands::ps::command), "list the processes of a container")
    },
    Command::new(
        "pause",
        Run(commands::pause::command),
        "freeze all processes of a container until it is resumed",
    ),
    Command::new(
        "resume",
        Run(commands::resume::command),
        "thaw the processes of a paused container",
    ),
    Command {
        description: "Limits that no option names are not changed.",
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
Prints a line of JSON with the container's resource usage at each interval, and
a line whenever the OOM killer has killed a process of the container. With
--format prometheus, prints the current statistics once, in Prometheus's text
format, each with the container's id as a label.",
        order: Order::MixedUnless(&[(&EVENTS_ALL, "")]),
        options: &[&STATS, &INTERVAL, &EVENTS_FORMAT, &EVENTS_ALL],
        examples: &[
            Example { line: "events --stats web", does: "print the current statistics" },
            Example {
                line: "events --format prometheus --all",
                does: "print the statistics of all running containers for Prometheus",
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
Writes a config.json that runs a shell in the bundle's directory rootfs, as a
template for editing. An existing file is not overwritten.",
        options: &[&SPEC_BUNDLE, &SPEC_ROOTLESS],
        arguments: &[],
        ..Command::new("spec", Run(commands::spec::command), "write a template of config.json")
    },
    Command {
        description: "Prints JSON in the form that features.md of the runtime specification describes.",
        arguments: &[],
        ..Command::new(
            "features",
            Run(commands::features::command),
            "print the features that dayfly supports",
        )
    },
    Command {
        description: "\
Prints the steps that would create the bundle's container: the steps of the
parent, a process on the host, and the steps of init, the container's first
process. No step is executed, and nothing is changed on the host. With options
of create and run, these are the steps of a start with those options.

With --check, prints the rules on the order of steps that security and
correctness require, whether the plan follows each rule, and the reason for the
rule. A violated rule is a bug in dayfly: it is printed with its steps, and the
exit status is 1.",
        options: &joined::<{ count(OF_PLAN) }>(OF_PLAN),
        arguments: &[Argument::new("BUNDLE").optional()],
        examples: &[
            Example { line: "plan /srv/web", does: "show how /srv/web would start" },
            Example {
                line: "plan --check /srv/web",
                does: "show the reasons for the order of the steps",
            },
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
this host, and writes bundles for measurements. \"dayfly bench --help\" lists the
experiments; for example, \"dayfly bench start --help\" describes one of them.",
        arguments: &[Argument::new("EXPERIMENT"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "bench start --view v2",
                does: "time the commands of a container's life cycle, also for crun and runc",
            },
            Example {
                line: "bench burst --runtime /usr/bin/crun",
                does: "start many containers of another runtime at once",
            },
            Example {
                line: "bench report --quick --output report",
                does: "measure published figures of papers on this host, and write a page",
            },
        ],
        ..Command::new("bench", Execute("dayfly-bench", &[]), "measure this and other runtimes")
    },
    Command {
        description: "\
Starts the bundle's container repeatedly, and shows where the time of a start
goes: by phase, the slowest steps, the critical path; as a table, a picture or a
file for Perfetto. Other runtimes are observed from outside, and compared in the
same table. Executes the program dayfly-bench; \"dayfly trace --help\" describes
all options. \"dayfly run --trace\" traces a single start.",
        arguments: &[Argument::new("BUNDLE"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "trace /srv/web -n 100",
                does: "show where the time of 100 starts goes",
            },
            Example {
                line: "trace /srv/web --runtime /usr/bin/crun --runtime /usr/sbin/runc",
                does: "show the same for other runtimes, side by side",
            },
        ],
        ..Command::new(
            "trace",
            Execute("dayfly-bench", &["trace"]),
            "show where the time of a container's start goes",
        )
    },
    Command {
        description: "\
Stores images, with each layer unpacked once: imports images from layouts,
archives and registries, and lists, exports and removes them. \"dayfly run
--image\" runs an image of the store. Executes the program dayfly-image; \"dayfly
image --help\" describes all commands.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[Example {
            line: "image import layout:/srv/web:latest",
            does: "unpack an image of an OCI layout",
        }],
        ..Command::new("image", Execute("dayfly-image", &["image"]), "store images, unpacked")
    },
    Command {
        description: "\
Assembles root filesystems from the layers of images, for use with other
runtimes, and lists the id ranges of containers. Executes the program
dayfly-image; \"dayfly rootfs --help\" describes all commands.",
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
Removes mounts, directories and id ranges of root filesystems that killed
commands have left behind. The same as \"dayfly rootfs gc\"; \"dayfly image gc\"
removes unused images and layers.",
        arguments: &[Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        ..Command::new(
            "gc",
            Execute("dayfly-image", &["gc"]),
            "remove leftovers of killed commands",
        )
    },
    Command {
        description: "\
Shows, plans, applies and changes the cgroups of this host, by plan files or by
single commands. Pins cgroups to CPUs and memory nodes by the host's topology
instead of by number. Executes the program dayfly-host; \"dayfly cgroup --help\"
describes all commands.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example { line: "cgroup ls", does: "show all groups with their resource usage" },
            Example {
                line: "cgroup apply --dry-run /etc/cgconfig.conf",
                does: "show the changes that a cgroup plan would make",
            },
            Example {
                line: "cgroup pin db node:0",
                does: "pin the group db to the CPUs and the memory of node 0",
            },
        ],
        ..Command::new(
            "cgroup",
            Execute("dayfly-host", &["cgroup"]),
            "plan, apply and change the cgroups of this host",
        )
    },
    Command {
        description: "\
Shows the properties of this host that affect container starts, and how to
improve them: \"check\" prints verdicts with measured times, \"topology\" shows
CPUs, caches and memory nodes, \"favordynmods\" makes the kernel favour moves
between cgroups, \"locks\" measures lock contention between threads, \"score\"
combines the results into a number for schedulers, and \"limit\" limits the number
of concurrent starts. Executes the program dayfly-host; \"dayfly host --help\"
describes all commands.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example { line: "host check", does: "show what can be improved on this host" },
            Example {
                line: "host topology --svg topology.svg",
                does: "show memory nodes, caches and CPUs, and draw them",
            },
            Example {
                line: "host locks --svg locks.svg",
                does: "measure how many containers to start at once, and from which CPUs",
            },
            Example {
                line: "host score --quick --output score.json",
                does: "write the number of concurrent starts that this host handles",
            },
            Example {
                line: "host limit set auto",
                does: "limit concurrent starts to the advised number; further starts wait",
            },
        ],
        ..Command::new(
            "host",
            Execute("dayfly-host", &["host"]),
            "check the properties of this host that affect starts",
        )
    },
    Command {
        description: "\
Runs a bundle several times, records the system calls of its processes, and
writes a seccomp profile that allows these calls, but none that the bundle's own
profile denies: \"profile learn\". Executes the program dayfly-profile; \"dayfly
profile learn --help\" describes all options.",
        arguments: &[Argument::new("COMMAND"), Argument::new("ARGUMENT").optional().repeated()],
        order: Order::PassedOn,
        examples: &[
            Example {
                line: "profile learn -b /srv/web -n 5 -o web.json",
                does: "learn from five runs, and show what the new filter saves",
            },
            Example {
                line: "profile learn -b /srv/web --merge web.json -o web.json -- /bin/web --check",
                does: "add the system calls of another program of the image",
            },
        ],
        ..Command::new(
            "profile",
            Execute("dayfly-profile", &["profile"]),
            "learn a seccomp profile from a container's system calls",
        )
    },
    Command {
        description: "\
Starts cache compiled seccomp filters, loaded device programs, an empty mount
namespace from which containers are created, and a read-only mount of dayfly's
own executable, in /run/dayfly-cache. \"cache clear\" removes the cache and its
mounts, even while containers run. The next start creates the parts that it
needs again.",
        arguments: &[Argument::new("ACTION")],
        examples: &[Example {
            line: "cache clear",
            does: "remove the cache before dayfly is uninstalled",
        }],
        ..Command::new(
            "cache",
            Run(commands::cache::command),
            "remove files and mounts that starts have cached",
        )
    },
    checkpoint::CHECKPOINT,
    checkpoint::RESTORE,
    template::COMMAND,
];
