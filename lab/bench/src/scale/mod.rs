//! `scale`: simulates how larger nodes and clusters start pods.
//!
//! | part | what |
//! |---|---|
//! | [`read`], [`figures`] | figures from other experiments' JSON, or from options; the limits of one node in the long run |
//! | [`station`], [`simulation`] | the simulation of a burst |
//! | [`tell`] | tables, CSV, pictures |
//!
//! Nothing is measured, so the same files and options give the same results on every host. docs/scale.md has the
//! assumptions. Their sources: KubeSchedulerConfiguration (`clientConnection`), KubeletConfiguration (`kubeAPIQPS`,
//! `kubeAPIBurst`, `eventRecordQPS`, `eventBurst`, `maxPods`), and the kubelet's source (`genericPlegRelistPeriod`; two
//! reports of a pod's state, each a read and a write). Kubernetes documents how many requests the API server handles at
//! a time, but no rate, so `--api-rate` has no default.
//!
//! The lock is estimated by Amdahl's law, from the rates of `burst` with one container and with as many as there are
//! CPUs.

mod figures;
mod options;
mod read;
mod simulation;
mod station;
mod tell;
#[cfg(test)]
mod tests;

use crate::circumstances::Circumstances;
use crate::session::{self, Outcome};
use crate::{Error, results};
use figures::{Bound, Figures, smallest};
use host::measure::progress::Progress;
use host::measure::statistics::quantile;
pub use options::Scale;
use read::{File, Kind};
use serde::Serialize;
use simulation::{Ran, Setup, Waits};
use station::Limit;
use std::path::Path;

/// The maximum number of pods in all simulations of one command. These take a minute or two of CPU time.
const MOST_PODS: usize = 20_000_000;
/// The number of requests that create and bind a pod.
const OTHER_CALLS: f64 = 2.0;

/// The results of a burst of pods.
#[derive(Debug, Serialize)]
struct Burst {
    pods: usize,
    /// The number of pods that became ready.
    ready: usize,
    /// The number of pods for which no node had room.
    pending: usize,
    /// The time from a pod's creation until it was ready, in seconds.
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    mean_s: Option<f64>,
    /// The time at which the last pod was ready, in seconds since the beginning.
    last_s: Option<f64>,
    /// The time at which the kubelet sent its last event about a start.
    last_event_s: f64,
    /// The sums of all pods' waiting times, in seconds.
    waits_s: Waits,
    /// The sum of all pods' start times without the waiting times of `waits_s`, in seconds.
    own_s: f64,
    waits_for: &'static str,
}

/// The results of a node of one size.
#[derive(Debug, Serialize)]
struct NodeRow {
    runtime: String,
    cores: usize,
    rates: Vec<Bound>,
    per_second: Bound,
    holds: Vec<Bound>,
    held: Bound,
    burst: Burst,
}

/// The results of a cluster of one size.
#[derive(Debug, Serialize)]
struct ClusterRow {
    runtime: String,
    nodes: usize,
    cores: usize,
    per_second: Bound,
    burst: Burst,
}

/// A measured burst, and the model's results for a node like the measured one.
#[derive(Debug, Serialize)]
struct Check {
    runtime: String,
    pods: usize,
    cpus: usize,
    measured_last_s: f64,
    model_last_s: Option<f64>,
    measured_mean_s: Option<f64>,
    model_mean_s: Option<f64>,
}

/// The sizes above which a node's CPUs, and a cluster's nodes, are no longer the bottleneck.
#[derive(Debug, Serialize)]
struct Crossing {
    runtime: String,
    /// The number of CPUs with which a node reaches its other limits. With fewer, its CPUs are the limit.
    cpus: Option<f64>,
    /// The limit of a node that has more CPUs than `cpus`.
    then: Option<Bound>,
    /// The smallest number of nodes, each with the largest number of CPUs, that reach the cluster's limit together.
    nodes: f64,
    cluster: Bound,
}

/// All results.
#[derive(Debug, Default, Serialize)]
struct Results {
    memory_mib: usize,
    from: Vec<File>,
    figures: Vec<Figures>,
    nodes: Vec<NodeRow>,
    clusters: Vec<ClusterRow>,
    crossings: Vec<Crossing>,
    checks: Vec<Check>,
    /// For each runtime, the times at which pods became ready in the largest cluster, in seconds.
    #[serde(skip)]
    curves: Vec<(String, Vec<f64>)>,
}

