//! Interleaved rounds: in each round, every entrant performs the same operation, in turns.

pub use crate::arguments::Rounds;

use crate::accounting;
use crate::arguments::Timing;
use crate::base::*;
use crate::container::Container;
use crate::process::Sample;
use crate::stand::{Entrant, Stand};
use crate::trace::outside::Observed;
use crate::weight::Way;

/// A timed operation on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// `run` in the foreground until the container is gone
    Run,
    /// `run` in the foreground until the first output of its program
    Begin,
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
    pub fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run"],
            Self::Begin => &["begin", "begin+run"],
            Self::Lifecycle => &["create", "start", "exit", "delete", "create+start+exit+delete"],
            Self::Kill => &["kill"],
            Self::Exec => &["exec"],
        }
    }

    /// Returns the runtime's commands of one repetition, in order.
    pub fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Run | Self::Begin => &["run"],
            Self::Lifecycle => &["create", "start", "delete"],
            Self::Kill => &["kill"],
            Self::Exec => &["exec"],
        }
    }
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
    pub fn wall_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect()
    }

    /// Returns the series of this runtime with the same step and pause.
    pub fn peer<'a>(&self, all: &'a [Self], runtime: &str) -> Option<&'a Self> {
        let mut same = all.iter().filter(|of| (&of.step, of.pause) == (&self.step, self.pause));
        same.find(|of| of.runtime == runtime)
    }

    /// Returns back-to-back samples that all took this time.
    #[cfg(test)]
    pub(crate) fn uniform(step: &str, runtime: &str, us: u64) -> Self {
        let sample = Sample { wall: Duration::from_micros(us), ..Sample::default() };
        let (step, runtime) = (step.to_owned(), runtime.to_owned());
        Self { step, pause: Duration::ZERO, runtime, samples: vec![sample; 6], is_split: false }
    }
}

/// Runs the rounds of each operation at each pause, each entrant once per round.
///
/// # Errors
/// Those of [`race`].
pub fn races(
    stand: &Stand,
    entrants: &[Entrant],
    operations: &[Operation],
    timing: &Timing,
) -> Result<Vec<Series>, Error> {
    let mut series = Vec::new();
    for &operation in operations {
        for rounds in timing.by_pause() {
            series.extend(race(stand, entrants, operation, rounds, || Ok(()))?);
        }
    }
    Ok(series)
}

