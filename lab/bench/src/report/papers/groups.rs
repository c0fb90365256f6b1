//! Red Hat's case study of control groups with a database.

use super::super::paper::{Command, Guest, Line, Paper, Part, Published, Runtimes, Way};
use super::super::take::{Figure, Take};
use crate::circumstances::Circumstances;
use report::count::counted;
use serde_json::Value;

const ORACLE: &str = "Oracle 10g";

pub(in super::super) const GROUPS: Paper = Paper {
    title: "Resource Management using Control Groups (Cgroups) in Red Hat Enterprise Linux 6. Case Study: Database Performance",
    by: "Red Hat, 2010",
    on: "4 sockets with 32 cores (Xeon X7560), 128 GB on 4 nodes, Oracle 10g, an OLTP workload",
    parts: &[CONSOLIDATION, PINNING, SCALING, SWAP, ISOLATION, SWAPPING, ROGUE],
};

const CONSOLIDATION: Part = Part {
    name: "consolidation",
    place: "Fig. 3: application consolidation",
    about: "Four instances, unrestricted and on 2, 4, 8 and 14 CPUs. In place of a database instances work on memory of their \
        own; scripts/bed scenarios in the source of dayfly does the same with PostgreSQL.",
    way: way(&["bench", "groups", "--use", "consolidation"], 2),
    lines: &[
        rate("unrestricted", &[], &[("use", "consolidation"), ("state", "unrestricted")]),
        rate("controlled", &[], &[("use", "consolidation"), ("state", "controlled")]),
        change(
            "more than unrestricted",
            &[
                Published::number("23 %", 23.0, "instance 3, Oracle 10g"),
                Published::number("36 %", 36.0, "instance 4, Oracle 10g"),
            ],
            &[("use", "consolidation")],
        ),
    ],
    instead: smaller,
};

const PINNING: Part = Part {
    name: "pinning",
    place: "Fig. 6: an instance a memory node",
    about: "One instance on all CPUs, several side by side, and each of these pinned to a node.",
    way: way(&["bench", "groups", "--use", "pinning"], 3),
    lines: &[
        rate("one instance", &[], &[("use", "pinning"), ("state", "one instance")]),
        rate("side by side", &[], &[("use", "pinning"), ("state", "side by side")]),
        rate("pinned", &[], &[("use", "pinning"), ("state", "pinned")]),
        change(
            "more by pinning",
            &[Published::number("up to 12.5 %", 12.5, ORACLE)],
            &[("use", "pinning")],
        ),
    ],
    instead: smaller,
};

const SCALING: Part = Part {
    name: "scaling",
    place: "Fig. 8: one instance on 2, 4, 6 and 8 CPUs",
    about: "The throughput of one instance grows with the CPUs of its group.",
    way: way(&["bench", "groups", "--use", "scaling"], 4),
    lines: &[Line {
        what: "on so many CPUs",
        published: &[Published::text("bars without figures", "Fig. 8")],
        take: Take {
            rows: "/rows",
            only: &[("use", "scaling")],
            by: "state",
            figure: Figure::Mean("rates"),
            scale: 1.0,
        },
        unit: "transactions/s",
    }],
    instead: smaller,
};

const SWAP: Part = Part {
    name: "swap-of-cpus",
    place: "Fig. 11: CPUs exchanged between running instances",
    about: "4 CPUs and 32, then the other way round, while both work: dayfly cgroup swap.",
    way: way(&["bench", "groups", "--use", "swap"], 2),
    lines: &[
        rate(
            "before",
            &[
                Published::text("instance 1, 4 CPUs: 88000 a minute", ORACLE),
                Published::text("instance 2, 32 CPUs: 186000 a minute", ORACLE),
            ],
            &[("use", "swap"), ("state", "before")],
        ),
        rate(
            "after",
            &[
                Published::text("instance 1, 32 CPUs: 190000 a minute", ORACLE),
                Published::text("instance 2, 4 CPUs: 87000 a minute", ORACLE),
            ],
            &[("use", "swap"), ("state", "after")],
        ),
        change(
            "more after the exchange",
            &[
                Published::number("116 %", 116.0, "instance 1, Oracle 10g"),
                Published::number("-53 %", -53.0, "instance 2, Oracle 10g"),
            ],
            &[("use", "swap")],
        ),
    ],
    instead: smaller,
};

const ISOLATION: Part = Part {
    name: "isolation",
    place: "Table 4 and Figs. 14 to 16: memory of one instance limited",
    about: "One instance is held to a quarter of the memory that it uses, as 8 GB are of 32. In the paper it swaps, and the \
        others don't notice.",
    way: way(&["bench", "groups", "--use", "isolation"], 2),
    lines: &[
        rate(
            "regular",
            &[Published::text("32 GB for each of four instances", "Table 4")],
            &[("use", "isolation"), ("state", "regular")],
        ),
        rate(
            "throttled",
            &[
                Published::text("8 GB for instance 1", "Table 4"),
                Published::text("it swaps with 60 GB of the host free", "Figs. 14 and 15"),
            ],
            &[("use", "isolation"), ("state", "throttled")],
        ),
        change(
            "more than before",
            &[Published::number("up to 12 %", 12.0, "the others, Oracle 10g")],
            &[("use", "isolation")],
        ),
    ],
    instead: without_swap,
};