/// Executes the command.
///
/// # Errors
/// A file does not have the format; a figure is missing; there are too many pods; a file can't be written; an
/// interrupt.
pub fn command(options: &Scale) -> Result<(), Error> {
    options.forms.check_directories()?;
    let files: Result<Vec<File>, Error> =
        options.from.iter().map(|path| File::read(path)).collect();
    let results = simulate(options, files?)?;
    let record = Circumstances::take("none".to_owned(), Vec::new(), Path::new("/run"));
    let outcome = Outcome {
        // The results do not depend on this host, so its circumstances are not printed.
        document: Some(tell::text(options, &results)),
        json: vec![("scale", results::value(&results)?)],
        csv: tell::csv(&results),
        pictures: tell::pictures(&results),
        ..Outcome::default()
    };
    session::tell(&options.forms, &record, &[], 0, outcome)
}

/// Simulates all sizes with all runtimes.
fn simulate(options: &Scale, files: Vec<File>) -> Result<Results, Error> {
    let figures = figures::gather(options, &files)?;
    let measured = files.iter().rev().map(|file| file.memory_mib).find(|memory| *memory > 0);
    let memory = options.memory.or(measured).ok_or_else(|| {
        Error::Unfit(
            "the memory of a node was neither measured nor given; --from FILE has that of the measured host, and \
             --memory SIZE gives it"
                .to_owned(),
        )
    })?;
    let (cores, nodes) = (sorted(&options.cores), sorted(&options.nodes));
    let most = cores.last().copied().unwrap_or(1);
    let pods =
        |nodes: usize| options.pods.unwrap_or_else(|| nodes.saturating_mul(options.pods_per_node));
    check_size(figures.len(), &cores, &nodes, &pods)?;
    let mut results = Results { memory_mib: memory, from: files, ..Results::default() };
    let mut progress = Progress::new();
    let all = figures.len() * (cores.len() + nodes.len());
    for of in &figures {
        let step = |results: &Results| results.nodes.len() + results.clusters.len();
        for &cores in &cores {
            progress.tell("scale, simulations", step(&results), all);
            let rates = figures::rates(options, of, cores);
            let holds = figures::holds(options, of, cores, memory);
            let (Some(per_second), Some(held)) = (smallest(&rates), smallest(&holds)) else {
                continue;
            };
            let ran = simulation::run(&setup(options, of, 1, cores, pods(1), held.most))?;
            let burst = burst(&ran);
            let runtime = of.runtime.clone();
            results.nodes.push(NodeRow { runtime, cores, rates, per_second, holds, held, burst });
        }
        for &nodes in &nodes {
            progress.tell("scale, simulations", step(&results), all);
            let holds = figures::holds(options, of, most, memory);
            let holds = smallest(&holds).map_or(0.0, |bound| bound.most);
            let ran = simulation::run(&setup(options, of, nodes, most, pods(nodes), holds))?;
            let node = smallest(&figures::rates(options, of, most));
            let node = node.map(|bound| Bound { most: bound.most * nodes as f64, ..bound });
            let limits: Vec<Bound> = node.into_iter().chain(cluster_limits(options)).collect();
            let Some(per_second) = smallest(&limits) else { continue };
            let (runtime, burst) = (of.runtime.clone(), burst(&ran));
            results.clusters.push(ClusterRow { runtime, nodes, cores: most, per_second, burst });
            if Some(&nodes) == sorted(&options.nodes).last() {
                results.curves.push((of.runtime.clone(), ran.ready));
            }
        }
        results.crossings.extend(crossing(options, of, most));
        let checks = check(options, of, &results.from, memory)?;
        results.checks.extend(checks);
    }
    drop(progress);
    results.figures = figures;
    Ok(results)
}

/// Refuses simulations that would take too long.
fn check_size(
    runtimes: usize,
    cores: &[usize],
    nodes: &[usize],
    pods: &dyn Fn(usize) -> usize,
) -> Result<(), Error> {
    let one = options::MOST_PODS;
    if let Some(nodes) = nodes.iter().chain([&1]).find(|nodes| pods(**nodes) as u64 > one) {
        let pods = pods(*nodes);
        bail!(
            "{nodes} nodes with {pods} pods: at most {one} pods can be simulated; see --pods and --pods-per-node"
        );
    }
    let clusters = nodes.iter().map(|nodes| pods(*nodes)).fold(0, usize::saturating_add);
    let all = cores.len().saturating_mul(pods(1)).saturating_add(clusters).saturating_mul(runtimes);
    if all > MOST_PODS {
        bail!("{all} pods in all simulations: at most {MOST_PODS}; give fewer sizes or fewer pods");
    }
    Ok(())
}

