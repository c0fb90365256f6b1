//! The parts of Hall and Ramachandran's paper that are about the functions of a serverless platform.

use super::super::paper::{Command, Line, Part, Published, Runtimes, Way, all_shown};
use super::super::take::{Figure, Take};
use super::ms;

/// Selects the rows in which each invocation has a container of its own.
const COLD: &[(&str, &str)] = &[("policy", "cold")];

pub(super) const RECYCLING: Part = Part {
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

/// Returns a line of the report about one of the serverless functions in the paper's Table II. `published` is what the
/// paper says about the function, `only` selects the measured rows, and `figure` is computed from their microseconds.
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

/// Returns a line of the report that shows the memory of one function's containers with one policy.
macro_rules! costs {
    ($what:literal, $function:literal, $policy:literal) => {
        Line {
            what: $what,
            published: &[],
            take: Take {
                rows: "/functions",
                only: &[("function", $function), ("policy", $policy)],
                by: "runtime",
                figure: Figure::Number("/memory_mib_s"),
                scale: 1.0,
            },
            unit: "MiB·s",
        }
    };
}

pub(super) const FUNCTIONS: Part = Part {
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
        seconds: [32, 114],
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
        function(
            "cold start of f9dd89047700, standard deviation",
            &[],
            MIDDLE,
            Figure::Deviation("latencies_us"),
        ),
        function(
            "cold start of 5e0db5fd7898, standard deviation",
            &[],
            LOW,
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
        costs!("5e0db5fd7898, cold: memory", "5e0db5fd7898", "cold"),
        costs!("5e0db5fd7898, kept: memory", "5e0db5fd7898", "keep-alive"),
        costs!("5e0db5fd7898, in stock: memory", "5e0db5fd7898", "warm"),
        costs!("5e0db5fd7898, by histogram: memory", "5e0db5fd7898", "histogram"),
        costs!("f9dd89047700, cold: memory", "f9dd89047700", "cold"),
        costs!("f9dd89047700, kept: memory", "f9dd89047700", "keep-alive"),
        costs!("f9dd89047700, in stock: memory", "f9dd89047700", "warm"),
        costs!("f9dd89047700, by histogram: memory", "f9dd89047700", "histogram"),
        costs!("c8c0dc2ebb78, cold: memory", "c8c0dc2ebb78", "cold"),
        costs!("c8c0dc2ebb78, kept: memory", "c8c0dc2ebb78", "keep-alive"),
        costs!("c8c0dc2ebb78, in stock: memory", "c8c0dc2ebb78", "warm"),
        costs!("c8c0dc2ebb78, by histogram: memory", "c8c0dc2ebb78", "histogram"),
    ],
    instead: all_shown,
};
