//! `start`: times the commands of a container's life cycle, for each runtime.

use crate::config::{HOOK, Profile};
use crate::harness::*;
use crate::race::{go, races, sleepers};
use crate::stand::Source;
use crate::weight::{Way, Weight};

/// The number of times that a step is traced. A small number suffices, because counts vary little
/// or not at all.
const WEIGHINGS: usize = 3;

/// The deadline of the hook's program when it runs alone.
const HOOK_DEADLINE: Duration = Duration::from_secs(10);

/// `start`.
#[derive(Debug, Args)]
pub struct Start {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
    /// The timed operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run,lifecycle,kill,exec")]
    pub operation: Vec<Operation>,
    /// Also count instructions in user space, up to N per command [default: 3000000]; a million take up to half a
    /// minute
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "3000000")]
    pub instructions: Option<u64>,
}

impl Experiment for Start {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let mut series = races(stand, entrants, &self.operation, &self.timing)?;
        if matches!(stand.source, Source::Profile(Profile::Hooks)) {
            for rounds in self.timing.by_pause() {
                series.extend(without_hook(&series, rounds));
            }
        }
        let weights = self.weigh(stand, entrants)?;
        let outcome = Outcome::of_series(&series, first(entrants), &[results::weights(&weights)])?;
        outcome.with("weights", &weights)
    }
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

impl Start {
    /// Traces every entrant through every operation, after the timed rounds.
    fn weigh(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Vec<Weighed>, Error> {
        let mut weighed = Vec::new();
        let mut progress = Progress::new();
        let fit: Vec<&Entrant> = entrants.iter().filter(|entrant| !entrant.is_out()).collect();
        for (done, &operation) in self.operation.iter().enumerate() {
            progress.tell("operations followed", done, self.operation.len());
            let weights = fit.iter().map(|entrant| self.weights_of(stand, entrant, operation));
            let weights: Vec<_> = weights.collect::<Result<_, _>>()?;
            let steps = operation.steps().iter().enumerate().filter(|(_, step)| **step != "exit");
            for (at, step) in steps {
                weighed.extend(fit.iter().zip(&weights).map(|(entrant, weights)| {
                    let of_step: Vec<_> =
                        weights.iter().filter_map(|go| go.get(at).copied()).collect();
                    let weight = Weight::middle(&of_step);
                    Weighed { step, runtime: entrant.name.clone(), weight }
                }));
            }
        }
        Ok(weighed)
    }

    /// Traces several repetitions of an operation, and returns the weights of each step, one per repetition; empty if
    /// the runtime can't be traced.
    fn weights_of(
        &self,
        stand: &Stand,
        entrant: &Entrant,
        operation: Operation,
    ) -> Result<Vec<Vec<Weight>>, Error> {
        let mut goes: Vec<Vec<Weight>> = Vec::new();
        // The command is that of `run`.
        if operation == Operation::Begin {
            return Ok(goes);
        }
        let sleepers = sleepers(stand, std::slice::from_ref(entrant), operation)?;
        let follow = |way| -> Result<Option<Vec<Weight>>, Error> {
            interrupt::check()?;
            match go(stand, entrant, operation, sleepers[0].as_ref(), way) {
                Ok(go) => Ok(Some(go.samples.iter().map(|sample| sample.weight).collect())),
                Err(Error::Out(_)) => Ok(None),
                Err(error) => Err(error),
            }
        };
        for _ in 0..WEIGHINGS {
            let Some(calls) = follow(Way::Calls)? else { return Ok(Vec::new()) };
            goes.push(calls);
        }
        if let Some(bound) = self.instructions
            && let Some(counted) = follow(Way::Instructions(bound))?
        {
            for (weight, counted) in goes.iter_mut().flat_map(|go| go.iter_mut().zip(&counted)) {
                weight.instructions = counted.instructions;
            }
        }
        Ok(goes)
    }
}

/// Returns the series of the steps that run the hook, with the time of the hook's process subtracted, so that the
/// runtime's own time remains. The hook's process is timed separately, because it can't be timed within the runtime.
fn without_hook(raced: &[Series], rounds: Rounds) -> Vec<Series> {
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..rounds.timed {
        sleep(rounds.pause);
        let hook = process::run(&mut process::quiet(HOOK), HOOK_DEADLINE);
        times.extend(hook.map(|hook| hook.wall.as_secs_f64()));
    }
    let hook = Duration::try_from_secs_f64(median(&mut times)).unwrap_or_default();
    let is_hooked =
        |of: &&Series| ["run", "create"].contains(&of.step.as_str()) && of.pause == rounds.pause;
    let without = |of: &Series| {
        let mut without = of.clone();
        without.step = format!("{} less {:.3} ms for the hook", of.step, hook.as_secs_f64() * 1e3);
        for sample in &mut without.samples {
            sample.wall = sample.wall.saturating_sub(hook);
        }
        without
    };
    raced.iter().filter(is_hooked).map(without).collect()
}
