//! Runs drawn configurations with dayfly and with its peers, and compares what their programs see: `scripts/differ`.
//!
//! ```text
//! differ [--seeds FROM..TO] [--jobs N] [--results DIR] [--known FILE] [--shrink N] [--only TEXT] [--rootless] [--again] [--show] [--pairs]
//! differ --check-oracle [--faults FILE]
//! ```
//!
//! The variables `DAYFLY`, `DAYFLY_RUNC` and `DAYFLY_CRUN` name the runtimes. Exits with status 1 if a difference is not
//! explained by the table of known ones.

mod faults;
mod options;
mod pairs;
mod pool;
mod results;
mod worker;

use dayfly_tests::differ::compare::{is_met, known};
use dayfly_tests::differ::view::View;
use options::Options;
use pool::Stop;
use results::Results;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let options = match options::read() {
        Ok(options) => options,
        Err(reason) => {
            eprintln!("differ: {reason}");
            return ExitCode::from(2);
        }
    };
    if options.worker {
        return match worker::work(&options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("differ: worker: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if options.pairs {
        pairs::print(options.seeds.clone(), View::current());
        return ExitCode::SUCCESS;
    }
    let stop = match Stop::new() {
        Ok(stop) => stop,
        Err(error) => {
            eprintln!("differ: signalfd: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = if options.check { faults::check(&options, &stop) } else { differ(&options, &stop) };
    if let Some(signal) = stop.signal() {
        eprintln!("differ: stopped by signal {signal}");
        return ExitCode::from(u8::try_from(128 + signal).unwrap_or(1));
    }
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differ: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A kind of difference, with the seeds that have it.
#[derive(Default)]
struct Kind {
    seeds: Vec<u64>,
    example: String,
}

fn differ(options: &Options, stop: &Stop) -> std::io::Result<bool> {
    let view = View::current();
    let begun = Instant::now();
    let rows = known(&std::fs::read_to_string(&options.known)?).map_err(std::io::Error::other)?;
    let mut results = Results::open(options, view, &rows)?;
    let seeds: Vec<u64> = options
        .seeds
        .clone()
        .filter(|seed| options.again || options.show || !results.has(*seed))
        .filter(|seed| {
            options.only == "*" || is_met(&options.only, &options.case(*seed, view).to_string())
        })
        .collect();
    let earlier = options.seeds.clone().filter(|seed| results.has(*seed)).count();
    let mut count = 0usize;
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    let (mut explained, mut started) = (BTreeMap::<String, usize>::new(), 0usize);
    let requests: Vec<Value> = seeds.iter().map(|seed| json!({ "seed": seed })).collect();
    pool::run(options, stop, requests, |answer| {
        if options.show {
            println!("{}", serde_json::to_string_pretty(&answer).unwrap_or_default());
        }
        let seed = answer["seed"].as_u64().unwrap_or(0);
        count += 1;
        started += usize::from(answer["started"] == true);
        for id in answer["known"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            *explained.entry(id.to_owned()).or_default() += 1;
        }
        // Where a start or an exec failed once, everything differs.
        let unsteady = answer["unsteady"].as_array().map_or(&[][..], Vec::as_slice);
        for text in unsteady.iter().take(3) {
            println!(
                "unsteady, seed {seed}, {} facts: {}",
                unsteady.len(),
                text.as_str().unwrap_or_default()
            );
        }
        for one in answer["differences"].as_array().into_iter().flatten() {
            let kind =
                kinds.entry(one["kind"].as_str().unwrap_or_default().to_owned()).or_default();
            if kind.seeds.last() != Some(&seed) {
                kind.seeds.push(seed);
            }
            if kind.example.is_empty() {
                kind.example = one["text"].as_str().unwrap_or_default().to_owned();
            }
        }
        results.add(seed, &answer)
    })?;
    let mut order: Vec<(&String, &Kind)> = kinds.iter().collect();
    order.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.seeds.len()));
    let requests: Vec<Value> = order
        .iter()
        .take(options.shrink)
        .map(|(name, kind)| json!({ "seed": kind.seeds[0], "shrink": name }))
        .collect();
    let mut small: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    pool::run(options, stop, requests, |answer| {
        small.entry(answer["seed"].as_u64().unwrap_or(0)).or_default().push(answer);
        Ok(())
    })?;
    for (name, kind) in &order {
        let shown: Vec<String> = kind.seeds.iter().take(8).map(ToString::to_string).collect();
        println!("---- {name}: {} seeds: {}", kind.seeds.len(), shown.join(" "));
        println!("     {}", kind.example);
        for answer in small.get(&kind.seeds[0]).into_iter().flatten() {
            if answer["differences"].as_array().is_some_and(|all| !all.is_empty()) {
                results.keep_small(kind.seeds[0], name, answer)?;
                println!("     smallest: {}", answer["case"]);
                println!("     {}", answer["errors"]);
            }
        }
    }
    for (id, times) in &explained {
        println!("known: {id}: {times}");
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "differ, {}{}: {count} configurations in {seconds:.1} s ({:.1} a second), {started} started with both; {earlier} had a result",
        view.name(),
        if options.rootless { " rootless" } else { "" },
        count as f64 / seconds.max(0.001)
    );
    results.end(&options.seeds)
}