const SWAPPING: Part = Part {
    name: "isolation-guest",
    place: "Figs. 14 to 16: the limited instance swaps",
    about: "The same with anonymous memory and a swap device, as in the paper: what the limited instance has no room for is \
        swapped out, while the host has memory to spare.",
    way: Way::Guest(Guest {
        script: "scripts/bed guest-groups",
        file: "groups",
        why: "It takes a swap device, and a memory controller",
    }),
    lines: &[
        rate("regular", &[], &[("use", "isolation"), ("state", "regular")]),
        rate("throttled", &[], &[("use", "isolation"), ("state", "throttled")]),
        change(
            "more than before",
            &[Published::number("up to 12 %", 12.0, "the others, Oracle 10g")],
            &[("use", "isolation")],
        ),
        memory(
            "swapped out by then",
            &[Published::text("curves without figures", "Figs. 14 and 15")],
            &[("use", "isolation"), ("name", "swapped out, MiB")],
        ),
        memory("swapped in by then", &[], &[("use", "isolation"), ("name", "swapped in, MiB")]),
        memory(
            "free on the host meanwhile",
            &[Published::text("60 GB", "Figs. 14 and 15")],
            &[("use", "isolation"), ("name", "free memory, MiB")],
        ),
        memory(
            "charged to the limited one",
            &[],
            &[("use", "isolation"), ("name", "charged to the held one, MiB")],
        ),
    ],
    instead: emulated,
};

/// Returns a line of the report that shows the last point of a curve.
const fn memory(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
) -> Line {
    let figure = Figure::By(at_the_end);
    Line {
        what,
        published,
        take: Take { rows: "/curves", only, by: "use", figure, scale: 1.0 },
        unit: "MiB",
    }
}

fn at_the_end(curve: &Value) -> Option<f64> {
    curve["points"].as_array()?.last()?[1].as_f64()
}

fn emulated(_: &Circumstances) -> Option<String> {
    Some(
        "The processors of that machine are emulated: it shows which instances lose throughput, not how much on real ones."
            .to_owned(),
    )
}

const ROGUE: Part = Part {
    name: "rogue",
    place: "Section 4.4: misbehaving or rogue applications",
    about: "An instance alone, beside one that takes what it can get, and beside the same one limited to a tenth of the CPUs: \
        the time below which 99 of 100 of its transactions are.",
    way: way(&["bench", "groups", "--use", "rogue"], 3),
    lines: &[
        Line {
            what: "the neighbour's slowest hundredth",
            published: &[],
            take: Take {
                rows: "/rows",
                only: &[("use", "rogue"), ("instance", "neighbour")],
                by: "state",
                figure: Figure::Number("/p99_us"),
                scale: 1.0,
            },
            unit: "µs",
        },
        Line {
            what: "the neighbour",
            published: &[],
            take: Take {
                rows: "/rows",
                only: &[("use", "rogue"), ("instance", "neighbour")],
                by: "state",
                figure: Figure::Mean("rates"),
                scale: 1.0,
            },
            unit: "transactions/s",
        },
    ],
    instead: smaller,
};

/// Returns the way to reproduce a part by an experiment that measures each of `states` states for the same time.
const fn way(line: &'static [&'static str], states: u64) -> Way {
    Way::Command(Command {
        line,
        quick: &["--phase", "2s"],
        full: &["--phase", "10s"],
        limits: &[],
        seconds: [3 * states, 12 * states],
        runtimes: Runtimes::None,
        draws: true,
    })
}

const fn rate(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
) -> Line {
    let take =
        Take { rows: "/rows", only, by: "instance", figure: Figure::Mean("rates"), scale: 1.0 };
    Line { what, published, take, unit: "transactions/s" }
}

const fn change(
    what: &'static str,
    published: &'static [Published],
    only: &'static [(&'static str, &'static str)],
) -> Line {
    let take = Take {
        rows: "/changes",
        only,
        by: "instance",
        figure: Figure::Number("/percent"),
        scale: 1.0,
    };
    Line { what, published, take, unit: "%" }
}

fn smaller(host: &Circumstances) -> Option<String> {
    (host.cpus < 32 || host.nodes < 4).then(|| {
        let (cpus, nodes) = (counted(host.cpus, "CPU"), counted(host.nodes, "memory node"));
        format!(
            "{cpus} on {nodes} here: with fewer than 32 on 4, shares of CPU time stand for CPUs, \
             and what a far node costs can't be shown."
        )
    })
}

fn without_swap(host: &Circumstances) -> Option<String> {
    let swaps = std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1);
    let words = "No swap here: instances work on files, of which the kernel keeps in memory what there is room for. \
        \"isolation-guest\" below shows swapping, in a virtual machine.";
    let swap = (!swaps).then(|| words.to_owned());
    [smaller(host), swap].into_iter().flatten().reduce(|both, more| format!("{both} {more}"))
}
