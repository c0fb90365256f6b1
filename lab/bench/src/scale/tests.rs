//! Compares the simulation with closed formulas, and checks how bad input is refused.

use super::options::Scale;
use super::read::{File, Kind};
use super::simulation::{Ran, Setup, run};
use super::station::Limit;
use super::{simulate, tell, waits_for};
use crate::options::{Command, Options};
use clap::Parser;
use serde_json::{Value, json};
use std::time::Instant;

/// A limit that delays nothing.
const FREE: Limit = Limit { qps: 1e9, burst: 1e9 };

/// Returns a simulation of pods that each need only one second of CPU time.
fn plain(pods: usize, cores: f64) -> Setup {
    Setup {
        nodes: 1,
        cores,
        pods,
        rate: None,
        holds: usize::MAX,
        parallel: 1.0,
        locked: 0.0,
        probed: 0.0,
        workers: None,
        relist: 0.0,
        kubelet: FREE,
        kubelet_calls: 4.0,
        event: FREE,
        events: 3.0,
        scheduler: FREE,
        api_rate: None,
        seed: 1,
    }
}

fn ran(setup: &Setup) -> Ran {
    run(setup).expect("no interrupt")
}

fn last(ran: &Ran) -> f64 {
    *ran.ready.last().expect("a pod")
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

fn options(line: &[&str]) -> Scale {
    let line = ["bench", "scale"].iter().chain(line);
    let options = Options::try_parse_from(line).expect("good options");
    let Command::Scale(scale) = options.command else { panic!("not scale") };
    *scale
}

/// The options that give each figure.
const GIVEN: [&str; 5] = [
    "--start-cpu-ms=a=200",
    "--start-cpu-ms=b=500",
    "--lock-ms=5",
    "--memory-kib=100",
    "--probe-cpu-ms=10",
];

/// Returns the reason why the command fails.
fn refused(line: &[&str], files: Vec<File>) -> String {
    match simulate(&options(line), files) {
        Ok(results) => panic!("{:?}", results.figures),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_pod_becomes_ready_once_or_has_no_room() {
    for seed in 0..20 {
        let few = seed as usize;
        let setup = Setup {
            nodes: 1 + few % 4,
            holds: 3 + few,
            locked: if seed % 2 == 0 { 0.1 } else { 0.0 },
            probed: 0.01,
            workers: (seed % 3 == 0).then_some(1 + few / 3),
            rate: (seed % 5 == 0).then_some(3.0),
            relist: 1.0,
            kubelet: Limit { qps: 5.0, burst: 2.0 },
            event: Limit { qps: 5.0, burst: 2.0 },
            scheduler: Limit { qps: 20.0, burst: 3.0 },
            api_rate: (seed % 2 == 1).then_some(100.0),
            seed,
            ..plain(60, 2.0)
        };
        let ran = ran(&setup);
        let room = setup.nodes * setup.holds;
        assert_eq!((ran.ready.len(), ran.took.len()), (room.min(60), room.min(60)), "{seed}");
        assert_eq!(ran.pending, 60 - room.min(60), "{seed}");
        assert!(ran.ready.is_sorted() && ran.took.iter().all(|took| *took > 1.0), "{seed}");
        // The time until a pod is ready consists of CPU time, the time until the kubelet's look, and waits. Requests
        // after that time are not included.
        let waits = ran.waits;
        let waits = waits.api_server + waits.scheduler + waits.kubelet + waits.cpu + waits.lock;
        let took: f64 = ran.took.iter().sum();
        if ran.pending == 0 {
            assert!(near(took, waits + ran.own), "{seed}: {took} {waits} {}", ran.own);
        }
    }
}

#[test]
fn a_burst_takes_as_long_as_division_says() {
    // All pods are created at once, share the CPUs, and end together.
    let all = ran(&plain(12, 4.0));
    assert!(near(all.took[0], 3.0) && near(last(&all), 3.0), "{:?}", all.took);
    // With one worker per CPU, as many pods run at a time as there are CPUs, each for the same time (D/D/c).
    let turns = ran(&Setup { workers: Some(4), ..plain(10, 4.0) });
    let expected = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0];
    assert!(turns.took.iter().zip(expected).all(|(a, b)| near(*a, b)), "{:?}", turns.took);
    // One pod never has more than one CPU.
    assert!(near(last(&ran(&plain(1, 64.0))), 1.0));
    // Nodes share nothing.
    assert!(near(last(&ran(&Setup { nodes: 3, ..plain(12, 4.0) })), 1.0));
}

#[test]
fn one_server_waits_as_pollaczek_and_khinchine_say() {
    let (load, service) = (0.7, 1.0);
    let setup = Setup { workers: Some(1), rate: Some(load / service), ..plain(100_000, 1.0) };
    let ran = ran(&setup);
    let mean = ran.took.iter().sum::<f64>() / ran.took.len() as f64;
    // The mean time in an M/D/1 queue.
    let expected = service + load * service / (2.0 * (1.0 - load));
    assert!((mean / expected - 1.0).abs() < 0.04, "{mean} instead of {expected}");
}

#[test]
fn a_lock_admits_one_at_a_time() {
    let ran = ran(&Setup { parallel: 1.0, locked: 0.5, ..plain(10, 64.0) });
    assert!(near(ran.took[0], 1.5) && near(last(&ran), 6.0), "{:?}", ran.took);
    // The first waits 0, the last 4.5 seconds.
    assert!(near(ran.waits.lock, 22.5) && near(ran.waits.cpu, 0.0), "{:?}", ran.waits);
    assert_eq!(waits_for(&ran), "lock");
}

#[test]
fn limits_of_requests_hold_pods_up() {
    let slow = Limit { qps: 10.0, burst: 20.0 };
    let scheduled = ran(&Setup { scheduler: slow, parallel: 0.001, ..plain(120, 64.0) });
    assert!((last(&scheduled) - 10.0).abs() < 0.1, "{}", last(&scheduled));
    assert_eq!(waits_for(&scheduled), "scheduler");
    let reported = ran(&Setup { kubelet: slow, parallel: 0.001, ..plain(120, 64.0) });
    assert!((last(&reported) - (480.0 - 20.0) / 10.0).abs() < 0.1, "{}", last(&reported));
    assert_eq!(waits_for(&reported), "kubelet");
    // Events are sent later, but no pod waits for them.
    let told = ran(&Setup { event: slow, parallel: 0.001, ..plain(120, 64.0) });
    assert!(last(&told) < 0.1 && (told.last_event - (360.0 - 20.0) / 10.0).abs() < 0.1);
    let asked =
        ran(&Setup { api_rate: Some(6.0), parallel: 0.001, events: 0.0, ..plain(10, 64.0) });
    assert!((last(&asked) - 10.0).abs() < 0.1, "{}", last(&asked));
    assert_eq!(waits_for(&asked), "API server");
}

#[test]
fn the_kubelet_looks_once_a_second() {
    let ran = ran(&Setup { relist: 1.0, parallel: 1e-6, rate: Some(1.0), ..plain(2000, 1.0) });
    let mean = ran.took.iter().sum::<f64>() / 2000.0;
    assert!((mean - 0.5).abs() < 0.05 && ran.took[1999] <= 1.01, "{mean}");
}

#[test]
fn probes_take_cpu_time_from_starts() {
    let turns = Setup { workers: Some(1), ..plain(4, 1.0) };
    let probed = ran(&Setup { probed: 0.25, holds: 4, ..turns.clone() });
    // The second pod has 3/4 of a CPU, the third 1/2, the fourth 1/4.
    let expected = 1.0 + 1.0 / 0.75 + 1.0 / 0.5 + 1.0 / 0.25;
    assert!(near(last(&probed), expected), "{} instead of {expected}", last(&probed));
    assert!(near(last(&ran(&turns)), 4.0));
}

#[test]
fn more_cores_are_never_slower() {
    let line =
        [&GIVEN[..], &["--memory=64g", "--nodes=1,10", "--cores=1,2,3,5,8,13,21,34,64"]].concat();
    let results = simulate(&options(&line), Vec::new()).expect("good");
    for pair in results.nodes.windows(2).filter(|pair| pair[0].runtime == pair[1].runtime) {
        assert!(pair[1].per_second.most >= pair[0].per_second.most);
        let (fewer, more) = (&pair[0].burst, &pair[1].burst);
        assert!(more.last_s <= fewer.last_s && more.p50_s <= fewer.p50_s, "{fewer:?} {more:?}");
    }
    assert_eq!(results.nodes.len(), 18);
    let limits: Vec<_> = results.nodes.iter().map(|row| row.per_second.by).collect();
    assert_eq!((limits[0], limits[8]), ("node CPU", "kubelet"));
    // The kubelet's limit of 12.5 pods/s takes 2.5 CPUs at 200 ms of CPU time per pod. The scheduler's limit of 50
    // pods/s takes 4 such nodes.
    let crossing = &results.crossings[0];
    assert!(near(crossing.cpus.expect("kubelet"), 2.5) && near(crossing.nodes, 4.0));
    assert_eq!(results.clusters.last().map(|row| row.per_second.by), Some("scheduler"));
}

#[test]
fn the_same_seed_gives_the_same() {
    let of = |seed| {
        let seed = format!("--seed={seed}");
        let line = [&GIVEN[..], &["--memory=1g", "--nodes=1,7", "--rate=20", &seed]].concat();
        tell::csv(&simulate(&options(&line), Vec::new()).expect("good"))
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn memory_and_probes_limit_the_pods_of_a_node() {
    let line = [
        &GIVEN[..],
        &["--memory=1024", "--pod-memory=99900k", "--max-pods=100000", "--nodes=1,2,5,9"],
    ];
    let results = simulate(&options(&line.concat()), Vec::new()).expect("good");
    let row = &results.nodes[0];
    assert_eq!((row.held.most, row.held.by), (10.0, "memory"));
    assert_eq!((row.burst.ready, row.burst.pending), (10, 90));
    let line = [
        &GIVEN[..],
        &["--memory=1024", "--max-pods=100000", "--interval=100ms", "--nodes=1,2,5,9"],
    ];
    let results = simulate(&options(&line.concat()), Vec::new()).expect("good");
    let held: Vec<f64> = results.nodes.iter().map(|row| row.held.most).collect();
    assert_eq!(held[..3], [10.0, 20.0, 40.0]);
    let csv = tell::csv(&results);
    let counts = csv.lines().map(|line| line.split(',').count());
    assert!(counts.eq(std::iter::repeat_n(14, 1 + 14 + 8)), "{csv}");
    assert!(host::measure::chart::draw(&tell::pictures(&results)).contains("<text"));
}

/// Returns the JSON of `kubernetes`, in part.
fn measured(probe_load: f64) -> Value {
    let figure = |name: &str, value: f64| json!({"name": name, "entrant": "a", "samples": [value]});
    json!({
        "record": {"cpus": 2, "memory_mib": 1024, "date": "today", "kernel": "6", "cpu": "C"},
        "failures": [],
        "kubernetes": "v1",
        "figures": [
            figure("20 pods at once: until all are ready", 9.0),
            figure("20 pods at once: CPU of the node, a pod", 300.0),
            figure("20 pods at once: a pod's start by the kubelet, mean", 4.0),
            figure("memory of shims (PSS), a pod", 126.0),
            figure("Job of 5 pods, 2 at a time: CPU of the node, a pod", 1.0),
            figure("20 pods probed each 10 s: CPU of the node beyond that without pods", probe_load),
            figure("probes", 2.0),
        ],
    })
}

#[test]
fn figures_come_from_files() {
    let file = File::of(&measured(50.0), "k.json").expect("good");
    let results = simulate(&options(&["--lock-ms=a=7", "--nodes=1,5"]), vec![file]).expect("good");
    let of = &results.figures[0];
    assert_eq!((of.start_cpu_ms.value, of.start_cpu_ms.source.as_str()), (300.0, "k.json"));
    assert_eq!((of.lock_ms.value, of.lock_ms.source.as_str()), (7.0, "--lock-ms"));
    assert_eq!((of.memory_kib.value, of.probe_cpu_ms.value), (126.0, 25.0));
    assert_eq!(results.memory_mib, 1024);
    let check = &results.checks[0];
    assert_eq!((check.pods, check.cpus, check.measured_last_s), (20, 2, 9.0));
    assert!(check.model_last_s.is_some_and(|s| s > 3.0), "{check:?}");
    let text = tell::text(&options(&["--lock-ms=a=7", "--nodes=1,5"]), &results);
    assert!(text.contains("k.json: bench kubernetes, today, 2 × C, 1024 MiB"), "{text}");
    assert!(text.contains("The measured burst, and the model of it"), "{text}");
    // A given figure replaces the measured one.
    let file = File::of(&measured(50.0), "k.json").expect("good");
    let line = ["--lock-ms=0.5", "--start-cpu-ms=100", "--start-cpu-ms=b=1", "--memory-kib=b=1"];
    let line = [&line[..], &["--probe-cpu-ms=b=1", "--nodes=1"]].concat();
    let results = simulate(&options(&line), vec![file]).expect("good");
    let starts: Vec<f64> = results.figures.iter().map(|of| of.start_cpu_ms.value).collect();
    assert_eq!(starts, [100.0, 1.0]);
}

#[test]
fn a_lock_is_estimated_from_a_burst() {
    let row = |width: usize, rate: f64| json!({"runtime": "a", "width": width, "rates": [rate]});
    let burst = |many: f64| {
        let record = json!({"cpus": 4});
        json!({"record": record, "idle": {}, "rows": [row(1, 100.0), row(4, many)]})
    };
    let lock = |many: f64| {
        let file = File::of(&burst(many), "b.json").expect("good");
        assert_eq!((file.found.len(), file.found[0].kind), (1, Kind::LockMs));
        file.found[0].value
    };
    // Four times as many starts per second on four CPUs: nothing is under a lock. As many as one at a time: everything
    // is.
    assert!(near(lock(400.0), 0.0) && near(lock(500.0), 0.0) && near(lock(100.0), 10.0));
    // Twice as many starts per second: 1/s = σ + (1 − σ)/4 gives σ = 1/3.
    assert!(near(lock(200.0), 10.0 / 3.0));
}

#[test]
fn a_missing_figure_is_named_with_its_command() {
    for (at, command) in [
        (2, "\"dayfly bench burst --json\""),
        (3, "\"dayfly bench shim --figure idle-pod --json\""),
        (4, "\"dayfly bench shim --probes --json\""),
    ] {
        let line: Vec<&str> =
            GIVEN.iter().enumerate().filter(|of| of.0 != at).map(|of| *of.1).collect();
        let reason = refused(&[&line[..], &["--memory=1g"]].concat(), Vec::new());
        assert!(
            reason.contains(command) && reason.contains("neither measured nor given"),
            "{reason}"
        );
    }
    let nothing = refused(&["--memory=1g"], Vec::new());
    assert!(nothing.contains("kubernetes --work burst") && nothing.contains("--start-cpu-ms"));
    let memory = refused(&GIVEN, Vec::new());
    assert!(memory.contains("--memory SIZE"), "{memory}");
    // If the CPU time with probes is less than without, the CPU time of a probe remains unknown.
    let file = File::of(&measured(-25.0), "k.json").expect("good");
    let negative = refused(&["--lock-ms=1"], vec![file]);
    assert!(negative.contains("k.json has -12.500") && negative.contains("--probe-cpu-ms a=N"));
    let lock = refused(
        &["--start-cpu-ms=1", "--lock-ms=2", "--memory-kib=1", "--probe-cpu-ms=1"],
        Vec::new(),
    );
    assert!(lock.contains("cannot be under a lock"), "{lock}");
}

#[test]
fn json_of_other_commands_is_refused() {
    for value in [
        json!(null),
        json!([]),
        json!({"record": {"cpus": 2}, "rows": []}),
        json!({"record": {"cpus": 0}, "kubernetes": "v1", "figures": []}),
        json!({"record": {"cpus": 2}, "kubernetes": "v1", "figures": 3}),
        json!({"record": {"cpus": 2}, "kubernetes": "v1", "figures": [{"name": 1}]}),
        json!({"kubernetes": "v1", "figures": []}),
        json!({"record": {"cpus": 2}, "idle": {}, "rows": [{"runtime": "a"}]}),
    ] {
        assert_eq!(File::of(&value, "x"), None, "{value}");
    }
    // An excluded runtime has no figures.
    let mut out = measured(1.0);
    out["failures"] = json!([{"runtime": "a", "reason": "broken"}]);
    assert_eq!(File::of(&out, "x").map(|file| file.found.len()), Some(0));
}

#[test]
fn huge_numbers_end_soon() {
    let many = [&GIVEN[..], &["--memory=1g", "--nodes=100000", "--pods-per-node=1000000"]].concat();
    assert!(refused(&many, Vec::new()).contains("at most 1000000 pods can be simulated"));
    let cores: Vec<String> = (1..=100).map(|cores| cores.to_string()).collect();
    let cores = format!("--cores={}", cores.join(","));
    let many = [&GIVEN[..], &["--memory=1g", "--pods=1000000", &cores]].concat();
    assert!(refused(&many, Vec::new()).contains("pods in all simulations"));
    let huge = ["--start-cpu-ms=1e9", "--lock-ms=1e9", "--memory-kib=1e9", "--probe-cpu-ms=1e9"];
    let sizes = ["--memory=16777215t", "--nodes=100000", "--cores=100000", "--pods=4000"];
    let began = Instant::now();
    let line = [&huge[..], &sizes, &["--relist=1us", "--kubelet-qps=1e-6"]].concat();
    let results = simulate(&options(&line), Vec::new()).expect("large, but finite");
    let row = results.clusters.last().expect("a row");
    assert_eq!(row.burst.ready + row.burst.pending, 4000);
    assert!(row.burst.last_s.is_none_or(f64::is_finite), "{row:?}");
    let tiny = ["--start-cpu-ms=1e-6", "--lock-ms=0", "--memory-kib=0", "--probe-cpu-ms=0"];
    let line = [&tiny[..], &["--memory=1", "--pods=4000", "--kubelet-calls=0", "--max-pods=4000"]];
    let results = simulate(&options(&line.concat()), Vec::new()).expect("small, but finite");
    assert!(results.nodes.iter().all(|row| row.burst.ready == 4000));
    assert!(began.elapsed().as_secs() < 60);
}
