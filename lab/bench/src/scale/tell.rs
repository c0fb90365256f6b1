//! Tables, CSV and pictures.

use super::capacity::Bound;
use super::{Burst, Results};
use crate::options::Scale;
use measure::chart::{Axis, Chart, Form, Picture, Series};
use report::Table;
use report::count::counted;
use report::csv::quoted;
use std::fmt::Write;

/// The maximum number of points of a curve over time.
const POINTS: usize = 200;

/// Formats the tables.
pub(super) fn text(options: &Scale, results: &Results) -> String {
    let mut text = String::from("Simulated, not measured; the figures that it is fed with:\n");
    text += &figures(results);
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

fn figures(results: &Results) -> String {
    let mut table = Table::new(&[
        "",
        "start, ms CPU",
        "from",
        "under lock, ms",
        "from",
        "shim, KiB",
        "from",
        "probe, ms CPU",
        "from",
    ]);
    for of in &results.figures {
        let mut cells = vec![of.runtime.clone()];
        for figure in [&of.start_cpu_ms, &of.lock_ms, &of.memory_kib, &of.probe_cpu_ms] {
            cells.extend([format!("{:.2}", figure.value), figure.source.clone()]);
        }
        table.row(cells);
    }
    table.to_string()
}

fn bound(bounds: &[Bound], by: &str) -> String {
    let of = bounds.iter().find(|bound| bound.by == by);
    of.map_or_else(|| "-".to_owned(), |bound| short(bound.most))
}

/// Formats a number. Only a number below 1000 that is not whole has a decimal place.
fn short(value: f64) -> String {
    if value < 1000.0 && value.fract() != 0.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn rates(results: &Results) -> String {
    let mut table = Table::new(&["", "CPUs", "by CPU", "by lock", "by kubelet", "pods/s", "limit"]);
    for row in &results.nodes {
        let mut cells = vec![row.runtime.clone(), row.cores.to_string()];
        cells.extend(["node CPU", "lock", "kubelet"].map(|by| bound(&row.rates, by)));
        cells.extend([short(row.per_second.most), row.per_second.by.to_owned()]);
        table.row(cells);
    }
    table.to_string()
}

fn held(results: &Results) -> String {
    let mut table =
        Table::new(&["", "CPUs", "by memory", "by CPU of probes", "by max-pods", "pods", "limit"]);
    for row in &results.nodes {
        let mut cells = vec![row.runtime.clone(), row.cores.to_string()];
        cells.extend(["memory", "CPU of probes", "max-pods"].map(|by| bound(&row.holds, by)));
        cells.extend([short(row.held.most), row.held.by.to_owned()]);
        table.row(cells);
    }
    table.to_string()
}

/// Formats the results of a burst.
fn cells(burst: &Burst) -> Vec<String> {
    let time = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
    let mut cells: Vec<String> = [burst.p50_s, burst.p99_s, burst.last_s].map(time).to_vec();
    cells.extend([burst.waits_for.to_owned(), burst.pending.to_string()]);
    cells
}

fn starts(results: &Results) -> String {
    let mut table = Table::new(&["", "CPUs", "p50 s", "p99 s", "last s", "waits for", "no room"]);
    for row in &results.nodes {
        let mut line = vec![row.runtime.clone(), row.cores.to_string()];
        line.extend(cells(&row.burst));
        table.row(line);
    }
    table.to_string()
}

fn clusters(results: &Results) -> String {
    let mut table = Table::new(&[
        "",
        "nodes",
        "pods",
        "p50 s",
        "p99 s",
        "last s",
        "waits for",
        "no room",
        "pods/s",
        "limit",
    ]);
    for row in &results.clusters {
        let mut line = vec![row.runtime.clone(), row.nodes.to_string(), row.burst.pods.to_string()];
        line.extend(cells(&row.burst));
        line.extend([short(row.per_second.most), row.per_second.by.to_owned()]);
        table.row(line);
    }
    table.to_string()
}

fn checks(results: &Results) -> String {
    if results.checks.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        "",
        "CPUs",
        "pods",
        "all ready s, measured",
        "model",
        "mean s, kubelet",
        "model",
    ]);
    for of in &results.checks {
        let time = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
        let mut cells = vec![of.runtime.clone(), of.cpus.to_string(), of.pods.to_string()];
        cells.extend(
            [Some(of.measured_last_s), of.model_last_s, of.measured_mean_s, of.model_mean_s]
                .map(time),
        );
        table.row(cells);
    }
    format!("\nThe measured burst, and the model of it\n{table}")
}

/// Formats all rows.
pub(super) fn csv(results: &Results) -> String {
    let mut text = String::from(
        "runtime,nodes,cpus,pods,pods_per_s,limited_by,holds_a_node,held_by,ready,pending,p50_s,p99_s,last_s,waits_for\n",
    );
    let mut line = |runtime: &str, nodes, cores, of: &Burst, rate: Bound, held: Option<Bound>| {
        let time = |s: Option<f64>| s.map_or_else(String::new, |s| format!("{s:.4}"));
        let (most, by) =
            held.map_or_else(Default::default, |held| (format!("{}", held.most), held.by));
        let _ = writeln!(
            text,
            "{},{nodes},{cores},{},{:.4},{},{most},{by},{},{},{},{},{},{}",
            quoted(runtime),
            of.pods,
            rate.most,
            rate.by,
            of.ready,
            of.pending,
            time(of.p50_s),
            time(of.p99_s),
            time(of.last_s),
            of.waits_for,
        );
    };
    for row in &results.nodes {
        line(&row.runtime, 1, row.cores, &row.burst, row.per_second, Some(row.held));
    }
    for row in &results.clusters {
        line(&row.runtime, row.nodes, row.cores, &row.burst, row.per_second, None);
    }
    text
}

/// Draws three charts: a node's starts per second over its CPUs, the time until all pods of a burst on one node are
/// ready over the node's CPUs, and the ready pods of the largest cluster over time.
pub(super) fn pictures(results: &Results) -> Vec<Picture> {
    let over_cores = |title: &str, unit: &str, figure: &dyn Fn(&super::NodeRow) -> Option<f64>| {
        let series = results.figures.iter().map(|of| Series {
            name: of.runtime.clone(),
            points: results
                .nodes
                .iter()
                .filter(|row| row.runtime == of.runtime)
                .filter_map(|row| Some((row.cores as f64, figure(row)?)))
                .collect(),
        });
        chart(title, Axis::logarithmic("CPUs of the node"), unit, series.collect(), Form::Curves)
    };
    let curves = results.curves.iter().map(|(name, ready)| {
        let step = ready.len().div_ceil(POINTS).max(1);
        let all = ready.iter().enumerate().map(|(at, s)| (*s, at as f64 + 1.0));
        let last = all.clone().next_back();
        Series { name: name.clone(), points: all.step_by(step).chain(last).collect() }
    });
    let largest = results.clusters.last().map_or_else(String::new, |row| {
        let nodes = counted(row.nodes, "node");
        format!("{nodes} with {}: ready pods", counted(row.cores, "CPU"))
    });
    vec![
        over_cores("A node's starts a second", "pods/s", &|row| Some(row.per_second.most)),
        over_cores("A burst on one node: until all are ready", "s", &|row| row.burst.last_s),
        chart(&largest, Axis::linear("s"), "pods", curves.collect(), Form::Outlines),
    ]
}

fn chart(title: &str, x: Axis, unit: &str, series: Vec<Series>, form: Form) -> Picture {
    let y = Axis::linear(unit);
    Picture::Chart(Chart { title: title.to_owned(), x, y, series, marks: Vec::new(), form })
}
