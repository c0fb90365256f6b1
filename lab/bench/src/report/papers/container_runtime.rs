//! Hall and Ramachandran's paper on where a start with runc spends its time.

use super::super::paper::{Command, Line, Paper, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::functions::{FUNCTIONS, RECYCLING};
use super::ms;

const RUNC: &str = "runc, 2022";

pub(in super::super) const CONTAINER_RUNTIME: Paper = Paper {
    title: "Opportunities for Optimizing the Container Runtime",
    by: "Adam Hall and Umakishore Ramachandran, Georgia Institute of Technology, 2022",
    on: "runc on a 4-core Intel i5-1035G1 with 8 GB, Linux 4.19, the image of Ubuntu 18.04: means",
    parts: &[
        SPACED, CATEGORIES, SHUTDOWN, PROFILED, OVERHEAD, LEARNED, LEVERS, FAST_PATHS, POOLS,
        RECYCLING, FUNCTIONS,
    ],
};

const fn latency(figure: Figure) -> Take {
    Take::ms(&[], figure)
}

const SPACED: Part = Part {
    name: "spaced",
    place: "Fig. 4, Fig. 8 and Fig. 9: starts spaced 100 ms apart",
    about: "A start is due every 100 ms, whether or not the one before is done; it is timed until the container's own \
        program tells the time.",
    way: Way::Command(Command {
        line: &["bench", "spaced", "--interval", "100ms"],
        quick: &["--count", "60"],
        full: &["--count", "300"],
        limits: &[],
        seconds: [20, 110],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        ms(
            "mean",
            &[
                Published::number("259 ms", 259.0, RUNC),
                Published::number("20 % less", 207.2, "runc with three changes"),
            ],
            latency(Figure::Mean("latencies_us")),
        ),
        ms(
            "largest",
            &[Published::number("329 ms", 329.0, RUNC)],
            latency(Figure::Max("latencies_us")),
        ),
        ms(
            "standard deviation",
            &[
                Published::number("19.6 ms", 19.6, RUNC),
                Published::number("7 ms", 7.0, "runc with three changes"),
            ],
            latency(Figure::Deviation("latencies_us")),
        ),
        ms("p99", &[], latency(Figure::P99("latencies_us"))),
    ],
    instead: all_shown,
};

const fn category(what: &'static str, published: &'static [Published], name: &'static str) -> Line {
    let take = Take {
        rows: "/commands",
        only: &[],
        by: "runtime",
        figure: Figure::Category(name),
        scale: 1e-3,
    };
    ms(what, published, take)
}

const CATEGORIES: Part = Part {
    name: "categories",
    place: "Table I and Fig. 6: categories of a start",
    about: "Where the time of a start goes. dayfly tells by its own trace; all runtimes are followed by ptrace(2), which \
        makes each system call dearer by what the report of the experiment itself tells.",
    way: Way::Command(Command {
        line: &["bench", "trace", "--interval", "100ms"],
        quick: &["-n", "15"],
        full: &["-n", "100"],
        limits: &[],
        seconds: [20, 120],
        runtimes: Runtimes::Named,
        draws: true,
    }),
    lines: &[
        category("Security", &[Published::number("42 ms, 975 calls", 42.0, RUNC)], "security"),
        category("Mounts", &[Published::number("99 ms, 164 calls", 99.0, RUNC)], "mounts"),
        category("Platform", &[Published::number("20 ms, 20 calls", 20.0, RUNC)], "platform"),
        category("Cgroups", &[Published::number("38 ms, 1577 calls", 38.0, RUNC)], "cgroups"),
        category("Bootstrap", &[Published::number("43 ms, 309 calls", 43.0, RUNC)], "bootstrap"),
        category("Sync", &[Published::number("7 ms, 35 calls", 7.0, RUNC)], "sync"),
        category(
            "Configuration",
            &[Published::number("10 ms, 230 calls", 10.0, RUNC)],
            "configuration",
        ),
        category("Shutdown", &[Published::number("52 ms", 52.0, RUNC)], "shutdown"),
        category("the container's own program", &[], "program"),
    ],
    instead: all_shown,
};

const fn step(what: &'static str, only: &'static [(&'static str, &'static str)]) -> Line {
    ms(what, &[], Take::ms(only, Figure::Mean("rounds_us")))
}

const SHUTDOWN: Part = Part {
    name: "lifecycle",
    place: "Section IV: create, start and shutdown",
    about: "The four commands of a container's life, one by one, 60 ms apart; delete is the paper's shutdown.",
    way: Way::Command(Command {
        line: &["bench", "start", "--operation", "lifecycle", "--pause", "60ms"],
        quick: &["--rounds", "20"],
        full: &["--rounds", "150"],
        limits: &[],
        seconds: [12, 150],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        step("create", &[("step", "create")]),
        step("start", &[("step", "start")]),
        ms(
            "delete",
            &[Published::number("52 ms", 52.0, "shutdown by runc")],
            Take::ms(&[("step", "delete")], Figure::Mean("rounds_us")),
        ),
        step("all of them", &[("step", "create+start+exit+delete")]),
    ],
    instead: all_shown,
};

/// Returns a line of the report that shows the time of `delete` in one category of steps.
const fn of_delete(what: &'static str, name: &'static str) -> Line {
    let figure = Figure::Category(name);
    ms(what, &[], Take { rows: "/commands", only: DELETE, by: "runtime", figure, scale: 1e-3 })
}

const DELETE: &[(&str, &str)] = &[("command", "delete")];

const PROFILED: Part = Part {
    name: "shutdown",
    place: "Section V.F: shutdown",
    about: "The paper found that shutdown takes long, and leaves open why. Here it is delete, step by step: dayfly tells by \
        its own trace; all runtimes are followed by ptrace(2), which makes each system call dearer.",
    way: Way::Command(Command {
        line: &["bench", "trace", "--operation", "lifecycle", "--interval", "100ms"],
        quick: &["-n", "15"],
        full: &["-n", "60"],
        limits: &[],
        seconds: [20, 80],
        runtimes: Runtimes::Named,
        draws: true,
    }),
    lines: &[
        ms(
            "delete, untraced",
            &[Published::number("52 ms", 52.0, "shutdown by runc")],
            Take {
                rows: "/commands",
                only: DELETE,
                by: "runtime",
                figure: Figure::Number("/untraced_us/mean"),
                scale: 1e-3,
            },
        ),
        ms(
            "delete, traced",
            &[],
            Take {
                rows: "/commands",
                only: DELETE,
                by: "runtime",
                figure: Figure::Number("/wall_us/mean"),
                scale: 1e-3,
            },
        ),
        of_delete("the container's own things: cgroups, files of state", "shutdown"),
        of_delete("cgroups otherwise", "cgroups"),
        of_delete("mounts", "mounts"),
        of_delete("the runtime's own beginning", "bootstrap"),
        of_delete("configuration and state", "configuration"),
        of_delete("between processes", "sync"),
    ],
    instead: all_shown,
};

/// The cost of the paper's own tracing.
const TRACED: &[Published] =
    &[Published::number("1 % on average", 1.01, "runc with its instrumentation")];

const fn ratio(what: &'static str, measure: &'static [(&'static str, &'static str)]) -> Line {
    Line {
        what,
        published: TRACED,
        take: Take {
            rows: "/rows",
            only: measure,
            by: "trace",
            figure: Figure::Estimate("/ratio"),
            scale: 1.0,
        },
        unit: "× the time untraced",
    }
}

const OVERHEAD: Part = Part {
    name: "trace-overhead",
    place: "Section IV.A: what measuring costs",
    about: "Pairs of starts by dayfly, traced by itself and untraced.",
    way: Way::Command(Command {
        line: &["bench", "trace-overhead", "--pause", "0"],
        quick: &["--rounds", "60"],
        full: &["--rounds", "400"],
        limits: &[],
        seconds: [8, 60],
        runtimes: Runtimes::Own,
        draws: true,
    }),
    lines: &[
        ratio("until its program runs", &[("measure", "until its program runs")]),
        ratio("until it is gone", &[("measure", "until it is gone")]),
    ],
    instead: all_shown,
};

/// Returns a line that shows how much earlier a container ends with another profile than with the
/// bundle's profile.
const fn sooner(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
) -> Line {
    let figure = Figure::Estimate("/costs_us");
    ms(what, published, Take { rows: "/costs", only, by: "runtime", figure, scale: 1e-3 })
}

const LEARNED: Part = Part {
    name: "learned-profile",
    place: "Section V.A.1: as few system calls in a profile as can be",
    about: "The paper proposes profiles of no more than what a function calls, and leaves open who finds that out and what \
        it saves. Here each runtime learns one from the container's own runs: how much sooner it is gone with that, and \
        without any filter.",
    way: Way::Command(Command {
        line: &["bench", "learned", "--pause", "0"],
        quick: &["--rounds", "20", "--learn", "2"],
        full: &["--rounds", "150"],
        limits: &[],
        seconds: [8, 60],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        sooner("with the learned profile", &[], &[("step", "run with the learned profile")]),
        sooner(
            "without seccomp",
            &[Published::text("16 ms to set a filter up, 25 ms to add 316 calls", RUNC)],
            &[("step", "run without seccomp")],
        ),
        Line {
            what: "instructions of the filter that dayfly compiles from the learned profile",
            published: &[],
            take: Take {
                rows: "/profiles",
                only: &[("profile", "learned")],
                by: "runtime",
                figure: Figure::Number("/instructions"),
                scale: 1.0,
            },
            unit: "instructions",
        },
    ],
    instead: all_shown,
};

const LEVERS: Part = Part {
    name: "levers",
    place: "Section VI, Fig. 8 and Fig. 9: parallelism, caching, elimination",
    about: "The paper pulls three levers, with one change to runc each: unmounting and masking in parallel, numbers of \
        system calls kept, no look at Intel RDT. dayfly without all that it does at once, without all that it keeps, without \
        all that it spares, and without everything, beside dayfly as it is; starts 60 ms apart.",
    way: Way::Command(Command {
        line: &["bench", "ablation", "--levers", "--pause", "60ms"],
        quick: &["--rounds", "25"],
        full: &["--rounds", "150"],
        limits: &[],
        seconds: [12, 70],
        runtimes: Runtimes::Own,
        draws: true,
    }),
    lines: &[
        without(
            "without it, times the start with everything",
            &[Published::number("1.25: 20 % less by all three", 1.25, "runc with three changes")],
            Figure::Estimate("/ratio"),
            "×",
        ),
        without(
            "standard deviation of starts without it",
            &[
                Published::number("19.6 ms", 19.6, RUNC),
                Published::number("7 ms", 7.0, "runc with three changes"),
            ],
            Figure::By(|row| Some(row["wall_us"]["deviation"].as_f64()? / 1e3)),
            "ms",
        ),
    ],
    instead: all_shown,
};

/// Returns a line of the report that shows a figure of dayfly without each of its fast paths.
const fn without(
    what: &'static str,
    published: &'static [Published],
    figure: Figure,
    unit: &'static str,
) -> Line {
    Line {
        what,
        published,
        take: Take { rows: "/rows", only: &[], by: "without", figure, scale: 1.0 },
        unit,
    }
}

const FAST_PATHS: Part = Part {
    name: "ablation",
    place: "Section VI: each change by itself",
    about: "dayfly without each of its fast paths, and without all of them, beside dayfly as it is; starts 60 ms apart.",
    way: Way::Command(Command {
        line: &["bench", "ablation", "--pause", "60ms"],
        quick: &["--rounds", "25"],
        full: &["--rounds", "150"],
        limits: &[],
        seconds: [28, 170],
        runtimes: Runtimes::Own,
        draws: true,
    }),
    lines: &[without(
        "without it, times the start with everything",
        &[],
        Figure::Estimate("/ratio"),
        "×",
    )],
    instead: all_shown,
};

const POOLS: Part = Part {
    name: "pools",
    place: "Section VII: made ahead",
    about: "The paper names containers that were made ahead as the usual remedy, and their price. What a cgroup alone \
        saves that was made ahead: run, and create.",
    way: Way::Command(Command {
        line: &["bench", "pools", "--pause", "0"],
        quick: &["--rounds", "20", "--tenants", "1"],
        full: &["--rounds", "100"],
        limits: &[],
        seconds: [12, 70],
        runtimes: Runtimes::OwnLimited,
        draws: true,
    }),
    lines: &[
        step("run", &[("step", "run")]),
        step("create", &[("step", "create")]),
        step("delete", &[("step", "delete")]),
    ],
    instead: all_shown,
};
