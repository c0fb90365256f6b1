//! `start`: times the commands of a container's life cycle, for each runtime.

use crate::Error;
use crate::config::{HOOK, Profile};
use crate::options::Start;
use crate::process;
use crate::race::{Operation, Rounds, Series, asleep, go, race};
use crate::results::{self, compare};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::weight::{Way, Weight};
use measure::progress::Progress;
use measure::statistics::median;
use report::interrupt;
use serde::Serialize;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The number of times that a step is traced. A small number suffices, because counts vary little
/// or not at all.
const WEIGHINGS: usize = 3;

/// The deadline of the hook's program when it runs alone.
const HOOK_DEADLINE: Duration = Duration::from_secs(10);

/// Runs the experiment: measures each operation with each pause of `--pause`.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Start,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut series = Vec::new();
    for &operation in &options.operation {
        for rounds in options.timing.by_pause() {
            let raced = race(stand, entrants, operation, rounds)?;
            if options.common.bundle.is_none() && options.common.profile == Profile::Hooks {
                series.extend(without_hook(&raced, rounds));
            }
            series.extend(raced);
        }
    }
    let weights = weigh(options, stand, entrants)?;
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let text = [
        results::times(&rows, first),
        results::resources(&rows),
        results::weights(&weights),
        results::verdicts(&rows, first),
    ];
    Ok(Outcome {
        text: text.join("\n"),
        json: vec![("rows", results::value(&rows)?), ("weights", results::value(&weights)?)],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// The weight (system calls, instructions, peak memory) of one step by one entrant.
#[derive(Debug, Clone, Serialize)]
pub struct Weighed {
    /// The step.
    pub step: &'static str,
    /// The entrant's name.
    pub runtime: String,
    /// The weight of the step; `None` if the runtime can't be traced.
    pub weight: Option<Weight>,
}

/// Traces every entrant through every operation, after the timed rounds.
fn weigh(options: &Start, stand: &Stand, entrants: &[Entrant]) -> Result<Vec<Weighed>, Error> {
    let mut weighed = Vec::new();
    let mut progress = Progress::new();
    for (done, &operation) in options.operation.iter().enumerate() {
        progress.tell("operations followed", done, options.operation.len());
        let fit: Vec<&Entrant> =
            entrants.iter().filter(|entrant| entrant.failure.is_none()).collect();
        let mut weights: Vec<Vec<Vec<Weight>>> = Vec::new();
        for entrant in &fit {
            weights.push(weights_of(options, stand, entrant, operation)?);
        }
        for (at, step) in operation.steps().iter().enumerate().filter(|(_, step)| **step != "exit")
        {
            weighed.extend(fit.iter().zip(&weights).map(|(entrant, weights)| Weighed {
                step,
                runtime: entrant.name.clone(),
                weight: Weight::middle(
                    &weights.iter().filter_map(|go| go.get(at).copied()).collect::<Vec<_>>(),
                ),
            }));
        }
    }
    Ok(weighed)
}

/// Traces several repetitions of an operation, and returns the weights of each step, one per repetition; empty if the
/// runtime can't be traced.
fn weights_of(
    options: &Start,
    stand: &Stand,
    entrant: &Entrant,
    operation: Operation,
) -> Result<Vec<Vec<Weight>>, Error> {
    let mut goes = Vec::new();
    let sleeper = match operation {
        Operation::Exec => Some(asleep(stand, entrant)?.0),
        _ => None,
    };
    let follow = |way| {
        interrupt::check()?;
        go(stand, entrant, operation, sleeper.as_ref(), way)
    };
    for _ in 0..WEIGHINGS {
        let Ok(calls) = follow(Way::Calls)? else { return Ok(Vec::new()) };
        goes.push(calls.samples.iter().map(|sample| sample.weight).collect::<Vec<_>>());
    }
    // Instructions are counted once: this takes long, and most programs' counts hardly vary.
    if let Some(bound) = options.instructions
        && let Ok(counted) = follow(Way::Instructions(bound))?
    {
        for (at, sample) in counted.samples.iter().enumerate() {
            for weight in goes.iter_mut().filter_map(|go| go.get_mut(at)) {
                weight.instructions = sample.weight.instructions;
            }
        }
    }
    Ok(goes)
}

/// Returns the series of the steps that run the hook, with the time of the hook's process subtracted, so that the
/// runtime's own time remains. The hook's process is timed separately, because it can't be timed within the runtime.
fn without_hook(raced: &[Series], rounds: Rounds) -> Vec<Series> {
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..rounds.timed {
        sleep(rounds.pause);
        let mut hook = Command::new(HOOK);
        hook.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        times.extend(process::run(&mut hook, HOOK_DEADLINE).map(|hook| hook.wall.as_secs_f64()));
    }
    let hook = Duration::try_from_secs_f64(median(&mut times)).unwrap_or_default();
    let hooked = raced.iter().filter(|of| ["run", "create"].contains(&of.step.as_str()));
    hooked
        .map(|of| {
            let mut without = of.clone();
            without.step =
                format!("{} less {:.3} ms for the hook", of.step, hook.as_secs_f64() * 1e3);
            for sample in &mut without.samples {
                sample.wall = sample.wall.saturating_sub(hook);
            }
            without
        })
        .collect()
}
