//! `memory`: finds the smallest memory limit with which a container starts, the peak memory of a
//! runtime's commands, and the resources in use while a container is idle.

mod idle;

use crate::burst;
use crate::cgroup;
use crate::figures::Sample;
use crate::harness::*;
use crate::race::{go, sleepers};
use crate::weight::Way;
use report::size;

/// `memory`.
#[derive(Debug, Args)]
pub struct Memory {
    /// The figures to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "limit,peak,idle")]
    pub figure: Vec<Figure>,
    /// Number of measurements of each figure
    #[arg(long, value_name = "N", value_parser = some, default_value = "6")]
    pub rounds: usize,
    /// Precision with which the smallest sufficient limit is searched
    #[arg(long, value_name = "SIZE", value_parser = size::kibibytes, default_value = "16k")]
    pub precision: usize,
    /// Number of starts in a row that must succeed with a limit
    #[arg(long, value_name = "N", value_parser = some, default_value = "3")]
    pub tries: usize,
    /// Operations whose peaks are measured
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run,lifecycle,exec")]
    pub operation: Vec<Operation>,
}

/// A figure of `memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Figure {
    /// The smallest memory limit with which a container starts
    Limit,
    /// The largest resident set of any process of a command
    Peak,
    /// The resources in use beside a sleeping container
    Idle,
}

impl Experiment for Memory {
    /// Leaves the view in which this program was started if the smallest limit is requested, the view has no memory
    /// controller, and no view is requested by an option. A hybrid host is then shown with its v1 controllers alone,
    /// because not every runtime supports v1 and v2 together.
    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        let needs_controller = self.figure.contains(&Figure::Limit) && common.view.is_none();
        if needs_controller { cgroup::enter_view_with(&["memory"]) } else { Ok(()) }
    }

    /// For every figure, the entrants take turns.
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        burst::warm_up(stand, entrants, &[])?;
        let rounds = Rounds { timed: self.rounds, ..Rounds::default() };
        let (mut figures, mut missing) = (Figures::default(), String::new());
        for &figure in &self.figure {
            match figure {
                Figure::Limit if !can_limit("memory") => {
                    let view = View::current().name();
                    missing = format!(
                        "no controller memory in the {view} view: no smallest limit can be told"
                    );
                }
                Figure::Limit => figures.add(
                    entrants,
                    in_turns(entrants, rounds, "smallest memory limits", |at| {
                        let bytes = smallest(stand, &entrants[at], self)?;
                        let name = "smallest limit that starts".to_owned();
                        Ok(vec![(name, "KiB", bytes as f64 / 1024.0)])
                    })?,
                ),
                Figure::Peak => {
                    for &operation in &self.operation {
                        figures.add(entrants, peaks(stand, entrants, operation, rounds)?);
                    }
                }
                Figure::Idle => figures.add(
                    entrants,
                    in_turns(entrants, rounds, "idle containers", |at| {
                        idle::look(stand, &entrants[at])
                    })?,
                ),
            }
        }
        let mut outcome = figures.outcome(first(entrants));
        if !missing.is_empty() {
            outcome.text.insert_str(0, &format!("{missing}\n"));
        }
        outcome.with("missing", &missing)?.with("rows", &figures.as_rows())
    }
}

/// Measures the peak of each command of an operation.
fn peaks(
    stand: &Stand,
    entrants: &[Entrant],
    operation: Operation,
    rounds: Rounds,
) -> Result<Vec<Vec<Sample>>, Error> {
    let sleepers = sleepers(stand, entrants, operation)?;
    in_turns(entrants, rounds, "peaks of commands", |at| {
        let go = go(stand, &entrants[at], operation, sleepers[at].as_ref(), Way::Calls)?;
        let steps = operation.steps().iter().zip(&go.samples);
        let commands = steps.filter(|(step, _)| operation.commands().contains(step));
        let peak = |(step, sample): (&&str, &crate::process::Sample)| {
            (format!("peak of {step}"), "KiB", sample.weight.peak_kib)
        };
        Ok(commands.map(peak).collect())
    })
}

/// The first limit that is tried, in bytes: about the memory that a container with a small program needs.
const BEGIN: u64 = 1 << 20;
/// The limit at which the search gives up.
const MOST: u64 = 1 << 30;

/// Searches for the smallest limit, in bytes, with which `tries` starts in a row succeed.
///
/// # Errors
/// Errors of the harness itself; an interrupt; no limit suffices.
pub(super) fn smallest(stand: &Stand, entrant: &Entrant, options: &Memory) -> Result<u64, Error> {
    let mut reason = String::new();
    let found = search(options.precision as u64 * 1024, |limit| {
        for _ in 0..options.tries {
            let change = |config: &mut serde_json::Value| {
                config["linux"]["resources"]["memory"] = json!({ "limit": limit });
            };
            let result = Container::changed(stand, entrant, &[], change)?.run();
            // A failure caused by a signal says nothing about the limit.
            interrupt::check()?;
            if let Err(fault) = result {
                reason = fault.to_string();
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    })?;
    let none = || Error::Out(format!("with any memory limit up to {MOST}: {reason}"));
    found.ok_or_else(none)
}

/// Returns the smallest sufficient multiple of `precision`: doubles the limit until it suffices, and then searches
/// between that limit and the last insufficient one.
fn search<E>(
    precision: u64,
    mut does: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    // `fails` and `starts` count multiples of the precision.
    let (mut fails, mut starts) = (0, BEGIN.div_ceil(precision));
    while !does(starts * precision)? {
        fails = starts;
        starts *= 2;
        if starts * precision > MOST {
            return Ok(None);
        }
    }
    while starts - fails > 1 {
        let middle = fails.midpoint(starts);
        if does(middle * precision)? {
            starts = middle;
        } else {
            fails = middle;
        }
    }
    Ok(Some(starts * precision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(precision: u64, least: u64) -> Option<u64> {
        let does = |limit| Ok::<_, ()>(limit >= least);
        search(precision, does).expect("no error")
    }

    #[test]
    fn finds_the_smallest() {
        let kib = 1024;
        assert_eq!(found(16 * kib, 400 * kib), Some(400 * kib));
        assert_eq!(found(16 * kib, 401 * kib), Some(416 * kib));
        assert_eq!(found(16 * kib, 9000 * kib), Some(9008 * kib));
        assert_eq!(found(3000 * kib, kib), Some(3000 * kib));
        assert_eq!(found(16 * kib, MOST + 1), None);
    }
}
