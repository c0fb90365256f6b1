//! `start`: what the commands of a container's life take, runtime by runtime.

use crate::Error;
use crate::config::{HOOK, Profile};
use crate::container::{Container, Fault};
use crate::interrupt;
use crate::options::Start;
use crate::process::{self, Sample};
use crate::progress::Progress;
use crate::report::{self, compare};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::statistics::median;
use clap::ValueEnum;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How long the hook's program may take by itself.
const HOOK_DEADLINE: Duration = Duration::from_secs(10);

/// What is done to a container, and timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Operation {
    /// `run` in the foreground until the container is gone
    Run,
    /// `create`, `start`, the program's end and `delete`, one by one and in sum
    #[value(aliases = ["create", "delete"])]
    Lifecycle,
    /// `kill` of a program that runs
    Kill,
    /// `exec` of a trivial command in a container that runs
    Exec,
}

impl Operation {
    /// What the samples of one go are called.
    #[must_use]
    pub fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["run"],
            Self::Lifecycle => &["create", "start", "exit", "delete", "create+start+exit+delete"],
            Self::Kill => &["kill"],
            Self::Exec => &["exec"],
        }
    }
}

/// How many goes.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Before those that count: caches of the kernel, and those that a runtime keeps.
    pub warm_up: usize,
    /// Those that count.
    pub timed: usize,
    /// How long nothing happens before each go.
    pub pause: Duration,
}

/// The samples of one step by one entrant, in the order of rounds.
#[derive(Debug, Clone)]
pub struct Series {
    /// What was timed.
    pub step: String,
    /// The pause before each go.
    pub pause: Duration,
    /// The entrant's name.
    pub runtime: String,
    /// A sample a round.
    pub samples: Vec<Sample>,
}

impl Series {
    /// The time of each round in microseconds.
    #[must_use]
    pub fn wall_us(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect()
    }
}

/// The experiment: every operation at every pause.
///
/// # Errors
/// Only the harness's own; an interrupt.
pub fn experiment(
    options: &Start,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut series = Vec::new();
    for &operation in &options.operation {
        for &pause in &options.timing.pause {
            let rounds =
                Rounds { warm_up: options.timing.warm_up, timed: options.timing.rounds, pause };
            let raced = race(stand, entrants, operation, rounds)?;
            if options.common.bundle.is_none() && options.common.profile == Profile::Hooks {
                series.extend(without_hook(&raced, rounds));
            }
            series.extend(raced);
        }
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let text =
        [report::times(&rows, first), report::resources(&rows), report::verdicts(&rows, first)];
    Ok(Outcome {
        text: text.join("\n"),
        json: vec![("rows", report::value(&rows)?)],
        csv: report::csv(&series),
    })
}

/// The same with the time of the hook's process taken off where the hook is run: what is left is the
/// runtime's own. The process is timed by itself, for want of a way to see it inside.
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

/// Runs the rounds of `operation`, each entrant once a round, the order turning by one from round to
/// round. One that fails is out, from here on and with what it had.
///
/// # Errors
/// Only the harness's own; an interrupt.
pub fn race(
    stand: &Stand,
    entrants: &mut [Entrant],
    operation: Operation,
    rounds: Rounds,
) -> Result<Vec<Series>, Error> {
    let mut progress = Progress::new();
    let all = rounds.warm_up + rounds.timed;
    let title = format!("{}, pause {:?}", operation.steps()[0], rounds.pause);
    let mut samples = vec![Vec::new(); entrants.len()];
    let racers = entrants.to_vec();
    let mut sleepers = Vec::new();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        sleepers.push(sleeper(stand, racer, entrant, operation)?);
    }
    for round in 0..all {
        progress.tell(&title, round, all);
        for place in 0..racers.len() {
            let at = (round + place) % racers.len();
            if entrants[at].failure.is_some() {
                continue;
            }
            interrupt::check()?;
            sleep(rounds.pause);
            match go(stand, &racers[at], operation, sleepers[at].as_ref())? {
                Ok(go) if round >= rounds.warm_up => samples[at].push(go),
                Ok(_) => {}
                Err(fault) => {
                    interrupt::check()?;
                    entrants[at].failure = Some(fault.to_string());
                }
            }
        }
    }
    drop(sleepers);
    let finished = entrants.iter().zip(samples).filter(|(entrant, _)| entrant.failure.is_none());
    Ok(finished
        .flat_map(|(entrant, goes)| series(entrant, operation, rounds.pause, &goes))
        .collect())
}

/// Turns goes into a series for each step.
fn series(
    entrant: &Entrant,
    operation: Operation,
    pause: Duration,
    goes: &[Vec<Sample>],
) -> Vec<Series> {
    let steps = operation.steps().iter().enumerate();
    steps
        .map(|(at, step)| Series {
            step: (*step).to_owned(),
            pause,
            runtime: entrant.name.clone(),
            samples: goes.iter().filter_map(|go| go.get(at).copied()).collect(),
        })
        .collect()
}

/// The container in which commands are executed, if the operation is that.
fn sleeper<'a>(
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

/// A container that sleeps, or why it does not.
pub(crate) fn asleep<'a>(
    stand: &'a Stand,
    entrant: &'a Entrant,
) -> Result<(Container<'a>, Result<(), Fault>), Error> {
    let container = stand.container(entrant, &["/bin/sleep", "100000"])?;
    let result = container.create().and_then(|_| container.start()).map(drop);
    Ok((container, result))
}

/// One go: a sample for each step.
fn go(
    stand: &Stand,
    entrant: &Entrant,
    operation: Operation,
    sleeper: Option<&Container<'_>>,
) -> Result<Result<Vec<Sample>, Fault>, Error> {
    Ok(match operation {
        Operation::Run => stand.container(entrant, &[])?.run().map(|sample| vec![sample]),
        Operation::Lifecycle => lifecycle(&stand.container(entrant, &[])?),
        Operation::Kill => {
            let (container, result) = asleep(stand, entrant)?;
            result.and_then(|()| {
                let kill = container.kill()?;
                container.exit()?;
                container.delete()?;
                Ok(vec![kill])
            })
        }
        Operation::Exec => match sleeper {
            Some(sleeper) => sleeper.exec("/bin/true").map(|sample| vec![sample]),
            None => Ok(Vec::new()),
        },
    })
}

/// The four commands as an engine gives them.
fn lifecycle(container: &Container<'_>) -> Result<Vec<Sample>, Fault> {
    let steps = [container.create()?, container.start()?, container.exit()?, container.delete()?];
    let sum = steps.into_iter().fold(Sample::default(), |sum, step| sum + step);
    Ok(steps.into_iter().chain([sum]).collect())
}
