//! Interleaved rounds: in each round, every entrant performs the same operation, in turns.

use crate::Error;
use crate::accounting;
use crate::container::{Container, Fault};
use crate::process::Sample;
use crate::stand::{Entrant, Stand};
use crate::trace::outside::Observed;
use crate::weight::Way;
use clap::ValueEnum;
use measure::progress::Progress;
use report::interrupt;
use serde_json::Value;
use std::thread::sleep;
use std::time::Duration;

/// A timed operation on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// `run` in the foreground until the container is gone
    Run,
    /// `create`, `start`, the program's end and `delete`, separately and in sum
    #[value(aliases = ["create", "delete"])]
    Lifecycle,
    /// `kill` of a running program
    Kill,
    /// `exec` of a trivial command in a running container
    Exec,
}

impl Operation {
    /// Returns the names of the samples of one repetition of the operation.
    #[must_use]
    pub fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run"],
            Self::Lifecycle => &["create", "start", "exit", "delete", "create+start+exit+delete"],
            Self::Kill => &["kill"],
            Self::Exec => &["exec"],
        }
    }

    /// Returns the runtime's commands of one repetition, in order.
    #[must_use]
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run"],
            Self::Lifecycle => &["create", "start", "delete"],
            Self::Kill => &["kill"],
            Self::Exec => &["exec"],
        }
    }
}

/// The number of repetitions of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// The number of repetitions before the measured ones, which fill the kernel's and the runtimes' caches.
    pub warm_up: usize,
    /// The number of measured repetitions.
    pub timed: usize,
    /// The pause before each repetition.
    pub pause: Duration,
}

/// The samples of one step by one entrant, in the order of rounds.
#[derive(Debug, Clone)]
pub struct Series {
    /// The timed step.
    pub step: String,
    /// The pause before each repetition.
    pub pause: Duration,
    /// The entrant's name.
    pub runtime: String,
    /// One sample per round.
    pub samples: Vec<Sample>,
    /// Whether the samples' user time and system time are exact. If not, only their sum is.
    pub is_split: bool,
}

impl Series {
    /// Returns the time of each round, in microseconds.
    #[must_use]
    pub fn wall_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect()
    }
}

/// Runs the rounds of `operation`, each entrant once per round, rotating the order by one from round to round. An
/// entrant that fails is excluded from then on, and keeps its samples so far.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn race(
    stand: &Stand,
    entrants: &mut [Entrant],
    operation: Operation,
    rounds: Rounds,
) -> Result<Vec<Series>, Error> {
    race_between(stand, entrants, operation, rounds, || Ok(()))
}

/// Runs the rounds like [`race`], but calls `between` after each repetition of the operation, outside the measured time
/// and before the next pause.
///
/// # Errors
/// As [`race`], and those of `between`.
pub fn race_between(
    stand: &Stand,
    entrants: &mut [Entrant],
    operation: Operation,
    rounds: Rounds,
    mut between: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<Series>, Error> {
    let title = format!("{}, pause {:?}", operation.steps()[0], rounds.pause);
    let racers = entrants.to_vec();
    let mut sleepers = Vec::new();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        sleepers.push(sleeper(stand, racer, entrant, operation)?);
    }
    let samples = in_turns(entrants, rounds, &title, |at| {
        let done = go(stand, &racers[at], operation, sleepers[at].as_ref(), Way::Timed)?;
        between()?;
        Ok(done.map(|go| go.samples).map_err(|fault| fault.to_string()))
    })?;
    drop(sleepers);
    Ok(series_by_step(entrants, operation.steps(), rounds.pause, &samples))
}

/// Calls `go` with each entrant's index once per round, rotating the order by one from round to round. Returns the
/// results of the measured rounds. An entrant that fails is excluded from then on, and keeps its results so far.
///
/// # Errors
/// Those of `go`; an interrupt.
pub fn in_turns<T>(
    entrants: &mut [Entrant],
    rounds: Rounds,
    title: &str,
    mut go: impl FnMut(usize) -> Result<Result<T, String>, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    let mut progress = Progress::new();
    let all = rounds.warm_up + rounds.timed;
    let mut given: Vec<Vec<T>> = entrants.iter().map(|_| Vec::new()).collect();
    for round in 0..all {
        progress.tell(title, round, all);
        for place in 0..entrants.len() {
            let at = (round + place) % entrants.len();
            if entrants[at].failure.is_some() {
                continue;
            }
            interrupt::check()?;
            sleep(rounds.pause);
            match go(at)? {
                Ok(one) if round >= rounds.warm_up => given[at].push(one),
                Ok(_) => {}
                Err(reason) => {
                    interrupt::check()?;
                    entrants[at].failure = Some(reason);
                }
            }
        }
    }
    Ok(given)
}

