//! What the mechanism itself costs: the time of a container whose forked program ends at once, compared with the same
//! container whose executed program ends at once. Nothing has to be loaded, so that a fork saves nothing.
//!
//! A fork copies page tables, so the templates touch memory in their warm-up. The text says whether the fork takes at
//! most 1.2 times as long (`not shown` if 1.2 is in the interval). The steps are those that exist only with a template. The template forks while the container is made, so the runtime waits only for what is not done by then.

use super::{Programs, Templates};
use crate::harness::*;
use crate::trace::outside::Observed;
use crate::weight::Way;
use trace::Span;

/// The program. Its argument is the number of MiB that its warm-up touches.
pub(super) const PROGRAM: &str = include_str!("fork.py");

/// The program that is executed.
const EXECUTED: &str = "/usr/bin/true";

/// The number of starts from which the times of steps are taken.
const TRACED: usize = 10;

/// The steps of a start that exist only with a template, and what every start has, as they are named in traces.
const NAMES: [&str; 9] = [
    "find template container",
    "await fork",
    "admit forked program",
    "limit forked program",
    "await forked program",
    "verify forked program",
    "wait for forked program",
    "container runs",
    WHOLE,
];

/// The name of the time of all steps.
const WHOLE: &str = "all of run, traced";

/// The longest time of a fork that is within the bar, if that of the executed program is 1.
const BAR: f64 = 1.2;

/// Measures the times, and compares them with those of the executed program. Returns the outcome, and the times of each
/// program for JSON.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(super) fn measure(
    options: &Templates,
    stand: &Stand,
    entrant: &Entrant,
    programs: &Programs,
) -> Result<(Outcome, Vec<Value>), Error> {
    let forked = options.touched.iter().map(|mib| format!("forked, {mib} MiB touched"));
    let names = std::iter::once("executed".to_owned()).chain(forked);
    // The place 0 is that of the executed program.
    let entrants: Vec<Entrant> = names.map(|name| entrant.called(name)).collect();
    let mut templates = vec![None];
    for (mib, entrant) in options.touched.iter().zip(&entrants[1..]) {
        let template = programs.touching.container(stand, entrant, &[&mib.to_string()], None)?;
        entrant.attempt(template.become_template())?;
        templates.push(Some((template, mib)));
    }
    let make = |at: usize| -> Result<Container<'_>, Error> {
        let Some((template, mib)) = &templates[at] else {
            return Container::changed(stand, &entrants[0], &[], |config| {
                programs.touching.settle(config, &[]);
                config["process"]["args"] = serde_json::json!([EXECUTED]);
            });
        };
        let arguments = [&*mib.to_string()];
        programs.touching.container(stand, &entrants[at], &arguments, Some(&template.id))
    };
    let timed = Rounds { warm_up: options.warm_up, timed: options.rounds, ..Rounds::default() };
    let times = in_turns(&entrants, timed, "templates, forks", |at| {
        Ok(make(at)?.run()?.wall.as_secs_f64() * 1e6)
    })?;
    let traced = Rounds { timed: TRACED, ..Rounds::default() };
    let traces = in_turns(&entrants, traced, "templates, traced forks", |at| {
        let container = make(at)?;
        container.execute_by(Way::Traced);
        container.run()?;
        Ok(container.take_observed())
    })?;
    let (mut figures, mut rows) = (Figures::default(), Vec::new());
    let mut verdicts = String::new();
    let executed = times.first().cloned().unwrap_or_default();
    for (at, (rounds_us, traces)) in times.into_iter().zip(traces).enumerate() {
        let (name, reason) = (&entrants[at].name, entrants[at].failure());
        let what = "run of a program that ends at once";
        figures.rounds(what, "ms", name, rounds_us.iter().map(|us| us / 1e3));
        let (mut steps, observed) = (Vec::new(), traces.concat());
        for step in NAMES {
            let mut us: Vec<f64> = observed.iter().filter_map(|it| took_us(it, step)).collect();
            if !us.is_empty() {
                steps.push(json!({ "name": step, "median_us": median(&mut us) }));
                figures.rounds(format!("step of a start: {step}"), "µs", name, us);
            }
        }
        let touched_mib = templates[at].as_ref().map(|(_, mib)| **mib);
        let ratio = bootstrap::ratio(&rounds_us, &executed, Pairing::Paired);
        if let Some(ratio) = ratio.filter(|_| touched_mib.is_some()) {
            let (value, low, high) = (ratio.value, ratio.low, ratio.high);
            let within = ratio.within(BAR);
            let _ = writeln!(
                verdicts,
                "{name}: {value:.3} [{low:.3} {high:.3}] of the executed program's time; ≤ {BAR}: {within}"
            );
        }
        let _ = reason.iter().try_for_each(|reason| writeln!(verdicts, "{name}: {reason}"));
        rows.push(json!({
            "name": name, "touched_mib": touched_mib, "rounds_us": rounds_us, "steps": steps,
            "reason": reason,
        }));
    }
    let mut outcome = figures.outcome("executed");
    outcome.text += &verdicts;
    Ok((outcome, rows))
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
