//! Netflix's article on the mount lock.

use super::super::paper::{Command, Line, Paper, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::ms;
use crate::circumstances::Circumstances;
use report::count::counted;
use serde_json::Value;

pub(in super::super) const MOUNTS: Paper = Paper {
    title: "Mount Mayhem at Netflix: Scaling Containers on Modern CPUs",
    by: "Harshad Sane and Andrew Halaney, Netflix Technology Blog, 2026",
    on: "r5.metal (2 sockets), m7i.metal-24xl (Intel) and m7a.24xlarge (AMD) of AWS, kubelet and containerd",
    parts: &[LAYERS, BURST, START_LIMIT, SHIMS, TABLE, LOCKS, HARDWARE, FLAME],
};

/// Selects the rows of containers with `$layers` layers that are mounted in the way `$mode`, with `$width` starts at a
/// time.
macro_rules! layers {
    ($layers:literal, $width:literal, $mode:literal, $figure:expr) => {
        Take {
            rows: "/rows",
            only: &[("layers", $layers), ("width", $width), ("mode", $mode)],
            by: "runtime",
            figure: $figure,
            scale: 1e-3,
        }
    };
    ($layers:literal, $width:literal, $mode:literal) => {
        layers!($layers, $width, $mode, Figure::Median("latencies_us"))
    };
}

/// Returns a line of the report that shows the mount operations of 100 containers with 50 layers that are mounted in
/// the way `$mode`.
macro_rules! operations {
    ($what:literal, $mode:literal, $published:expr) => {
        Line {
            what: $what,
            published: $published,
            take: Take {
                rows: "/mount_operations",
                only: &[("layers", "50"), ("mode", $mode)],
                by: "runtime",
                figure: Figure::Number("/operations"),
                scale: 100.0,
            },
            unit: "operations",
        }
    };
}

const LAYERS: Part = Part {
    name: "layers",
    place: "Challenge (20200 mounts), Fig. 3 and Fig. 11",
    about: "Containers with ids of their own start from images of 1 and of 50 layers. The layers are mapped one by one \
        on the host (as the article's new runtime did), by their common parent (its remedy), or by a descriptor that \
        is never attached (dayfly's way). crun and runc take a directory: for them the same layers are mounted as an \
        overlay on the host before the start and unmounted after it, as an engine does, and that is in their times. Mount \
        operations are counted by the kernel.",
    way: Way::Command(Command {
        line: &["bench", "layers", "--layers", "1,50", "--modes", "per-layer,parent,fd"],
        quick: &["--width", "1,20", "--count", "20", "--rounds", "3"],
        full: &["--width", "1,20,100", "--count", "40", "--rounds", "6"],
        limits: &[],
        seconds: [40, 420],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        operations!(
            "mount operations on the host for 100 containers of 50 layers, one by one",
            "per-layer",
            &[Published::number("20200", 20_200.0, "containerd, layer by layer, twice")]
        ),
        operations!("mount operations, by their parent", "parent", &[]),
        operations!("mount operations, by descriptor", "fd", &[]),
        ms("1 layer, one at a time, one by one", &[], layers!("1", "1", "per-layer")),
        ms("50 layers, one at a time, one by one", &[], layers!("50", "1", "per-layer")),
        ms("50 layers, one at a time, by their parent", &[], layers!("50", "1", "parent")),
        ms("50 layers, one at a time, by descriptor", &[], layers!("50", "1", "fd")),
        ms(
            "50 layers, 20 at a time, one by one",
            &[Published::text("all machines alike up to about 20", "Fig. 3")],
            layers!("50", "20", "per-layer"),
        ),
        ms("50 layers, 20 at a time, by their parent", &[], layers!("50", "20", "parent")),
        ms("50 layers, 20 at a time, by descriptor", &[], layers!("50", "20", "fd")),
        ms(
            "50 layers, 100 at a time, one by one",
            &[Published::text("r5.metal fails from about 100 on", "Fig. 3")],
            layers!("50", "100", "per-layer"),
        ),
        ms(
            "50 layers, 100 at a time, by their parent",
            &[Published::text("too little to be seen", "after the remedy, Fig. 11")],
            layers!("50", "100", "parent"),
        ),
        ms("50 layers, 100 at a time, by descriptor", &[], layers!("50", "100", "fd")),
        ms(
            "a health check reads the mount table meanwhile, 50 layers, 20 at a time, p99, one by one",
            &[Published::text("30 s and more", "stalled nodes")],
            layers!("50", "20", "per-layer", Figure::By(reads)),
        ),
        ms("the same, by their parent", &[], layers!("50", "20", "parent", Figure::By(reads))),
        ms("the same, by descriptor", &[], layers!("50", "20", "fd", Figure::By(reads))),
    ],
    instead: small,
};

/// Returns the 99th percentile of the probe's times to read the mount table.
fn reads(row: &Value) -> Option<f64> {
    p99(row, "/health/read_us")
}

/// Returns the 99th percentile of the probe's times to execute a program.
fn programs(row: &Value) -> Option<f64> {
    p99(row, "/health/spawn_us")
}

fn p99(row: &Value, pointer: &str) -> Option<f64> {
    let times = row.pointer(pointer)?.as_array()?;
    let times: Vec<f64> = times.iter().filter_map(Value::as_f64).collect();
    measure::statistics::Summary::of(&times).map(|all| all.p99)
}

const BURST: Part = Part {
    name: "burst",
    place: "Fig. 3: launches over concurrency",
    about: "Bursts of containers, with more and more of them in flight: how long one takes, and how many fail.",
    way: Way::Command(Command {
        line: &["bench", "burst"],
        quick: &["--width", "1,4,16", "--count", "24", "--rounds", "4"],
        full: &["--width", "1,2,4,8,16,32,64,100", "--count", "100", "--rounds", "4"],
        limits: &[],
        seconds: [25, 480],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        ms("one at a time", &[], Take::ms(&[("width", "1")], Figure::Median("latencies_us"))),
        ms("4 at a time", &[], Take::ms(&[("width", "4")], Figure::Median("latencies_us"))),
        ms(
            "16 at a time",
            &[Published::text("all machines alike up to about 20", "")],
            Take::ms(&[("width", "16")], Figure::Median("latencies_us")),
        ),
        ms(
            "100 at a time",
            &[Published::text("r5.metal fails from about 100 on", "")],
            Take::ms(&[("width", "100")], Figure::Median("latencies_us")),
        ),
        Line {
            what: "failed, 16 at a time",
            published: &[],
            take: Take::plain(&[("width", "16")], Figure::Number("/failed")),
            unit: "containers",
        },
        Line {
            what: "failed, 100 at a time",
            published: &[],
            take: Take::plain(&[("width", "100")], Figure::Number("/failed")),
            unit: "containers",
        },
        Line {
            what: "containers a second, 16 at a time",
            published: &[],
            take: Take::plain(&[("width", "16")], Figure::Median("rates")),
            unit: "/s",
        },
    ],
    instead: small,
};

const START_LIMIT: Part = Part {
    name: "start-limit",
    place: "The Problem: a health check that times out while containers start",
    about: "200 containers are started at once, while a health check reads the mount table and executes a program: by each \
        runtime, and by dayfly with a limit of starts in flight, as \"dayfly host limit\" sets it. The others wait in a \
        queue of the kernel; each start's time includes its wait.",
    way: Way::Command(Command {
        line: &["bench", "burst", "--width", "200", "--count", "200", "--start-limit", "2,8"],
        quick: &["--rounds", "2"],
        full: &["--rounds", "6"],
        limits: &[],
        seconds: [30, 90],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        ms(
            "the health check executes a program, p99",
            &[Published::text("timed out after 30 s", "stalled nodes")],
            Take::ms(&[], Figure::By(programs)),
        ),
        ms("the health check reads the mount table, p99", &[], Take::ms(&[], Figure::By(reads))),
        ms("a start, median", &[], Take::ms(&[], Figure::Median("latencies_us"))),
        ms("a start, p99", &[], Take::ms(&[], Figure::P99("latencies_us"))),
        Line {
            what: "containers a second",
            published: &[],
            take: Take::plain(&[], Figure::Median("rates")),
            unit: "/s",
        },
        Line {
            what: "failed",
            published: &[Published::text("from about 100 on", "r5.metal, Fig. 3")],
            take: Take::plain(&[], Figure::Number("/failed")),
            unit: "containers",
        },
    ],
    instead: small,
};

/// Returns a line of the report that shows a figure of each shim.
const fn shim(
    what: &'static str,
    only: &'static [(&'static str, &'static str)],
    unit: &'static str,
) -> Line {
    let figure = Figure::Estimate("/median");
    Line {
        what,
        published: &[],
        take: Take { rows: "/figures", only, by: "entrant", figure, scale: 1.0 },
        unit,
    }
}

const SHIMS: Part = Part {
    name: "shims",
    place: "Background: containerd, its shim and its runtime",
    about: "The article's starts go through containerd. Here a containerd of the experiment's own, as it is installed, runs a \
        container by dayfly's shim, and by its own shim in Go with each runtime: the client's wait, and the CPU time of all \
        others.",
    way: Way::Command(Command {
        line: &["bench", "shim", "--figure", "run,idle"],
        quick: &["--rounds", "6"],
        full: &["--rounds", "30"],
        limits: &[],
        seconds: [20, 60],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        shim("ctr run", &[("name", "ctr run")], "ms"),
        shim(
            "ctr run: from the shim's start to its delete",
            &[("name", "ctr run: from the shim's start to its delete")],
            "ms",
        ),
        shim(
            "ctr run: CPU time of containerd, shim and runtime",
            &[("name", "ctr run: CPU beside the client")],
            "ms",
        ),
    ],
    instead: one_version,
};

fn one_version(_: &Circumstances) -> Option<String> {
    Some(
        "The article compares containerd before and after its remedy: this is one version of it. How many mount operations \
         each version makes is in \"layers\"; bench shim --containerd DIR measures another one."
            .to_owned(),
    )
}

const TABLE: Part = Part {
    name: "mounts",
    place: "The Problem: the length of the mount table",
    about: "The same start on hosts with short and with long mount tables.",
    way: Way::Command(Command {
        line: &["bench", "mounts", "--mounts", "50,1000"],
        quick: &["--rounds", "15"],
        full: &["--rounds", "60"],
        limits: &[],
        seconds: [15, 100],
        runtimes: Runtimes::All,
        draws: true,
    }),
    lines: &[
        ms(
            "run, 50 mounts",
            &[],
            Take::ms(&[("step", "run, 50 mounts")], Figure::Median("rounds_us")),
        ),
        ms(
            "run, 1000 mounts",
            &[Published::text("stalls for 30 s", "20200 mounts at once")],
            Take::ms(&[("step", "run, 1000 mounts")], Figure::Median("rounds_us")),
        ),
    ],
    instead: all_shown,
};

const LOCKS: Part = Part {
    name: "locks",
    place: "Fig. 10: a contended global lock",
    about: "Threads take turns at one lock, and at the kernel's mount lock, placed in every way that this host has. The \
        article's figure has curves without numbers: one socket and no hyperthreads are better at high numbers of threads, \
        and m7a is best.",
    way: Way::Command(Command {
        line: &["host", "locks"],
        quick: &["--time", "250"],
        full: &["--time", "2000"],
        limits: &[],
        seconds: [5, 25],
        runtimes: Runtimes::None,
        draws: true,
    }),
    lines: &[
        curve("a turn at the lock, one thread", "lock", first),
        curve("a turn at the lock, a thread a CPU", "lock", last),
        curve("a mount and its end, one thread", "mounts", first),
        curve("a mount and its end, a thread a CPU", "mounts", last),
    ],
    instead: one_node,
};

const fn curve(what: &'static str, work: &'static str, figure: fn(&Value) -> Option<f64>) -> Line {
    // There are two constants, since a const fn can't return a reference to its argument as 'static.
    let only: &'static [(&'static str, &'static str)] = match work.as_bytes() {
        b"lock" => &[("work", "lock")],
        _ => &[("work", "mounts")],
    };
    let take =
        Take { rows: "/curves", only, by: "placement", figure: Figure::By(figure), scale: 1.0 };
    Line { what, published: &[], take, unit: "µs" }
}

fn first(curve: &Value) -> Option<f64> {
    curve["points"].as_array()?.first()?["turn_us"].as_f64()
}

fn last(curve: &Value) -> Option<f64> {
    curve["points"].as_array()?.last()?["turn_us"].as_f64()
}

const HARDWARE: Part = Part {
    name: "hardware",
    place: "Fig. 5, Fig. 6 and Fig. 9: nodes, hyperthreads, kinds of caches",
    about: "The same burst on two sockets and on one, with and without hyperthreads, on a mesh and on chiplets.",
    way: Way::Nothing(
        "no host has all of these machines. What a host's own CPUs do to a contended lock is in \"locks\", in every \
         placement it has; \"dayfly host check\" tells what follows from its nodes, hyperthreads and caches.",
    ),
    lines: &[
        only_published(
            "on two nodes instead of one",
            &[Published::text("high latencies, and failures very early", "Fig. 5")],
        ),
        only_published(
            "without hyperthreads",
            &[Published::text("20 to 30 % sooner", "m7i.metal-24xl, Fig. 6")],
        ),
        only_published(
            "on chiplets instead of a mesh",
            &[Published::text("about 20 % apart", "m7a and m7i without hyperthreads, Fig. 9")],
        ),
    ],
    instead: one_node,
};

const fn only_published(what: &'static str, published: &'static [Published]) -> Line {
    Line { what, published, take: Take::nothing(), unit: "" }
}

const FLAME: Part = Part {
    name: "flame-graphs",
    place: "Fig. 1 and Fig. 11: flame graphs of a burst",
    about: "Where the CPUs are in a burst, the kernel's functions included, by samples of perf.",
    way: Way::Command(Command {
        line: &["bench", "flame", "--layers", "50", "--width", "16"],
        quick: &["--count", "120"],
        full: &["--count", "600"],
        limits: &[],
        seconds: [10, 40],
        runtimes: Runtimes::Own,
        draws: true,
    }),
    lines: &[
        share(
            "of the CPU time, mounts",
            &[
                Published::text("almost all of containerd's", "Fig. 1"),
                Published::text("too little to be seen", "after the remedy, Fig. 11"),
            ],
            "/subjects/mounts",
        ),
        share(
            "of the CPU time, waiting for locks",
            &[
                Published::text(
                    "95.5 % of pipeline slots",
                    "contested accesses, top-down analysis",
                ),
                Published::text("57 % of slots", "false sharing, top-down analysis"),
            ],
            "/locks",
        ),
    ],
    instead: no_counters,
};

const fn share(what: &'static str, published: &'static [Published], figure: &'static str) -> Line {
    Line { what, published, take: Take::plain(&[], Figure::Number(figure)), unit: "%" }
}

fn no_counters(_: &Circumstances) -> Option<String> {
    Some(
        "What pipelines wait for takes the counters of a processor of Intel's, which virtual machines lack. Shown is how \
         much of the time CPUs were in functions that wait for a lock."
            .to_owned(),
    )
}

fn small(host: &Circumstances) -> Option<String> {
    (host.cpus < 24).then(|| {
        let (cpus, nodes) = (counted(host.cpus, "CPU"), counted(host.nodes, "memory node"));
        format!(
            "{cpus} on {nodes}, where the article has 96: there can't be as many at the lock at \
             once. Shown is how times grow with the layers and with the starts in flight."
        )
    })
}

fn one_node(host: &Circumstances) -> Option<String> {
    (host.nodes < 2).then(|| {
        let cpus = host.cpus;
        format!(
            "One memory node, {cpus} CPUs: what the way between nodes costs can't be shown here."
        )
    })
}