/// Times the run of a container in several variants (steps): in each round, every entrant runs all variants, with the
/// pause before each run. `change` modifies the configuration for an entrant and a step, by their indices.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn race_in_steps(
    stand: &Stand,
    entrants: &mut [Entrant],
    rounds: Rounds,
    title: &str,
    steps: &[&str],
    change: impl Fn(usize, usize, &mut Value),
) -> Result<Vec<Series>, Error> {
    let racers = entrants.to_vec();
    let goes = in_turns(entrants, rounds, title, |at| {
        let mut samples: Vec<Sample> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            interrupt::check()?;
            // Before the first step, the round's own pause applies.
            if number > 0 {
                sleep(rounds.pause);
            }
            let change = |config: &mut Value| change(at, number, config);
            let container = Container::changed(stand, &racers[at], &[], change)?;
            match container.run() {
                Ok(sample) => samples.push(sample),
                Err(fault) => return Ok(Err(format!("{step}: {fault}"))),
            }
        }
        Ok(Ok(samples))
    })?;
    Ok(series_by_step(entrants, steps, rounds.pause, &goes))
}

/// Converts the samples of repetitions into series: one for each step and each entrant that has not failed.
pub fn series_by_step<G: AsRef<[Sample]>>(
    entrants: &[Entrant],
    steps: &[&str],
    pause: Duration,
    goes: &[Vec<G>],
) -> Vec<Series> {
    let finished = entrants.iter().zip(goes).filter(|(entrant, _)| entrant.failure.is_none());
    let of_step = |(at, step): (usize, &&str)| {
        let one = |(entrant, goes): (&Entrant, &Vec<G>)| Series {
            step: (*step).to_owned(),
            pause,
            runtime: entrant.name.clone(),
            samples: goes.iter().filter_map(|go| go.as_ref().get(at).copied()).collect(),
            is_split: accounting::is_split(),
        };
        finished.clone().map(one).collect::<Vec<_>>()
    };
    steps.iter().enumerate().flat_map(of_step).collect()
}

/// Starts the container in which commands are executed, if the operation is `exec`.
pub(crate) fn sleeper<'a>(
    stand: &'a Stand,
    racer: &'a Entrant,
    entrant: &mut Entrant,
    operation: Operation,
) -> Result<Option<Container<'a>>, Error> {
    if operation != Operation::Exec || entrant.failure.is_some() {
        return Ok(None);
    }
    let container = asleep(stand, racer)?;
    entrant.failure = container.1.err().map(|fault| fault.to_string());
    Ok(entrant.failure.is_none().then_some(container.0))
}

/// Starts a container that sleeps; the inner error is the reason of a failure.
///
/// # Errors
/// Errors of the harness itself.
pub(crate) fn asleep<'a>(
    stand: &'a Stand,
    entrant: &'a Entrant,
) -> Result<(Container<'a>, Result<(), Fault>), Error> {
    let container = Container::new(stand, entrant, &["/bin/sleep", "100000"])?;
    let result = container.create().and_then(|_| container.start()).map(drop);
    Ok((container, result))
}

/// The results of one repetition of an operation.
#[derive(Debug, Default)]
pub(crate) struct Go {
    /// A sample for each step.
    pub(crate) samples: Vec<Sample>,
    /// A time line for each command, if requested.
    pub(crate) observed: Vec<Observed>,
}

/// Performs an operation once.
///
/// # Errors
/// Errors of the harness itself; the inner error is the runtime's.
pub(crate) fn go(
    stand: &Stand,
    entrant: &Entrant,
    operation: Operation,
    sleeper: Option<&Container<'_>>,
    way: Way,
) -> Result<Result<Go, Fault>, Error> {
    if operation == Operation::Exec {
        let exec =
            |container| by(way, container, |it: &Container<'_>| Ok(vec![it.exec("/bin/true")?]));
        return Ok(sleeper.map_or_else(|| Ok(Go::default()), exec));
    }
    if operation == Operation::Kill {
        let (container, result) = asleep(stand, entrant)?;
        return Ok(result.and_then(|()| {
            let go = by(way, &container, |it| Ok(vec![it.kill()?]))?;
            container.exit()?;
            container.delete()?;
            Ok(go)
        }));
    }
    let container = Container::new(stand, entrant, &[])?;
    Ok(by(way, &container, |it| match operation {
        Operation::Lifecycle => lifecycle(it),
        _ => it.run().map(|sample| vec![sample]),
    }))
}

/// Calls `commands`, while the container's commands are executed in the given way.
fn by(
    way: Way,
    container: &Container<'_>,
    commands: impl FnOnce(&Container<'_>) -> Result<Vec<Sample>, Fault>,
) -> Result<Go, Fault> {
    container.execute_by(way);
    let samples = commands(container);
    container.execute_by(Way::Timed);
    Ok(Go { samples: samples?, observed: container.take_observed() })
}

/// Runs the commands in the order of an engine, and waits for the end of the program before `delete`.
fn lifecycle(container: &Container<'_>) -> Result<Vec<Sample>, Fault> {
    let steps = [container.create()?, container.start()?, container.exit()?, container.delete()?];
    let sum = steps.into_iter().fold(Sample::default(), |sum, step| sum + step);
    Ok(steps.into_iter().chain([sum]).collect())
}
