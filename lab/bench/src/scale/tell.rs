//! Tables, CSV and pictures.

use super::figures::{Bound, Figure};
use super::options::Scale;
use super::{Burst, NodeRow, Results};
use crate::harness::*;
use crate::results::{chart, lines_of};
use std::fmt::Write;

/// The maximum number of points of a curve over time.
const POINTS: usize = 200;

/// Formats the tables.
pub(super) fn text(options: &Scale, results: &Results) -> String {
    let mut text = String::from("Simulated, not measured; the figures that it is fed with:\n");
    let _ = write!(text, "{}", figures(results));
    for file in &results.from {
        let _ = writeln!(
            text,
            "{}: bench {}, {}, {} × {}, {} MiB, Linux {}",
            file.file,
            file.experiment,
            file.date,
            file.cpus,
            file.cpu,
            file.memory_mib,
            file.kernel
        );
    }
    let arrive = match options.rate {
        Some(rate) => format!("arriving at random, {rate} a second"),
        None => "at once".to_owned(),
    };
    let _ = write!(
        text,
        "\nOne node, {} MiB: starts a second in the long run\n{}\nOne node: pods that it holds, probed every {} s\n{}\n\
         One node: {} {arrive}, until they are ready\n{}\n",
        results.memory_mib,
        rates(results),
        options.interval.as_secs_f64(),
        held(results),
        counted(results.nodes.first().map_or(0, |row| row.burst.pods), "pod"),
        starts(results),
    );
    let cores = results.clusters.first().map_or(0, |row| row.cores);
    let _ = writeln!(
        text,
        "Clusters of nodes with {}: pods {arrive}, until they are ready\n{}",
        counted(cores, "CPU"),
        clusters(results)
    );
    for of in &results.crossings {
        let cluster = limit(of.cluster);
        let _ = match (of.cpus, of.then) {
            (Some(cpus), Some(then)) => write!(
                text,
                "{}: a node's CPUs are its limit below {cpus:.1} CPUs, above it is the {}.",
                of.runtime,
                limit(then)
            ),
            _ => write!(text, "{}: a node's CPUs are its only limit.", of.runtime),
        };
        let _ = writeln!(
            text,
            " From {} of {} on the cluster's limit is the {cluster}.",
            counted(of.nodes as u64, "node"),
            counted(cores, "CPU")
        );
    }
    text + &checks(results)
}

fn limit(bound: Bound) -> String {
    format!("{}, {:.1} pods/s", bound.by, bound.most)
}

fn figures(results: &Results) -> Table {
    let two = |figure: &Figure| format!("{:.2}", figure.value);
    Table::of(
        &results.figures,
        &[
            ("", &|of| of.runtime.clone()),
            ("start, ms CPU", &|of| two(&of.start_cpu_ms)),
            ("from", &|of| of.start_cpu_ms.source.clone()),
            ("under lock, ms", &|of| two(&of.lock_ms)),
            ("from", &|of| of.lock_ms.source.clone()),
            ("shim, KiB", &|of| two(&of.memory_kib)),
            ("from", &|of| of.memory_kib.source.clone()),
            ("probe, ms CPU", &|of| two(&of.probe_cpu_ms)),
            ("from", &|of| of.probe_cpu_ms.source.clone()),
        ],
    )
}

/// Formats a number. Only a number below 1000 that is not whole has a decimal place.
fn short(value: f64) -> String {
    let decimals = usize::from(value < 1000.0 && value.fract() != 0.0);
    format!("{value:.decimals$}")
}

/// Formats three limits of each node, and the smallest of all.
fn limits(
    results: &Results,
    headings: &[&str],
    names: [&str; 3],
    of: fn(&NodeRow) -> (&[Bound], Bound),
) -> Table {
    let mut table = Table::new(headings);
    for row in &results.nodes {
        let (bounds, least) = of(row);
        let most = |by| bounds.iter().find(|bound| bound.by == by).map(|bound| bound.most);
        let mut cells = vec![row.runtime.clone(), row.cores.to_string()];
        cells.extend(names.map(|by| most(by).map_or_else(dash, short)));
        cells.extend([short(least.most), least.by.to_owned()]);
        table.row(cells);
    }
    table
}

fn rates(results: &Results) -> Table {
    let headings = ["", "CPUs", "by CPU", "by lock", "by kubelet", "pods/s", "limit"];
    let names = ["node CPU", "lock", "kubelet"];
    limits(results, &headings, names, |row| (&row.rates, row.per_second))
}

fn held(results: &Results) -> Table {
    let headings = ["", "CPUs", "by memory", "by CPU of probes", "by max-pods", "pods", "limit"];
    let names = ["memory", "CPU of probes", "max-pods"];
    limits(results, &headings, names, |row| (&row.holds, row.held))
}

