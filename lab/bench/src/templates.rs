//! `templates`: compares containers whose program a template forks with cold, restored and warm containers.
//!
//! | part | what |
//! |---|---|
//! | `function` | a container whose program answers requests |
//! | `provider` | provides containers in one way |
//! | `burst` | several requests in flight |
//! | `fork` | what the mechanism itself costs |
//! | `tell` | tables, CSV and pictures |
//!
//! - The restored program reports by a file instead of a pipe, at most 1 ms after it goes on.
//! - A forked program shares most pages with its template. So its proportional set size depends on the number of
//!   containers, and is printed beside its private memory. Each way is measured while the other ways have no process.
//!   Other programs of the host may share pages of the same libraries.
//! - A burst does not replace used warm containers. A platform that gives each request a container of its own has to;
//!   `faas --policy warm` includes this.

mod burst;
mod fork;
mod function;
mod provider;
mod tell;

use crate::Error;
use crate::held::Held;
use crate::options::{Provision, Question, Templates, Warmed};
use crate::python::{IMPORTS, Python};
use crate::race::{Rounds, in_turns};
use crate::restore::{self, Program};
use crate::results;
use crate::runtime::Runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use burst::Burst;
use fork::Fork;
use measure::bootstrap::{self, Estimate, Pairing};
use measure::statistics::{Summary, median};
use provider::Provider;
use serde::Serialize;
use std::time::Duration;

/// The number of measurements of memory, which varies little.
const MEASUREMENTS: usize = 3;

/// The programs of containers.
pub(crate) struct Programs {
    function: Python,
    touching: Python,
    /// The program that is saved. It reports by a file, because criu cannot restore pipes to this process.
    saved: Program,
}

/// The memory of one measurement.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// The memory that is in use while there is no request.
    idle: Held,
    /// The memory of the processes of a running container.
    running: Held,
    /// The time in which the template was made, if any.
    made_ms: Option<f64>,
}

/// The memory of one way, as medians in KiB.
#[derive(Debug, Serialize)]
struct MemoryRow {
    way: String,
    /// The proportional set size while there is no request.
    idle_pss_kib: Option<f64>,
    idle_private_kib: Option<f64>,
    /// The proportional set size of a running container.
    running_pss_kib: Option<f64>,
    /// The part of it that only this container uses and has changed.
    running_private_kib: Option<f64>,
    /// The time in which the template was made, with its warm-up.
    made_ms: Option<f64>,
    reason: Option<String>,
}

/// The answers of one way.
#[derive(Debug, Serialize)]
struct AnswerRow {
    way: String,
    latencies_us: Vec<f64>,
    summary: Option<Summary>,
    median_us: Option<Estimate>,
    p99_us: Option<Estimate>,
    /// The first way's median ÷ this way's.
    ratio: Option<Estimate>,
    /// The reason why there are no results, or no more of them.
    reason: Option<String>,
}

/// The bursts of one way.
#[derive(Debug, Serialize)]
struct BurstRow {
    /// The answers per second of each burst.
    rates: Vec<f64>,
    rate: Option<Estimate>,
    /// The first way's median rate ÷ this way's.
    rate_ratio: Option<Estimate>,
    #[serde(flatten)]
    answers: AnswerRow,
}

/// The results.
#[derive(Debug, Default)]
struct Results {
    answers: Vec<AnswerRow>,
    memory: Vec<MemoryRow>,
    bursts: Vec<BurstRow>,
    forks: Vec<Fork>,
}

/// Returns an entrant for each way, with the reason if a way is not possible on this host.
///
/// # Errors
/// The runtime is not dayfly.
pub fn entrants(runtime: &Runtime, options: &Templates) -> Result<Vec<Entrant>, Error> {
    if !runtime.is_dayfly() {
        let reason = format!("{} has no templates: only dayfly has", runtime.name);
        return Err(Error::Unfit(reason));
    }
    let entrant = |way: &Provision| {
        let mut of = [Entrant { name: way.name().to_owned(), ..Entrant::new(runtime.clone()) }];
        if *way == Provision::Restored
            && let Err(error) = restore::find_criu(options.criu.as_deref(), &mut of)
        {
            of[0].failure = Some(error.to_string());
        }
        let [of] = of;
        of
    };
    Ok(options.ways.iter().map(entrant).collect())
}

