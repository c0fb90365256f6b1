//! What the mechanism itself costs: the time of a container whose forked program ends at once, compared with the same
//! container whose executed program ends at once. Nothing has to be loaded, so that a fork saves nothing.
//!
//! A fork copies page tables, so the templates touch memory in their warm-up. The table says whether the fork takes at
//! most 1.2 times as long (`not shown` if 1.2 is in the interval). The second table has the steps that exist only with a
//! template. The template forks while the container is made, so the runtime waits only for what is not done by then.

use super::Programs;
use crate::Error;
use crate::container::{Container, Fault};
use crate::options::Templates;
use crate::process::Sample;
use crate::race::{Rounds, in_turns};
use crate::stand::{Entrant, Stand};
use crate::trace::outside::Observed;
use crate::weight::Way;
use measure::bootstrap::{self, Estimate, Pairing};
use measure::statistics::{Summary, median};
use serde::Serialize;
use std::time::Duration;
use trace::Span;

/// The program. Its argument is the number of MiB that its warm-up touches.
pub(super) const PROGRAM: &str = "\
import os, sys
import dayfly_template
held = b'x' * (int(sys.argv[1]) << 20)
dayfly_template.wait()
os._exit(0)
";

/// The program that is executed.
const EXECUTED: &str = "/usr/bin/true";

/// The number of starts from which the times of steps are taken.
const TRACED: usize = 10;

/// The steps of a start that exist only with a template, and what every start has, as they are named in traces.
pub(super) const NAMES: [&str; 9] = [
    "find template container",
    "await fork",
    "admit forked program",
    "limit forked program",
    "await forked program",
    "verify forked program",
    "stand in",
    "container runs",
    WHOLE,
];

/// The name of the time of all steps.
const WHOLE: &str = "all of run, traced";

/// The times of one container.
#[derive(Debug, Serialize)]
pub(super) struct Fork {
    pub(super) name: String,
    /// The memory that the warm-up has touched, in MiB; `None` for the executed program.
    pub(super) touched_mib: Option<u32>,
    /// The time of `run` in each round, in microseconds.
    pub(super) rounds_us: Vec<f64>,
    pub(super) summary: Option<Summary>,
    pub(super) median_us: Option<Estimate>,
    /// The median ÷ that of the executed program.
    pub(super) ratio: Option<Estimate>,
    pub(super) steps: Vec<Step>,
    /// The reason why there are no results, or no more of them.
    pub(super) reason: Option<String>,
}

/// A step of a traced start.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Step {
    pub(super) name: &'static str,
    /// The median of the time, in microseconds.
    pub(super) median_us: f64,
}

/// Measures the times.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(super) fn measure(
    options: &Templates,
    stand: &Stand,
    entrant: &Entrant,
    programs: &Programs,
) -> Result<Vec<Fork>, Error> {
    let named = |name: String| Entrant { name, failure: None, ..entrant.clone() };
    let forked = options.touched.iter().map(|mib| named(format!("forked, {mib} MiB touched")));
    let mut entrants: Vec<Entrant> =
        std::iter::once(named("executed".to_owned())).chain(forked).collect();
    let racers = entrants.clone();
    let mut templates = Vec::new();
    for ((mib, racer), entrant) in options.touched.iter().zip(&racers[1..]).zip(&mut entrants[1..])
    {
        let template = Container::changed(stand, racer, &[], |config| {
            programs.touching.settle(config, &[&mib.to_string()]);
        })?;
        entrant.failure = template.become_template().err().map(|fault| fault.to_string());
        templates.push(template);
    }
    // The place 0 is that of the executed program.
    let make = |at: usize| -> Result<Container<'_>, Error> {
        let template =
            at.checked_sub(1).and_then(|at| Some((templates.get(at)?, options.touched[at])));
        let Some((template, mib)) = template else {
            return Container::changed(stand, &racers[0], &[], |config| {
                programs.touching.settle(config, &[]);
                config["process"]["args"] = serde_json::json!([EXECUTED]);
            });
        };
        let mut container = Container::forked(stand, &racers[at], |config| {
            programs.touching.settle(config, &[&mib.to_string()]);
        })?;
        container.fork_from(&template.id);
        Ok(container)
    };
    let rounds = Rounds { warm_up: options.warm_up, timed: options.rounds, pause: Duration::ZERO };
    let times = in_turns(&mut entrants, rounds, "templates, forks", |at| {
        Ok(make(at)?.run().map_err(|fault| fault.to_string()))
    })?;
    let traced = Rounds { warm_up: 0, timed: TRACED, pause: Duration::ZERO };
    let traces = in_turns(&mut entrants, traced, "templates, traced forks", |at| {
        Ok(trace(&make(at)?).map_err(|fault| fault.to_string()))
    })?;
    let mut forks: Vec<Fork> = Vec::new();
    for (at, entrant) in entrants.into_iter().enumerate() {
        let touched_mib = at.checked_sub(1).map(|at| options.touched[at]);
        let executed = forks.first().map(|of| of.rounds_us.as_slice());
        forks.push(Fork::of(entrant, touched_mib, &times[at], &traces[at], executed));
    }
    Ok(forks)
}

/// Runs the container with `--trace`.
fn trace(container: &Container<'_>) -> Result<Vec<Observed>, Fault> {
    container.execute_by(Way::Traced);
    let result = container.run();
    container.execute_by(Way::Timed);
    result.map(|_| container.take_observed())
}

impl Fork {
    fn of(
        entrant: Entrant,
        touched_mib: Option<u32>,
        times: &[Sample],
        traces: &[Vec<Observed>],
        executed: Option<&[f64]>,
    ) -> Self {
        let rounds_us: Vec<f64> =
            times.iter().map(|sample| sample.wall.as_secs_f64() * 1e6).collect();
        let timelines = traces.iter().flatten().collect::<Vec<_>>();
        let steps = NAMES.into_iter().filter_map(|name| {
            let mut times: Vec<f64> =
                timelines.iter().filter_map(|observed| took_us(observed, name)).collect();
            (!times.is_empty()).then(|| Step { name, median_us: median(&mut times) })
        });
        Self {
            name: entrant.name,
            touched_mib,
            summary: Summary::of(&rounds_us),
            median_us: bootstrap::middle(&rounds_us),
            ratio: executed
                .and_then(|executed| bootstrap::ratio(&rounds_us, executed, Pairing::Paired)),
            steps: steps.collect(),
            reason: entrant.failure,
            rounds_us,
        }
    }
}

/// Returns the time of the steps of this name.
fn took_us(observed: &Observed, name: &str) -> Option<f64> {
    if name == WHOLE {
        return Some(observed.timeline.rows.first()?.took() as f64 / 1e3);
    }
    let spans = observed.timeline.rows.iter().flat_map(|row| &row.spans);
    let mut times = spans.filter(|span| span.name == name).map(Span::took);
    let first = times.next()?;
    Some((first + times.sum::<u64>()) as f64 / 1e3)
}
