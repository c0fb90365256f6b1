//! Hall and Ramachandran's paper on where a start with runc spends its time.

use super::super::paper::{Command, Line, Paper, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::ms;

const RUNC: &str = "runc, 2022";

pub(in super::super) const CONTAINER_RUNTIME: Paper = Paper {
    title: "Opportunities for Optimizing the Container Runtime",
    by: "Adam Hall and Umakishore Ramachandran, Georgia Institute of Technology, 2022",
    on: "runc on a 4-core Intel i5-1035G1 with 8 GB, Linux 4.19, the image of Ubuntu 18.04: means",
    parts: &[
        SPACED, CATEGORIES, SHUTDOWN, OVERHEAD, LEARNED, LEVERS, FAST_PATHS, POOLS, RECYCLING,
        FUNCTIONS,
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
        seconds: [25, 110],
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
        seconds: [30, 120],
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
        seconds: [26, 150],
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
        seconds: [15, 60],
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
        seconds: [12, 60],
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
        seconds: [15, 70],
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

/// Returns the line of a figure of dayfly without a fast path.
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

/// Selects the rows in which each invocation has a container of its own.
const COLD: &[(&str, &str)] = &[("policy", "cold")];

const RECYCLING: Part = Part {
    name: "recycling",
    place: "Fig. 1: containers for 10 requests a second",
    about: "A request is due every 100 ms and takes a second; a container that is done serves the next request. In the paper a \
        cold start takes 250 ms. The first 16 requests start one each, 14 are enough after some 3 seconds, and 2 stay \
        idle. How many there must be at the least is ⌈(1 s + cold start) / 100 ms⌉: 13 for 250 ms; starts that disturb \
        each other take longer.",
    way: Way::Command(Command {
        line: &["bench", "faas", "--function", "100ms/1s", "--policy", "keep-alive"],
        quick: &["--duration", "4s"],
        full: &["--duration", "10s"],
        limits: &[],
        seconds: [14, 34],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        count(
            "cold starts",
            &[Published::number("the first 16", 16.0, "250 ms of cold start")],
            "/cold",
        ),
        count(
            "containers at most",
            &[Published::number("16", 16.0, "250 ms of cold start")],
            "/most",
        ),
        count(
            "at work at most, after 30 % of the time",
            &[Published::number("14", 14.0, "250 ms of cold start")],
            "/busy_late",
        ),
        count(
            "idle from then on",
            &[Published::number("2", 2.0, "250 ms of cold start")],
            "/idle_late",
        ),
        count("at the least, by the measured cold start", &[], "/least"),
    ],
    instead: all_shown,
};

const fn count(what: &'static str, published: &'static [Published], figure: &'static str) -> Line {
    Line { what, published, take: Take::plain(&[], Figure::Number(figure)), unit: "containers" }
}

/// Returns a line of the report about one of the serverless functions in the paper's Table II.
/// `published` is the paper's figure for the function, `only` selects the measured rows, and
/// `figure` is computed from their microseconds.
const fn function(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
    figure: Figure,
) -> Line {
    let take = Take { rows: "/functions", only, by: "runtime", figure, scale: 1e-3 };
    ms(what, published, take)
}

const LOW: &[(&str, &str)] = &[("policy", "cold"), ("function", "5e0db5fd7898")];
const MIDDLE: &[(&str, &str)] = &[("policy", "cold"), ("function", "f9dd89047700")];
const HIGH: &[(&str, &str)] = &[("policy", "cold"), ("function", "c8c0dc2ebb78")];

/// The published reduction of the time of a cold start.
const LESS: &[Published] =
    &[Published::number("0.78: 22 % less", 0.78, "runc with three changes ÷ runc")];

const fn policy(what: &'static str, only: &'static [(&'static str, &'static str)], of: Of) -> Line {
    let (take, unit) = match of {
        Of::P99 => (Take::ms(only, Figure::P99("latencies_us")), "ms"),
        Of::ColdShare => (
            Take {
                rows: "/rows",
                only,
                by: "runtime",
                figure: Figure::Number("/cold_share"),
                scale: 100.0,
            },
            "%",
        ),
        Of::Memory => (Take::plain(only, Figure::Number("/memory_mib_s")), "MiB·s"),
    };
    Line { what, published: &[], take, unit }
}

/// A figure by which policies are compared.
enum Of {
    P99,
    ColdShare,
    Memory,
}

const KEPT: &[(&str, &str)] = &[("policy", "keep-alive")];
const WARM: &[(&str, &str)] = &[("policy", "warm")];
const FORESEEN: &[(&str, &str)] = &[("policy", "histogram")];

const FUNCTIONS: Part = Part {
    name: "functions",
    place: "Table II, Fig. 10 and Fig. 11: functions of a platform",
    about: "Three functions of the Azure Functions trace, by the intervals and times that Table II has, each invocation due \
        whether or not earlier ones are done. The paper starts a container for each; here the remedies that it names are \
        beside that, with the memory that they take: containers kept after an invocation, or started ahead in stock, or \
        kept and started by the histogram of \"Serverless in the Wild\". A latency is from when an invocation is due \
        until its own code has begun. Memory is what containers' cgroups are charged with; without a memory \
        controller what is resident by smaps_rollup, shared pages in parts. For the 10 minutes for which platforms \
        keep containers stand half a second, or 2 s.",
    way: Way::Command(Command {
        line: &["bench", "faas"],
        quick: &["--duration", "2s", "--keep", "500ms"],
        full: &["--duration", "8s", "--keep", "2s"],
        limits: &[],
        seconds: [28, 114],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        function(
            "cold start of 5e0db5fd7898, mean",
            &[Published::text("every 500 ms, for 629 ms", "Table II")],
            LOW,
            Figure::Mean("latencies_us"),
        ),
        function(
            "cold start of f9dd89047700, mean",
            &[Published::text("every 385 ms, for 306 ms", "Table II")],
            MIDDLE,
            Figure::Mean("latencies_us"),
        ),
        function(
            "cold start of c8c0dc2ebb78, mean",
            &[Published::text("every 88 ms, for 545 ms", "Table II")],
            HIGH,
            Figure::Mean("latencies_us"),
        ),
        function(
            "cold start of c8c0dc2ebb78, standard deviation",
            &[],
            HIGH,
            Figure::Deviation("latencies_us"),
        ),
        Line {
            what: "cold starts of all three, dayfly's ÷ theirs",
            published: LESS,
            take: Take::plain(COLD, Figure::Estimate("/ratio")),
            unit: "×",
        },
        policy("cold: latency, p99", COLD, Of::P99),
        policy("kept: latency, p99", KEPT, Of::P99),
        policy("in stock: latency, p99", WARM, Of::P99),
        policy("by histogram: latency, p99", FORESEEN, Of::P99),
        policy("kept: cold starts", KEPT, Of::ColdShare),
        policy("in stock: cold starts", WARM, Of::ColdShare),
        policy("by histogram: cold starts", FORESEEN, Of::ColdShare),
        policy("cold: memory", COLD, Of::Memory),
        policy("kept: memory", KEPT, Of::Memory),
        policy("in stock: memory", WARM, Of::Memory),
        policy("by histogram: memory", FORESEEN, Of::Memory),
    ],
    instead: all_shown,
};