/// Runs the experiment.
///
/// # Errors
/// No Python; errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Templates,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let programs = Programs::prepare(stand)?;
    let racers = entrants.to_vec();
    let mut results = Results::default();
    let asks = |question| options.figure.contains(&question);
    let mut providers: Vec<Provider<'_>> = options
        .ways
        .iter()
        .zip(&racers)
        .map(|(way, racer)| Provider::new(*way, stand, racer, &programs))
        .collect();
    if asks(Question::Memory) {
        let rounds = Rounds { warm_up: 0, timed: MEASUREMENTS, pause: Duration::ZERO };
        let measured = in_turns(entrants, rounds, "templates, memory", |at| {
            Ok(providers[at].measure()?.map_err(|fault| fault.to_string()))
        })?;
        let rows = entrants.iter().zip(&measured);
        results.memory = rows.map(|(entrant, all)| MemoryRow::of(entrant, all)).collect();
    }
    let at_a_time = if asks(Question::Burst) { options.width } else { 1 };
    if asks(Question::Answer) || asks(Question::Burst) {
        let rounds = Rounds { warm_up: 0, timed: 1, pause: Duration::ZERO };
        in_turns(entrants, rounds, "templates, containers made in advance", |at| {
            Ok(providers[at].prepare(at_a_time)?.map_err(|fault| fault.to_string()))
        })?;
    }
    if asks(Question::Answer) {
        let (warm_up, timed) = (options.warm_up, options.rounds);
        let rounds = Rounds { warm_up, timed, pause: Duration::ZERO };
        let answers = in_turns(entrants, rounds, "templates, answers", |at| {
            Ok(providers[at].answer()?.map_err(|fault| fault.to_string()))
        })?;
        let rows = entrants.iter().zip(answers).map(|(entrant, times)| {
            let us = times.into_iter().map(|time| time.as_secs_f64() * 1e6).collect();
            AnswerRow::of(entrant, us)
        });
        results.answers = rows.collect();
        compare(results.answers.iter_mut(), Pairing::Paired);
    }
    if asks(Question::Burst) {
        let count = options.count.unwrap_or(options.width);
        let rounds = Rounds { warm_up: 0, timed: options.bursts, pause: Duration::ZERO };
        let bursts = in_turns(entrants, rounds, "templates, bursts", |at| {
            let burst = burst::burst(&mut providers[at], options.width, count)?;
            Ok(burst.map_err(|fault| fault.to_string()))
        })?;
        let rows = entrants.iter().zip(&bursts);
        results.bursts = rows.map(|(entrant, all)| BurstRow::of(entrant, all)).collect();
        compare(results.bursts.iter_mut().map(|row| &mut row.answers), Pairing::Independent);
        compare_rates(&mut results.bursts);
    }
    drop(providers);
    if asks(Question::Fork)
        && let Some(racer) = racers.first()
    {
        results.forks = fork::measure(options, stand, racer, &programs)?;
    }
    Ok(Outcome {
        text: tell::text(&results, options),
        json: vec![
            ("answers", results::value(&results.answers)?),
            ("memory", results::value(&results.memory)?),
            ("bursts", results::value(&results.bursts)?),
            ("forks", results::value(&results.forks)?),
        ],
        csv: tell::csv(&results),
        pictures: tell::pictures(&results),
        ..Outcome::default()
    })
}

impl Programs {
    fn prepare(stand: &Stand) -> Result<Self, Error> {
        let function = format!("{IMPORTS}{}", function::PROGRAM);
        Ok(Self {
            function: Python::prepare(stand.new_directory(), &function)?,
            touching: Python::prepare(stand.new_directory(), fork::PROGRAM)?,
            saved: Program::prepare(Warmed::Python, stand.directory())?.map_err(Error::Unfit)?,
        })
    }
}

impl MemoryRow {
    fn of(entrant: &Entrant, all: &[Memory]) -> Self {
        let middle = |figure: &dyn Fn(&Memory) -> f64| {
            let mut figures: Vec<f64> = all.iter().map(figure).collect();
            (!figures.is_empty()).then(|| median(&mut figures))
        };
        let mut made: Vec<f64> = all.iter().filter_map(|memory| memory.made_ms).collect();
        Self {
            way: entrant.name.clone(),
            idle_pss_kib: middle(&|memory| memory.idle.pss_kib),
            idle_private_kib: middle(&|memory| memory.idle.private_kib),
            running_pss_kib: middle(&|memory| memory.running.pss_kib),
            running_private_kib: middle(&|memory| memory.running.private_kib),
            made_ms: (!made.is_empty()).then(|| median(&mut made)),
            reason: entrant.failure.clone(),
        }
    }
}

impl AnswerRow {
    fn of(entrant: &Entrant, latencies_us: Vec<f64>) -> Self {
        Self {
            way: entrant.name.clone(),
            summary: Summary::of(&latencies_us),
            median_us: bootstrap::middle(&latencies_us),
            p99_us: bootstrap::p99(&latencies_us),
            ratio: None,
            reason: entrant.failure.clone(),
            latencies_us,
        }
    }
}

impl BurstRow {
    fn of(entrant: &Entrant, all: &[Burst]) -> Self {
        let latencies_us = all.iter().flat_map(|burst| burst.latencies_us.iter().copied());
        let rates: Vec<f64> = all.iter().map(|burst| burst.rate).collect();
        Self {
            rate: bootstrap::middle(&rates),
            rate_ratio: None,
            rates,
            answers: AnswerRow::of(entrant, latencies_us.collect()),
        }
    }
}

/// Compares the answers with those of the first way.
fn compare<'a>(mut rows: impl Iterator<Item = &'a mut AnswerRow>, pairing: Pairing) {
    let Some(first) = rows.next() else { return };
    for row in rows {
        row.ratio = bootstrap::ratio(&first.latencies_us, &row.latencies_us, pairing);
    }
}

fn compare_rates(rows: &mut [BurstRow]) {
    let Some((first, rest)) = rows.split_first_mut() else { return };
    for row in rest {
        row.rate_ratio = bootstrap::ratio(&first.rates, &row.rates, Pairing::Paired);
    }
}
