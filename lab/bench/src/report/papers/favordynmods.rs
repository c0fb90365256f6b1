//! Oracle's article on favordynmods.

use super::super::paper::{Command, Guest, Line, Paper, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::{ms, verdict};
use crate::circumstances::Circumstances;

/// The software that the article measures.
const MACHINES: &str = "podman 5.4.0, crun 1.23.1";

pub(in super::super) const FAVORDYNMODS: Paper = Paper {
    title: "Mount it right with 'favordynmods'",
    by: "Oracle Linux blog, 2025",
    on: "virtual machines of 8 cores (Intel, AMD, Ampere), Oracle Linux 9, Linux 6.12",
    parts: &[
        Part {
            name: "bulk",
            place: "Impact of favordynmods: start of 100 containers",
            about: "The article's script creates 100 containers, each limited to 2 CPUs and 4 GiB, and starts them one \
                after the other. Here it is as many as the command below says, limited where cgroups here allow it, and \
                also started 16 at a time.",
            way: Way::Command(Command {
                line: &["bench", "bulk"],
                quick: &["--count", "20", "--rounds", "6"],
                full: &["--count", "100", "--rounds", "10"],
                limits: &["--limits"],
                seconds: [30, 150],
                runtimes: Runtimes::All,
                draws: true,
            }),
            lines: &[
                Line {
                    what: "to start all, one after the other",
                    published: &[],
                    take: Take::plain(&[("width", "1")], Figure::Median("start_s")),
                    unit: "s",
                },
                Line {
                    what: "to start all, 16 at a time",
                    published: &[],
                    take: Take::plain(&[("width", "16")], Figure::Median("start_s")),
                    unit: "s",
                },
                ms(
                    "one start of them, one after the other",
                    &[],
                    Take::ms(&[("width", "1")], Figure::Median("starts_us")),
                ),
                Line {
                    what: "to start all with favordynmods, less than without",
                    published: &[Published::text(
                        "15 % on AMD, 20 % on Intel, 32 % on Ampere",
                        MACHINES,
                    )],
                    take: Take::nothing(),
                    unit: "",
                },
            ],
            instead: off_and_on,
        },
        BY_PODMAN,
        Part {
            name: "moves",
            place: "What is favordynmods: what favordynmods makes cheaper",
            about: "A process is moved to another cgroup, which takes the lock that favordynmods changes; is born in \
                it, as dayfly's containers are; and moves itself as a thread.",
            way: Way::Command(Command {
                line: &["host", "check"],
                quick: &[],
                full: &[],
                limits: &[],
                seconds: [5, 5],
                runtimes: Runtimes::None,
                draws: false,
            }),
            lines: &[
                ms(
                    "a move, a while after the last one",
                    &[],
                    verdict(&[("id", "measured.move")], "/data/apart_us"),
                ),
                ms(
                    "a move right after another",
                    &[],
                    verdict(&[("id", "measured.move")], "/data/in_a_row_us"),
                ),
                ms(
                    "a thread moves itself (cgroup v1)",
                    &[],
                    verdict(&[("id", "measured.thread_move")], "/data/apart_us"),
                ),
                ms(
                    "a process is born in a cgroup (clone, exit)",
                    &[],
                    verdict(&[("id", "measured.birth")], "/data/apart_us"),
                ),
            ],
            instead: all_shown,
        },
        Part {
            name: "favordynmods-cost",
            place: "The trade-off: forks and exits dearer, reads later",
            about: "The article says that favordynmods makes forks and exits more expensive and reads later, without \
                figures. A move, forks and exits, reads of cgroup.procs, and a start by each runtime, 60 ms apart.",
            way: Way::Command(Command {
                line: &["bench", "favordynmods"],
                quick: &["--rounds", "20"],
                full: &["--rounds", "60"],
                limits: &[],
                seconds: [10, 45],
                runtimes: Runtimes::All,
                draws: true,
            }),
            lines: &[
                cost("a move, a while after the last one", &[("step", "a move")]),
                cost("500 forks and exits", &[("step", "500 forks and exits")]),
                cost("500 reads of cgroup.procs", &[("step", "500 reads of cgroup.procs")]),
                cost("a start by dayfly", &[("step", "run by dayfly")]),
                cost("a start by crun", &[("step", "run by crun")]),
                cost("a start by runc", &[("step", "run by runc")]),
            ],
            instead: not_switched,
        },
        IN_A_GUEST,
    ],
};

const BY_PODMAN: Part = Part {
    name: "bulk-podman",
    place: "Impact of favordynmods: the article's own script, by Podman",
    about: "The article's script as it is: Podman creates the containers and starts them, one after the other, and executes \
        each runtime.",
    way: Way::Command(Command {
        line: &["bench", "bulk", "--podman", "--width", "1"],
        quick: &["--count", "8", "--rounds", "3"],
        full: &["--count", "100", "--rounds", "2"],
        limits: &["--limits"],
        seconds: [35, 200],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        Line {
            what: "to start all, one after the other",
            published: &[Published::text("bars without figures", MACHINES)],
            take: Take::plain(&[], Figure::Median("start_s")),
            unit: "s",
        },
        ms("one start of them", &[], Take::ms(&[], Figure::Median("starts_us"))),
        Line {
            what: "to create all",
            published: &[],
            take: Take::plain(&[], Figure::Median("create_s")),
            unit: "s",
        },
    ],
    instead: all_shown,
};

const IN_A_GUEST: Part = Part {
    name: "favordynmods-guest",
    place: "Impact of favordynmods and its trade-off: without it, and with it",
    about: "The same operations, with favordynmods off and on in turns.",
    way: Way::Guest(Guest {
        script: "scripts/bed guest-favordynmods bench",
        file: "favordynmods",
        why: "The option is one setting for a whole host, and from Linux 6.18 on it stays on until the next boot",
    }),
    lines: &[
        cost("a move, a while after the last one", &[("step", "a move")]),
        cost("500 forks and exits", &[("step", "500 forks and exits")]),
        cost("500 reads of cgroup.procs", &[("step", "500 reads of cgroup.procs")]),
        cost("a start by dayfly", &[("step", "run by dayfly")]),
        cost("a start by crun", &[("step", "run by crun")]),
        cost("a start by runc", &[("step", "run by runc")]),
        gain("dayfly: a start without it ÷ with it", &[], &[("step", "run by dayfly")]),
        gain(
            "crun: a start without it ÷ with it",
            &[
                Published::number("1.18: 15 % less", 1.18, "AMD, podman 5.4.0, crun 1.23.1"),
                Published::number("1.25: 20 % less", 1.25, "Intel, podman 5.4.0, crun 1.23.1"),
                Published::number("1.47: 32 % less", 1.47, "Ampere, podman 5.4.0, crun 1.23.1"),
            ],
            &[("step", "run by crun")],
        ),
        gain("runc: a start without it ÷ with it", &[], &[("step", "run by runc")]),
    ],
    instead: emulated,
};

/// Returns a line of the report that shows the time of a step without favordynmods ÷ the time with it.
const fn gain(
    what: &'static str,
    published: &'static [Published],
    step: &'static [(&'static str, &'static str)],
) -> Line {
    Line { what, published, take: Take::plain(step, Figure::Estimate("/ratio")), unit: "×" }
}

fn emulated(_: &Circumstances) -> Option<String> {
    Some(
        "The processors of that machine are emulated: it shows what becomes cheaper and what dearer, not by how much on \
         real ones. A start that moves nobody has nothing to gain."
            .to_owned(),
    )
}

/// Returns a line of the report that shows the median time of a step: with the host's present setting of favordynmods,
/// or with favordynmods off and on.
const fn cost(what: &'static str, step: &'static [(&'static str, &'static str)]) -> Line {
    ms(what, &[], Take::ms(step, Figure::Median("rounds_us")))
}

fn not_switched(_: &Circumstances) -> Option<String> {
    Some(
        "The report changes nothing of the host, and this is one setting for all of it; from Linux 6.18 on it can't be \
         taken back before the next boot. Shown is the host as it is: \"dayfly bench favordynmods --switch\" shows both on a \
         host that can go back, and \"favordynmods-guest\" below has both of a virtual machine."
            .to_owned(),
    )
}

fn off_and_on(host: &Circumstances) -> Option<String> {
    let now = if host.cgroup_mount.contains("favordynmods") { "with" } else { "without" };
    Some(format!(
        "Shown is this host as it is, {now} favordynmods: the report changes nothing of the host. What a start gains \
         by it is the wait of a move, which \"moves\" below has; a start that moves nobody has nothing to gain."
    ))
}