/// Runs the rounds of `operation`, each entrant once per round, rotating the order by one from round to round. An
/// entrant that fails is excluded from then on, and keeps its samples so far. Calls `between` after each repetition of
/// the operation, outside the measured time and before the next pause.
///
/// # Errors
/// Errors of the harness itself; those of `between`; an interrupt.
pub fn race(
    stand: &Stand,
    entrants: &[Entrant],
    operation: Operation,
    rounds: Rounds,
    mut between: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<Series>, Error> {
    let title = format!("{}, pause {:?}", operation.steps()[0], rounds.pause);
    let sleepers = sleepers(stand, entrants, operation)?;
    let samples = in_turns(entrants, rounds, &title, |at| {
        let done = go(stand, &entrants[at], operation, sleepers[at].as_ref(), Way::Timed);
        between()?;
        Ok(done?.samples)
    })?;
    Ok(series_by_step(entrants, operation.steps(), rounds.pause, &samples))
}

/// Waits for `time`, and calls `watch` ten times per second.
///
/// # Errors
/// An interrupt.
pub(crate) fn pause(time: Duration, watch: &mut dyn FnMut()) -> Result<(), Error> {
    let due = Instant::now() + time;
    while let Some(left) = due.checked_duration_since(Instant::now()) {
        interrupt::check()?;
        watch();
        sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

/// Calls `go` with the index of each entrant once per round, after the pause, rotating the order by one from round to
/// round. An entrant that fails is excluded from then on. Returns the results of the timed rounds, by entrant.
///
/// # Errors
/// Those of `go` that are not the failure of a runtime; an interrupt.
pub fn in_turns<T>(
    entrants: &[Entrant],
    rounds: Rounds,
    title: &str,
    mut go: impl FnMut(usize) -> Result<T, Error>,
) -> Result<Vec<Vec<T>>, Error> {
    let mut progress = Progress::new();
    let all = rounds.warm_up + rounds.timed;
    let mut given: Vec<Vec<T>> = entrants.iter().map(|_| Vec::new()).collect();
    for round in 0..all {
        progress.tell(title, round, all);
        for place in 0..entrants.len() {
            let at = (round + place) % entrants.len();
            if entrants[at].is_out() {
                continue;
            }
            interrupt::check()?;
            sleep(rounds.pause);
            let one = entrants[at].attempt(go(at))?;
            given[at].extend(one.filter(|_| round >= rounds.warm_up));
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
    entrants: &[Entrant],
    rounds: Rounds,
    title: &str,
    steps: &[&str],
    mut change: impl FnMut(usize, usize, &mut Value),
) -> Result<Vec<Series>, Error> {
    let goes = in_turns(entrants, rounds, title, |at| {
        let mut samples: Vec<Sample> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            interrupt::check()?;
            // Before the first step, the round's own pause applies.
            if number > 0 {
                sleep(rounds.pause);
            }
            let change = |config: &mut Value| change(at, number, config);
            let container = Container::changed(stand, &entrants[at], &[], change)?;
            samples.push(container.run().map_err(|error| error.during(step))?);
        }
        Ok(samples)
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
    let finished = entrants.iter().zip(goes).filter(|(entrant, _)| !entrant.is_out());
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

/// Starts the containers in which commands are executed, one for each entrant, if the operation is `exec`.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(crate) fn sleepers<'a>(
    stand: &'a Stand,
    entrants: &'a [Entrant],
    operation: Operation,
) -> Result<Vec<Option<Container<'a>>>, Error> {
    let needs = |entrant: &Entrant| operation == Operation::Exec && !entrant.is_out();
    let sleeper = |entrant: &'a Entrant| match needs(entrant) {
        true => entrant.attempt(asleep(stand, entrant)),
        false => Ok(None),
    };
    entrants.iter().map(sleeper).collect()
}

/// Starts a container that sleeps.
///
/// # Errors
/// Errors of the harness itself; the runtime's.
pub(crate) fn asleep<'a>(stand: &'a Stand, entrant: &'a Entrant) -> Result<Container<'a>, Error> {
    let container = Container::new(stand, entrant, &["/bin/sleep", "100000"])?;
    container.create()?;
    container.start()?;
    Ok(container)
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
/// Errors of the harness itself; the runtime's.
pub(crate) fn go(
    stand: &Stand,
    entrant: &Entrant,
    operation: Operation,
    sleeper: Option<&Container<'_>>,
    way: Way,
) -> Result<Go, Error> {
    Ok(match operation {
        Operation::Run => by(way, &Container::new(stand, entrant, &[])?, |it| Ok(vec![it.run()?]))?,
        Operation::Begin => {
            by(way, &Container::new(stand, entrant, &["/bin/echo", "begun"])?, |it| it.begin())?
        }
        Operation::Lifecycle => by(way, &Container::new(stand, entrant, &[])?, lifecycle)?,
        Operation::Kill => {
            let container = asleep(stand, entrant)?;
            let go = by(way, &container, |it| Ok(vec![it.kill()?]))?;
            container.exit()?;
            container.delete()?;
            go
        }
        Operation::Exec => match sleeper {
            Some(sleeper) => by(way, sleeper, |it| Ok(vec![it.exec("/bin/true")?]))?,
            None => Go::default(),
        },
    })
}

/// Calls `commands`, while the container's commands are executed in the given way.
fn by(
    way: Way,
    container: &Container<'_>,
    commands: impl FnOnce(&Container<'_>) -> Result<Vec<Sample>, Error>,
) -> Result<Go, Error> {
    container.execute_by(way);
    let samples = commands(container);
    container.execute_by(Way::Timed);
    Ok(Go { samples: samples?, observed: container.take_observed() })
}

/// Runs the commands in the order of an engine, and waits for the end of the program before `delete`.
fn lifecycle(container: &Container<'_>) -> Result<Vec<Sample>, Error> {
    let steps = [container.create()?, container.start()?, container.exit()?, container.delete()?];
    let sum = steps.into_iter().fold(Sample::default(), |sum, step| sum + step);
    Ok(steps.into_iter().chain([sum]).collect())
}