fn sorted(numbers: &[usize]) -> Vec<usize> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the limits of a cluster that do not depend on its nodes, in pods per second.
fn cluster_limits(options: &Scale) -> Vec<Bound> {
    let calls = OTHER_CALLS + options.kubelet_calls + options.events;
    let api = options.api_rate.map(|rate| Bound { by: "API server", most: rate / calls });
    std::iter::once(Bound { by: "scheduler", most: options.scheduler_qps }).chain(api).collect()
}

fn setup(
    options: &Scale,
    of: &Figures,
    nodes: usize,
    cores: usize,
    pods: usize,
    holds: f64,
) -> Setup {
    let locked = of.lock_ms.value / 1e3;
    Setup {
        nodes,
        cores: cores as f64,
        pods,
        rate: options.rate,
        // The number is whole and finite, because max-pods is always one of the limits.
        holds: holds as usize,
        parallel: of.start_cpu_ms.value / 1e3 - locked,
        locked,
        probed: figures::probed(options, of),
        workers: options.workers,
        relist: options.relist.as_secs_f64(),
        kubelet: Limit { qps: options.kubelet_qps, burst: options.kubelet_burst },
        kubelet_calls: options.kubelet_calls,
        event: Limit { qps: options.event_qps, burst: options.event_burst },
        events: options.events,
        scheduler: Limit { qps: options.scheduler_qps, burst: options.scheduler_burst },
        api_rate: options.api_rate,
        seed: options.seed,
    }
}

fn burst(ran: &Ran) -> Burst {
    let ready = ran.took.len();
    let some = |value: f64| (ready > 0).then_some(value);
    let quantile = |q| some(quantile(&mut ran.took.clone(), q));
    Burst {
        pods: ready + ran.pending,
        ready,
        pending: ran.pending,
        p50_s: quantile(0.5),
        p99_s: quantile(0.99),
        mean_s: some(ran.took.iter().sum::<f64>() / ready.max(1) as f64),
        last_s: ran.ready.last().copied(),
        last_event_s: ran.last_event,
        waits_s: ran.waits,
        own_s: ran.own,
        waits_for: waits_for(ran),
    }
}

/// Returns the resource for which all pods together wait longest, or `-` if their starts without waits take longer.
fn waits_for(ran: &Ran) -> &'static str {
    let Waits { api_server, scheduler, kubelet, cpu, lock } = ran.waits;
    let all = [
        ("node CPU", cpu),
        ("lock", lock),
        ("kubelet", kubelet),
        ("scheduler", scheduler),
        ("API server", api_server),
    ];
    let longest = all.into_iter().reduce(|most, it| if it.1 > most.1 { it } else { most });
    longest.filter(|longest| longest.1 > ran.own).map_or("-", |longest| longest.0)
}

fn crossing(options: &Scale, of: &Figures, cores: usize) -> Option<Crossing> {
    let rates = figures::rates(options, of, cores);
    let others: Vec<Bound> = rates.iter().copied().filter(|bound| bound.by != "node CPU").collect();
    let then = smallest(&others);
    let cluster = smallest(&cluster_limits(options))?;
    Some(Crossing {
        runtime: of.runtime.clone(),
        cpus: then.map(|then| then.most * of.start_cpu_ms.value / 1e3),
        then,
        nodes: (cluster.most / smallest(&rates)?.most).ceil(),
        cluster,
    })
}

/// Simulates the burst that was measured, in order to compare the model with the measurement.
fn check(
    options: &Scale,
    of: &Figures,
    files: &[File],
    memory: usize,
) -> Result<Option<Check>, Error> {
    for file in files.iter().rev() {
        let find = |kind: Kind| {
            file.found.iter().find(|found| found.kind == kind && found.runtime == of.runtime)
        };
        let Some(last) = find(Kind::AllReadyS) else { continue };
        let Some(pods) = last.pods.filter(|pods| *pods as u64 <= options::MOST_PODS) else {
            continue;
        };
        let holds = smallest(&figures::holds(options, of, file.cpus, memory));
        let holds = holds.map_or(0.0, |bound| bound.most);
        let setup = setup(options, of, 1, file.cpus, pods, holds);
        let model = burst(&simulation::run(&setup)?);
        return Ok(Some(Check {
            runtime: of.runtime.clone(),
            pods,
            cpus: file.cpus,
            measured_last_s: last.value,
            model_last_s: model.last_s,
            measured_mean_s: find(Kind::MeanS).map(|mean| mean.value),
            model_mean_s: model.mean_s,
        }));
    }
    Ok(None)
}
