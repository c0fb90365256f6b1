//! Red Hat's case study of control groups with a database.

use super::super::paper::{Line, Paper, Part, Published, Way};
use super::super::take::Take;
use crate::circumstances::Circumstances;

/// Why none of it is measured by this command.
const DATABASE: &str = "it needs a database under load, which this command does not bring. scripts/scenarios in the \
    source of dayfly runs these uses with PostgreSQL and pgbench, one instance a group, by dayfly cgroup.";

const ORACLE: &str = "Oracle 10g";

pub(in super::super) const GROUPS: Paper = Paper {
    title: "Resource Management using Control Groups (Cgroups) in Red Hat Enterprise Linux 6. Case Study: Database Performance",
    by: "Red Hat, 2010",
    on: "4 sockets with 32 cores (Xeon X7560), 128 GB on 4 nodes, Oracle 10g, an OLTP workload",
    parts: &[
        part(
            "consolidation",
            "Fig. 3: application consolidation",
            "Four instances, unrestricted and on 2, 4, 8 and 14 CPUs.",
            &[said("instance 3 and instance 4 gain", &[Published::text("23 % and 36 %", ORACLE)])],
        ),
        part(
            "pinning",
            "Fig. 6: an instance a memory node",
            "One instance on all CPUs, four side by side, and four pinned to a node each.",
            &[said("pinned instances gain up to", &[Published::text("12.5 %", ORACLE)])],
        ),
        part(
            "scaling",
            "Fig. 8: one instance on 2, 4, 6 and 8 CPUs",
            "The throughput of one instance grows with the CPUs of its group.",
            &[],
        ),
        part(
            "swap-of-cpus",
            "Fig. 11: CPUs exchanged between running instances",
            "4 CPUs and 32, then the other way round, while both work.",
            &[
                said(
                    "instance 1, from 4 CPUs to 32",
                    &[Published::text("88000 to 190000 transactions a minute", ORACLE)],
                ),
                said(
                    "instance 2, from 32 CPUs to 4",
                    &[Published::text("186000 to 87000 transactions a minute", ORACLE)],
                ),
            ],
        ),
        part(
            "isolation",
            "Table 4 and Figs. 14 to 16: memory of one instance limited",
            "One instance is held to 8 GB and swaps; the others don't notice.",
            &[said("the others gain up to", &[Published::text("12 %", ORACLE)])],
        ),
    ],
};

const fn part(
    name: &'static str,
    place: &'static str,
    about: &'static str,
    lines: &'static [Line],
) -> Part {
    Part { name, place, about, way: Way::Nothing(DATABASE), lines, instead: smaller }
}

const fn said(what: &'static str, published: &'static [Published]) -> Line {
    Line { what, published, take: Take::nothing(), unit: "" }
}

fn smaller(host: &Circumstances) -> Option<String> {
    let (cpus, nodes) = (host.cpus, host.nodes);
    (cpus < 32 || nodes < 4).then(|| {
        format!(
            "{cpus} CPUs on {nodes} memory nodes here: with fewer than 32 on 4, shares of CPU time stand for CPUs, \
             and what a far node costs can't be shown."
        )
    })
}
