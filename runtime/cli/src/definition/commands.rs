//! The commands, in the order in which the help lists them.

mod checkpoint;
mod run;
mod template;

use super::Action::{Run, Status};
use super::options::*;
use super::{Command, Order};
use crate::commands::*;

/// Every command.
pub static COMMANDS: &[Command] = &[
    Command::new("create", Run(create::command), "create a container")
        .guessed()
        .description(
            "\
The container's program does not run until \"dayfly start\". Relative paths on
the command line are resolved from the working directory, not from the bundle.",
        )
        .options(&[
            &[&BUNDLE, &CONFIG, &CONSOLE_SOCKET, &PIDFD_SOCKET, &PID_FILE],
            OF_LAYERS,
            OF_STARTS,
            &[&TRACE],
        ])
        .headings(&["OPTIONS", "ROOT FILESYSTEM", "THE START ITSELF", ""])
        .examples(&[(
            "create --bundle /srv/web --pid-file /run/web.pid web",
            "create the container web from the bundle /srv/web",
        )]),
    Command::new("start", Run(start), "run the program of a created container")
        .guessed()
        .options(&[&[&TRACE]]),
    run::RUN,
    Command::new("state", Run(state), "print the state of a container").guessed().description(
        "Prints the container's state as JSON, in the form of the runtime specification.",
    ),
    Command::new("kill", Run(kill::command), "send a signal to a container's program")
        .description(
            "\
The signal is a number, or a name with or without SIG; the default is TERM. KILL
kills every process of a container that has no PID namespace of its own.",
        )
        .options(&[&[&SIGNAL, &ALL, &TRACE]])
        .arguments("CONTAINER [SIGNAL]")
        .order(Order::MixedUnless(&[(&SIGNAL, "CONTAINER...")]))
        .examples(&[("kill web KILL", "kill the container web")]),
    Command::new(
        "stop",
        Run(stop::command),
        "stop a container's program, and kill it after a timeout",
    )
    .description(
        "\
Sends the container's program the signal that its image names, or TERM, and
waits for its end. If the program still runs after --time, it gets KILL. The
container exists until it is deleted, unless a \"dayfly run\" that waits started
it.",
    )
    .options(&[&[&STOP_TIME]])
    .arguments("CONTAINER...")
    .examples(&[("stop --time 2s web", "stop the container web")]),
    Command::new(
        "wait",
        Run(wait::command),
        "wait until containers end, and print their exit codes",
    )
    .guessed()
    .description(
        "\
Prints the exit code of each container's program, one a line: its exit status,
or 128 + n if signal n killed it. The word \"unknown\", and a failure, if nobody
knows it: that of a container that has ended, unless \"dayfly run -d --image\"
started it, as root from Linux 6.15.",
    )
    .arguments("CONTAINER...")
    .examples(&[("wait web db", "print the exit codes of two containers")]),
    Command::new("delete", Run(delete::command), "remove a stopped container and its resources")
        .options(&[&[&FORCE, &TRACE]])
        .examples(&[("delete --force web", "remove the container web in any state")]),
    Command::new("rm", Run(rm::command), "remove stopped containers")
        .description("The same as \"delete\", for any number of containers.")
        .options(&[&[&FORCE, &VOLUMES]])
        .arguments("CONTAINER...")
        .examples(&[("rm -f web db", "remove two containers in any state")]),
    Command::new("exec", Status(exec::command), "run another process in a container")
        .guessed()
        .description(
            "\
Runs the given command, or the process that --process describes, and returns its
exit status, or 255 if it could not be run. Properties that no option sets are
those of the process in the container's configuration.",
        )
        .options(&[
            &[&INTERACTIVE, &TTY, &ENV, &CWD, &WORKDIR, &USER, &DETACH],
            &[&ADDITIONAL_GIDS, &CAP, &NO_NEW_PRIVS, &CGROUP, &APPARMOR, &PROCESS_LABEL],
            &[&PROCESS, &PID_FILE, &CONSOLE_SOCKET, &PIDFD_SOCKET, &PRESERVE_FDS],
            &[&IGNORE_PAUSED, &TRACE],
        ])
        .headings(&["OPTIONS", "RIGHTS AND CGROUP", "FOR ENGINES, AS IN RUNC", ""])
        .arguments("CONTAINER [COMMAND] [ARG...]")
        .order(Order::OptionsFirst)
        .examples(&[
            ("exec -e HOME=/tmp web ls -l /tmp", "list a directory of the container web"),
            ("exec -it web sh", "run a shell on a terminal"),
        ]),
    run::LOGS,
    Command::new("list", Run(list::command), "list the containers of a state directory")
        .guessed()
        .description(
            "\
On a terminal, the table has columns that fit into a line: image and command,
but not the bundle. With --no-trunc, or if the output is not a terminal, the
table has the columns of runc.",
        )
        .options(&[&[&FORMAT, &QUIET, &NO_TRUNC, &LIST_ALL]])
        .arguments("")
        .examples(&[("list --format json", "list containers as JSON")]),
    Command::new("ps", Run(ps::command), "list the processes of a container")
        .guessed()
        .description(
            "\
Runs the host's ps(1) with the given options, by default -ef, and prints only
the container's processes. Options that sort or draw trees cannot be used.",
        )
        .options(&[&[&FORMAT]])
        .arguments("CONTAINER [PS-OPTION...]")
        .order(Order::OptionsFirst)
        .examples(&[("ps web -o pid,cmd", "list pids and command lines")]),
    Command::new("pause", Run(pause), "freeze all processes of a container until it is resumed"),
    Command::new("resume", Run(resume), "thaw the processes of a paused container"),
    Command::new("update", Run(update::command), "change the resource limits of a container")
        .description("Limits that no option names are not changed.")
        .options(&[
            &[&RUN_MEMORY, &CPUS, &PIDS_LIMIT, &CPUSET_CPUS, &CPUSET_MEMS, &RESOURCES],
            &[&MEMORY_RESERVATION, &MEMORY_SWAP, &CPU_SHARES, &CPU_SHARE, &CPU_PERIOD, &CPU_QUOTA],
            &[&CPU_BURST, &CPU_IDLE, &CPU_RT_PERIOD, &CPU_RT_RUNTIME, &BLKIO_WEIGHT],
            &[&L3_CACHE_SCHEMA, &MEM_BW_SCHEMA, &KERNEL_MEMORY, &KERNEL_MEMORY_TCP],
        ])
        .headings(&["OPTIONS", "THE KERNEL'S SETTINGS", "", ""])
        .examples(&[
            ("update --memory 512m web", "change the memory limit"),
            ("update -r - web", "read resources from standard input"),
        ]),
    Command::new("stats", Run(stats::command), "print the resource usage of running containers")
        .guessed()
        .description(
            "\
Prints a table each second until no container runs: CPU time since the table
before, memory, block device I/O and the number of tasks. \"events --stats\"
prints all statistics of a container as JSON.",
        )
        .options(&[&[&NO_STREAM]])
        .arguments("[CONTAINER...]")
        .examples(&[("stats --no-stream", "print the usage of all containers once")]),
    Command::new("inspect", Status(inspect::command), "print all that is known about a container")
        .guessed()
        .description(
            "\
Prints a list as JSON, with an object for each container: its state, image, exit
code, times, process (arguments, environment, user), limits and mounts. The time
of the end is known only if stop, wait or \"logs -f\" waited for it, and root runs
the container. If no container has the name, but an image has, prints \"image
inspect\". The names in --format are those of the JSON, in small or capital
letters, and Docker's State.Status, State.Running, State.Pid, State.ExitCode,
State.StartedAt, State.FinishedAt, Config.Image, Config.Cmd, Config.Env.",
        )
        .options(&[&[&INSPECT_FORMAT, &STORE]])
        .arguments("CONTAINER...")
        .examples(&[
            ("inspect web", "print the environment and the mounts of the container web"),
            ("inspect -f '{{.State.ExitCode}}' web", "print its exit code"),
        ]),
    Command::new("cp", Run(cp::command), "copy files between a container and the host")
        .description(
            "\
One of the paths is CONTAINER:PATH, the other one of the host. A directory is
copied with its contents; if the source ends in /., only its contents are. If
the destination is a directory, the copy is made in it. Copies in a container
belong to its root, copies on the host to the caller; set-user-ID bits, devices,
sockets and FIFOs are not copied. Out of a stopped container, files of its image
and its changes can be copied, but not those of mounts.",
        )
        .arguments("SOURCE DESTINATION")
        .examples(&[
            ("cp web:/etc/hosts .", "copy a file of the container to the working directory"),
            ("cp site/. web:/srv", "copy the contents of a directory into the container"),
        ]),
    Command::new("events", Run(events::command), "print the statistics and events of a container")
        .guessed()
        .description(
            "\
Prints a line of JSON with the container's resource usage at each interval, and
a line whenever the OOM killer has killed a process of the container. With
--format prometheus, prints the current statistics once, in Prometheus's text
format, each with the container's id as a label.",
        )
        .options(&[&[&STATS, &INTERVAL, &EVENTS_FORMAT, &EVENTS_ALL]])
        .order(Order::MixedUnless(&[(&EVENTS_ALL, "")]))
        .examples(&[
            ("events --stats web", "print the current statistics"),
            (
                "events --format prometheus --all",
                "print the statistics of all running containers for Prometheus",
            ),
        ]),
    Command::new("spec", Run(spec::command), "write a template of config.json")
        .description(
            "\
Writes a config.json that runs a shell in the bundle's directory rootfs, as a
template for editing. An existing file is not overwritten.",
        )
        .options(&[&[&SPEC_BUNDLE, &SPEC_ROOTLESS]])
        .arguments(""),
    Command::new("features", Run(features), "print the features that dayfly supports")
        .guessed()
        .description(
            "Prints JSON in the form that features.md of the runtime specification describes.",
        )
        .arguments(""),
    Command::new("plan", Status(plan::command), "print the steps of a container's start")
        .guessed()
        .description(
            "\
Prints the steps that would create the bundle's container: the steps of the
parent, a process on the host, and the steps of init, the container's first
process. No step is executed, and nothing is changed on the host. With options
of create and run, these are the steps of a start with those options.

With --check, prints the rules on the order of steps that security and
correctness require, whether the plan follows each rule, and the reason for the
rule. A violated rule is a bug in dayfly: it is printed with its steps, and the
exit status is 1.",
        )
        .options(&[
            &[&PLAN_FORMAT, &PLAN_CHECK, &PLAN_OF_RUN, &CONFIG, &CONSOLE_SOCKET],
            &[&NO_PIVOT, &NO_NEW_KEYRING, &PRESERVE_FDS, &PIN, &START_CPUS, &TEMPLATE],
            OF_LAYERS,
        ])
        .arguments("[BUNDLE]")
        .examples(&[
            ("plan /srv/web", "show how /srv/web would start"),
            ("plan --check /srv/web", "show the reasons for the order of the steps"),
        ]),
    Command::tool("bench", "dayfly-bench", "measure this and other runtimes")
        .guessed()
        .description(
            "\
Executes the program dayfly-bench, which measures dayfly and other runtimes on
this host, and writes bundles for measurements. \"dayfly bench --help\" lists the
experiments; for example, \"dayfly bench start --help\" describes one of them.",
        )
        .arguments("EXPERIMENT [ARGUMENT...]")
        .examples(&[
            (
                "bench start --view v2",
                "time the commands of a container's life cycle, also for crun and runc",
            ),
            (
                "bench burst --runtime /usr/bin/crun",
                "start many containers of another runtime at once",
            ),
            (
                "bench report --quick --output report",
                "measure published figures of papers on this host, and write a page",
            ),
        ]),
    Command::tool("trace", "dayfly-bench", "show where the time of a container's start goes")
        .guessed()
        .description(
            "\
Starts the bundle's container repeatedly, and shows where the time of a start
goes: by phase, the slowest steps, the critical path; as a table, a picture or a
file for Perfetto. Other runtimes are observed from outside, and compared in the
same table. Executes the program dayfly-bench; \"dayfly trace --help\" describes
all options. \"dayfly run --trace\" traces a single start.",
        )
        .arguments("BUNDLE [ARGUMENT...]")
        .examples(&[
            ("trace /srv/web -n 100", "show where the time of 100 starts goes"),
            (
                "trace /srv/web --runtime /usr/bin/crun --runtime /usr/sbin/runc",
                "show the same for other runtimes, side by side",
            ),
        ]),
    Command::tool("image", "dayfly-image", "store images, unpacked")
        .guessed()
        .description(
            "\
Stores images, with each layer unpacked once: imports images from layouts,
archives and registries, and lists, exports and removes them. \"dayfly run
--image\" runs an image of the store. Executes the program dayfly-image; \"dayfly
image --help\" describes all commands.",
        )
        .examples(&[("image import layout:/srv/web:latest", "unpack an image of an OCI layout")]),
    Command::tool("rootfs", "dayfly-image", "assemble root filesystems from layers").description(
        "\
Assembles root filesystems from the layers of images, for use with other
runtimes, and lists the id ranges of containers. Executes the program
dayfly-image; \"dayfly rootfs --help\" describes all commands.",
    ),
    Command::tool("gc", "dayfly-image", "remove leftovers of killed commands")
        .description(
            "\
Removes mounts, directories and id ranges of root filesystems that killed
commands have left behind. The same as \"dayfly rootfs gc\"; \"dayfly image gc\"
removes unused images and layers.",
        )
        .arguments("[ARGUMENT...]"),
    Command::tool("cgroup", "dayfly-host", "plan, apply and change the cgroups of this host")
        .description(
            "\
Shows, plans, applies and changes the cgroups of this host, by plan files or by
single commands. Pins cgroups to CPUs and memory nodes by the host's topology
instead of by number. Executes the program dayfly-host; \"dayfly cgroup --help\"
describes all commands.",
        )
        .examples(&[
            ("cgroup ls", "show all groups with their resource usage"),
            (
                "cgroup apply --dry-run /etc/cgconfig.conf",
                "show the changes that a cgroup plan would make",
            ),
            ("cgroup pin db node:0", "pin the group db to the CPUs and the memory of node 0"),
        ]),
    Command::tool("host", "dayfly-host", "check the properties of this host that affect starts")
        .guessed()
        .description(
            "\
Shows the properties of this host that affect container starts, and how to
improve them: \"check\" prints verdicts with measured times, \"topology\" shows
CPUs, caches and memory nodes, \"favordynmods\" makes the kernel favour moves
between cgroups, \"locks\" measures lock contention between threads, \"score\"
combines the results into a number for schedulers, and \"limit\" limits the number
of concurrent starts. Executes the program dayfly-host; \"dayfly host --help\"
describes all commands.",
        )
        .examples(&[
            ("host check", "show what can be improved on this host"),
            ("host topology", "show memory nodes, caches and CPUs"),
            (
                "host locks --svg locks.svg",
                "measure how many containers to start at once, and from which CPUs",
            ),
            (
                "host score --quick --output score.json",
                "write the number of concurrent starts that this host handles",
            ),
            (
                "host limit set auto",
                "limit concurrent starts to the advised number; further starts wait",
            ),
        ]),
    Command::tool(
        "profile",
        "dayfly-profile",
        "learn a seccomp profile from a container's system calls",
    )
    .description(
        "\
Runs a bundle several times, records the system calls of its processes, and
writes a seccomp profile that allows these calls, but none that the bundle's own
profile denies: \"profile learn\". Executes the program dayfly-profile; \"dayfly
profile learn --help\" describes all options.",
    )
    .examples(&[
        (
            "profile learn -b /srv/web -n 5 -o web.json",
            "learn from five runs, and show what the new filter saves",
        ),
        (
            "profile learn -b /srv/web --merge web.json -o web.json -- /bin/web --check",
            "add the system calls of another program of the image",
        ),
    ]),
    Command::new("cache", Run(cache::command), "remove files and mounts that starts have cached")
        .description(
            "\
Starts cache compiled seccomp filters, loaded device programs, an empty mount
namespace from which containers are created, and a read-only mount of dayfly's
own executable, in /run/dayfly-cache. \"cache clear\" removes the cache and its
mounts, even while containers run. The next start creates the parts that it
needs again.",
        )
        .arguments("ACTION")
        .examples(&[("cache clear", "remove the cache before dayfly is uninstalled")]),
    checkpoint::CHECKPOINT,
    checkpoint::RESTORE,
    template::COMMAND,
];