fn seconds(s: Option<f64>) -> String {
    s.map_or_else(dash, |s| format!("{s:.2}"))
}

fn starts(results: &Results) -> Table {
    Table::of(
        &results.nodes,
        &[
            ("", &|row| row.runtime.clone()),
            ("CPUs", &|row| row.cores.to_string()),
            ("p50 s", &|row| seconds(row.burst.p50_s)),
            ("p99 s", &|row| seconds(row.burst.p99_s)),
            ("last s", &|row| seconds(row.burst.last_s)),
            ("waits for", &|row| row.burst.waits_for.to_owned()),
            ("no room", &|row| row.burst.pending.to_string()),
        ],
    )
}

fn clusters(results: &Results) -> Table {
    Table::of(
        &results.clusters,
        &[
            ("", &|row| row.runtime.clone()),
            ("nodes", &|row| row.nodes.to_string()),
            ("pods", &|row| row.burst.pods.to_string()),
            ("p50 s", &|row| seconds(row.burst.p50_s)),
            ("p99 s", &|row| seconds(row.burst.p99_s)),
            ("last s", &|row| seconds(row.burst.last_s)),
            ("waits for", &|row| row.burst.waits_for.to_owned()),
            ("no room", &|row| row.burst.pending.to_string()),
            ("pods/s", &|row| short(row.per_second.most)),
            ("limit", &|row| row.per_second.by.to_owned()),
        ],
    )
}

fn checks(results: &Results) -> String {
    if results.checks.is_empty() {
        return String::new();
    }
    let table = Table::of(
        &results.checks,
        &[
            ("", &|of| of.runtime.clone()),
            ("CPUs", &|of| of.cpus.to_string()),
            ("pods", &|of| of.pods.to_string()),
            ("all ready s, measured", &|of| seconds(Some(of.measured_last_s))),
            ("model", &|of| seconds(of.model_last_s)),
            ("mean s, kubelet", &|of| seconds(of.measured_mean_s)),
            ("model", &|of| seconds(of.model_mean_s)),
        ],
    );
    format!("\nThe measured burst, and the model of it\n{table}")
}

/// Formats all rows.
pub(super) fn csv(results: &Results) -> String {
    let line = |runtime: &str, nodes, cores, of: &Burst, rate: Bound, held: Option<Bound>| {
        let held = held.map_or_else(Default::default, |held| (held.most.to_string(), held.by));
        let rate = (of.pods, format!("{:.4}", rate.most), rate.by);
        let s = |s: Option<f64>| s.map_or_else(String::new, |s| format!("{s:.4}"));
        let times = [of.p50_s, of.p99_s, of.last_s].map(s);
        let pods = (of.ready, of.pending);
        (runtime.to_owned(), nodes, cores, rate, held, pods, times, of.waits_for)
    };
    let nodes = results
        .nodes
        .iter()
        .map(|row| line(&row.runtime, 1, row.cores, &row.burst, row.per_second, Some(row.held)));
    let clusters = results
        .clusters
        .iter()
        .map(|row| line(&row.runtime, row.nodes, row.cores, &row.burst, row.per_second, None));
    let headings = "runtime,nodes,cpus,pods,pods_per_s,limited_by,holds_a_node,held_by,ready,pending,p50_s,p99_s,last_s,waits_for";
    lines_of(headings, nodes.chain(clusters))
}

/// Draws three charts: a node's starts per second over its CPUs, the time until all pods of a burst on one node are
/// ready over the node's CPUs, and the ready pods of the largest cluster over time.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let over_cores = |title: &str, unit: &str, figure: &dyn Fn(&NodeRow) -> Option<f64>| {
        let points = results
            .nodes
            .iter()
            .filter_map(|row| Some((row.runtime.clone(), (row.cores as f64, figure(row)?))));
        let axes = [Axis::logarithmic("CPUs of the node"), Axis::linear(unit)];
        chart(title, axes, Form::Curves, points)
    };
    let curves = results.curves.iter().flat_map(|(name, ready)| {
        let step = ready.len().div_ceil(POINTS).max(1);
        let all = ready.iter().enumerate().map(|(at, s)| (*s, at as f64 + 1.0));
        let last = all.clone().next_back();
        all.step_by(step).chain(last).map(|at| (name.clone(), at))
    });
    let largest = results.clusters.last().map_or_else(String::new, |row| {
        let nodes = counted(row.nodes, "node");
        format!("{nodes} with {}: ready pods", counted(row.cores, "CPU"))
    });
    vec![
        over_cores("A node's starts a second", "pods/s", &|row| Some(row.per_second.most)),
        over_cores("A burst on one node: until all are ready", "s", &|row| row.burst.last_s),
        chart(largest, [Axis::linear("s"), Axis::linear("pods")], Form::Outlines, curves),
    ]
}
