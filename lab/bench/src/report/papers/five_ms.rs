//! Giuseppe Scrivano's article on the first five years of crun.

use super::super::paper::{Command, Line, Paper, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::{ms, verdict};
use crate::accounting;
use crate::circumstances::Circumstances;

const OLD: &str = "crun, Fedora 24, Linux 4.5";
const HASHED: &str = "crun, libseccomp with a hash of names";
const KEPT: &str = "crun that keeps filters, 2022";
const BEFORE: &str = "Linux 4.5";
const NEW: &str = "Linux 5.19";

pub(in super::super) const FIVE_MS: Paper = Paper {
    title: "How I decreased the time to create and destroy an OCI container to 5 milliseconds",
    by: "Giuseppe Scrivano, Red Hat Enable Sysadmin, 2022",
    on: "crun on Fedora 24 (Linux 4.5.5) and on Linux 5.19.15, by hyperfine: means",
    parts: &[
        RUN, PLAIN, USER_TIME, STAIRCASE, NAMESPACES, UNSHARE, LOOKUPS, FIRST_USE, MEMORY, LIMIT,
    ],
};

const fn means(what: &'static str, published: &'static [Published]) -> Line {
    ms(what, published, Take::ms(&[("step", "run")], Figure::Mean("rounds_us")))
}

const RUN: Part = Part {
    name: "run",
    place: "The whole: crun run foo: 160 ms to 5 ms",
    about: "A container with a network of its own and an engine's seccomp profile is run and removed, back to back.",
    way: Way::Command(Command {
        line: &["bench", "start", "--operation", "run", "--pause", "0", "--profile", "seccomp"],
        quick: &["--rounds", "50"],
        full: &["--rounds", "300"],
        limits: &[],
        seconds: [10, 60],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        means(
            "run, mean",
            &[
                Published::number("159.2 ms ± 21.8", 159.2, OLD),
                Published::number("28.9 ms ± 5.9", 28.9, HASHED),
                Published::number("5.6 ms ± 3.0", 5.6, KEPT),
            ],
        ),
        ms(
            "CPU time of it, median",
            &[
                Published::number("59.3 ms (user 43.0, system 16.3)", 59.3, OLD),
                Published::number("21.2 ms (user 16.7, system 4.5)", 21.2, HASHED),
                Published::number("5.5 ms (user 1.0, system 4.5)", 5.5, KEPT),
            ],
            Take::ms(&[("step", "run")], Figure::Number("/cpu_us")),
        ),
        ms(
            "user time of it, median",
            &[
                Published::number("43.0 ms", 43.0, OLD),
                Published::number("16.7 ms", 16.7, HASHED),
                Published::number("1.0 ms", 1.0, KEPT),
            ],
            Take::ms(&[("step", "run")], Figure::Number("/user_us")),
        ),
        ms(
            "system time of it, median",
            &[
                Published::number("16.3 ms", 16.3, OLD),
                Published::number("4.5 ms", 4.5, HASHED),
                Published::number("4.5 ms", 4.5, KEPT),
            ],
            Take::ms(&[("step", "run")], Figure::Number("/system_us")),
        ),
    ],
    instead: by_ticks,
};

const PLAIN: Part = Part {
    name: "run-without-seccomp",
    place: "How things were in 2017: crun run foo without seccomp: 139.6 ms",
    about: "The same container without a seccomp profile.",
    way: Way::Command(Command {
        line: &["bench", "start", "--operation", "run", "--pause", "0", "--profile", "plain"],
        quick: &["--rounds", "50"],
        full: &["--rounds", "300"],
        limits: &[],
        seconds: [10, 60],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[means(
        "run, mean",
        &[Published::number("139.6 ms ± 20.8 (user 4.1, system 22.0)", 139.6, OLD)],
    )],
    instead: all_shown,
};

fn by_ticks(_: &Circumstances) -> Option<String> {
    (!accounting::is_split()).then(|| {
        "This kernel divides the CPU time of a process into user and system time by its timer ticks: that can't be shown for \
         commands this short. \"user-time\" below has the shares, by samples."
            .to_owned()
    })
}

const USER_TIME: Part = Part {
    name: "user-time",
    place: "Reducing system time, reducing user time: what each is of the CPU time",
    about: "perf samples the CPUs while containers run one after the other: how much of the CPU time is spent in user \
        space, the container's own program included. The rest is the kernel's.",
    way: Way::Command(Command {
        line: &["bench", "flame", "--width", "1", "--frequency", "4999"],
        quick: &["--count", "60"],
        full: &["--count", "300"],
        limits: &[],
        seconds: [12, 45],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        Line {
            what: "of the CPU time, in user space",
            published: &[
                Published::number("73 %: 43.0 of 59.3 ms", 72.5, OLD),
                Published::number("79 %: 16.7 of 21.2 ms", 78.8, HASHED),
                Published::number("18 %: 1.0 of 5.5 ms", 18.2, KEPT),
                Published::number("16 %: 4.1 of 26.1 ms", 15.7, "without seccomp, Linux 4.5"),
            ],
            take: Take::plain(&[], Figure::Number("/subjects/user space")),
            unit: "%",
        },
        Line {
            what: "of the CPU time, in the kernel for seccomp",
            published: &[],
            take: Take::plain(&[], Figure::Number("/subjects/seccomp")),
            unit: "%",
        },
        Line {
            what: "of the CPU time, in the kernel for network namespaces",
            published: &[],
            take: Take::plain(&[], Figure::Number("/subjects/network namespaces")),
            unit: "%",
        },
    ],
    instead: all_shown,
};

/// Returns a line that shows how much sooner a container without one of its parts ends. Starts are 60 ms apart.
const fn saves(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
) -> Line {
    let take = Take {
        rows: "/costs",
        only,
        by: "runtime",
        figure: Figure::Estimate("/costs_us"),
        scale: 1e-3,
    };
    ms(what, published, take)
}

const STAIRCASE: Part = Part {
    name: "staircase",
    place: "The steps of the years: seccomp, network, mqueue, IPC",
    about: "The same container without each of what the article made cheaper: how much sooner it is gone, 60 ms after \
        the last one, when what the kernel waits for is seen. Published is what that part cost by itself.",
    way: Way::Command(Command {
        line: &["bench", "staircase", "--pause", "60ms"],
        quick: &["--rounds", "16"],
        full: &["--rounds", "100"],
        limits: &[],
        seconds: [32, 220],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        saves(
            "without seccomp",
            &[
                Published::number("19.6 ms", 19.6, OLD),
                Published::number("12.6 ms of user time", 12.6, HASHED),
            ],
            &[("step", "run without seccomp")],
        ),
        saves(
            "without a network namespace",
            &[Published::number("47.7 ms", 47.7, BEFORE), Published::number("1.5 ms", 1.5, NEW)],
            &[("step", "run without a network namespace")],
        ),
        saves(
            "without mqueue",
            &[Published::number("16.8 ms", 16.8, BEFORE), Published::number("0.7 ms", 0.7, NEW)],
            &[("step", "run without mqueue")],
        ),
        saves(
            "without an IPC namespace",
            &[Published::number("10.9 ms", 10.9, BEFORE), Published::number("0.1 ms", 0.1, NEW)],
            &[("step", "run without an IPC namespace")],
        ),
        saves("without all of these", &[], &[("step", "run without all of these")]),
    ],
    instead: all_shown,
};

const NAMESPACES: Part = Part {
    name: "namespaces",
    place: "Reducing system time: unshare -n, unshare -i, mount -t mqueue",
    about: "A namespace is made and gone, or a message queue mounted, without the process that unshare(1) is; a while \
        after the last one, so that what the kernel waits for is seen.",
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
            "network namespace",
            &[
                Published::number("47.7 ms ± 51.4", 47.7, BEFORE),
                Published::number("1.5 ms ± 0.5", 1.5, NEW),
            ],
            verdict(&[("id", "measured.net")], "/data/apart_us"),
        ),
        ms(
            "mqueue",
            &[
                Published::number("16.8 ms ± 3.1", 16.8, BEFORE),
                Published::number("0.7 ms ± 0.5", 0.7, NEW),
            ],
            verdict(&[("id", "measured.mqueue")], "/data/apart_us"),
        ),
        ms(
            "IPC namespace",
            &[
                Published::number("10.9 ms ± 2.1", 10.9, BEFORE),
                Published::number("0.1 ms ± 0.2", 0.1, NEW),
            ],
            verdict(&[("id", "measured.ipc")], "/data/apart_us"),
        ),
    ],
    instead: all_shown,
};

/// Returns a line of the report that shows the median of a program's samples, in seconds.
const fn seconds(
    what: &'static str,
    published: &'static [Published],
    figure: &'static str,
) -> Line {
    let figure = Figure::Median(figure);
    let take = Take { rows: "/rows", only: &[], by: "", figure, scale: 1.0 };
    Line { what, published, take, unit: "s" }
}

const UNSHARE: Part = Part {
    name: "ipc-namespaces",
    place: "The program of \"use a work queue to free_ipc\": 1000 × unshare(CLONE_NEWIPC)",
    about: "A program makes a thousand IPC namespaces, one after the other, and ends.",
    way: Way::Command(Command {
        line: &["bench", "unshare"],
        quick: &["--rounds", "10"],
        full: &["--rounds", "50"],
        limits: &[],
        seconds: [2, 8],
        runtimes: Runtimes::None,
        draws: true,
    }),
    lines: &[
        seconds(
            "until it is gone",
            &[
                Published::number("8.05 s", 8.05, "before the work queue"),
                Published::number("0.03 s", 0.03, "with it"),
            ],
            "wall_s",
        ),
        seconds(
            "CPU time",
            &[
                Published::number("0.06 s", 0.06, "before the work queue"),
                Published::number("0.02 s", 0.02, "with it"),
            ],
            "cpu_s",
        ),
    ],
    instead: all_shown,
};

const LOOKUPS: Part = Part {
    name: "lookups",
    place: "Reducing user time: a perfect hash to look up system call names: 0.45 s to 0.06 s",
    about: "All names of the engines' profile are looked up a thousand times, on this architecture. The published figures \
        are of all names that libseccomp knows, and of their numbers looked up again; here are names alone.",
    way: Way::Command(Command {
        line: &["bench", "lookups"],
        quick: &["--rounds", "10"],
        full: &["--rounds", "50"],
        limits: &[],
        seconds: [4, 16],
        runtimes: Runtimes::None,
        draws: true,
    }),
    lines: &[Line {
        what: "a thousand times all names",
        published: &[
            Published::number("0.45 s", 0.45, "libseccomp, one name after the other"),
            Published::number("0.06 s", 0.06, "libseccomp with a perfect hash"),
        ],
        take: Take {
            rows: "/rows",
            only: &[("native", "yes")],
            by: "by",
            figure: Figure::Median("wall_s"),
            scale: 1.0,
        },
        unit: "s",
    }],
    instead: all_shown,
};

const FIRST_USE: Part = Part {
    name: "first-use",
    place: "BPF filter compilation: compiled and kept",
    about: "Each profile is new to all caches: the first start with it has it compiled, the next one finds what was \
        kept, if anything was.",
    way: Way::Command(Command {
        line: &["bench", "first-use", "--pause", "0"],
        quick: &["--rounds", "25"],
        full: &["--rounds", "150"],
        limits: &[],
        seconds: [10, 90],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        ms(
            "run, the profile is compiled",
            &[Published::number("28.9 ms ± 5.9", 28.9, HASHED)],
            Take::ms(&[("step", "run, profile never seen")], Figure::Mean("rounds_us")),
        ),
        ms(
            "run, the filter was kept",
            &[Published::number("5.6 ms ± 3.0", 5.6, KEPT)],
            Take::ms(&[("step", "run, profile seen once")], Figure::Mean("rounds_us")),
        ),
    ],
    instead: all_shown,
};

const MEMORY: Part = Part {
    name: "memory",
    place: "Beyond the article: memory",
    about: "What a run takes at its peak, and what stays beside an idle container.",
    way: Way::Command(Command {
        line: &["bench", "memory", "--figure", "peak,idle", "--operation", "run"],
        quick: &["--rounds", "2"],
        full: &["--rounds", "6"],
        limits: &[],
        seconds: [10, 30],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        kib("peak of run", &[("figure", "peak of run")]),
        kib("private memory beside an idle container", &[("figure", "idle: their private memory")]),
        kib("files of state", &[("figure", "idle: files of state")]),
    ],
    instead: all_shown,
};

const LIMIT: Part = Part {
    name: "memory-limit",
    place: "Beyond the article: the smallest memory limit",
    about: "The smallest memory limit with which a container starts, three times in a row, its own program included.",
    way: Way::Command(Command {
        line: &["bench", "memory", "--figure", "limit"],
        quick: &["--rounds", "1"],
        full: &["--rounds", "6"],
        limits: &[],
        seconds: [25, 150],
        runtimes: Runtimes::AllLimited,
        draws: true,
    }),
    lines: &[kib("smallest limit that starts", &[("figure", "smallest limit that starts")])],
    instead: all_shown,
};

const fn kib(what: &'static str, only: &'static [(&'static str, &'static str)]) -> Line {
    Line { what, published: &[], take: Take::plain(only, Figure::Median("rounds")), unit: "KiB" }
}
