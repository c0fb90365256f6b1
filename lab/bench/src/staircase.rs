//! `staircase`: measures how much time the parts of a container cost its start, by starting the same container without
//! each of them.
//!
//! Giuseppe Scrivano reduced these costs in crun step by step from 2017 on: seccomp, the network namespace, the message
//! queues, the IPC namespace.

use crate::Error;
use crate::options::Steps;
use crate::race::{Series, race_in_steps};
use crate::results::{self, compare, title};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use measure::bootstrap::{self, Estimate, Pairing};
use report::Table;
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write;

/// The step with the unchanged container.
pub(crate) const WHOLE: &str = "run";

/// A step: the container without one of its parts.
struct Step {
    name: &'static str,
    leave_out: fn(&mut Value),
}

const STEPS: [Step; 6] = [
    Step { name: WHOLE, leave_out: |_| {} },
    Step { name: "run without seccomp", leave_out: seccomp },
    Step { name: "run without a network namespace", leave_out: network },
    Step { name: "run without mqueue", leave_out: mqueue },
    Step { name: "run without an IPC namespace", leave_out: ipc },
    Step {
        name: "run without all of these",
        leave_out: |config| [seccomp, network, ipc].into_iter().for_each(|one| one(config)),
    },
];

/// Removes the seccomp filter.
pub(crate) fn seccomp(config: &mut Value) {
    if let Some(linux) = config["linux"].as_object_mut() {
        linux.remove("seccomp");
    }
}

fn network(config: &mut Value) {
    without_namespace(config, "network");
}

fn mqueue(config: &mut Value) {
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["type"] != "mqueue");
    }
}

/// Removes the IPC namespace, together with the message queues, which belong to it.
fn ipc(config: &mut Value) {
    mqueue(config);
    without_namespace(config, "ipc");
}

fn without_namespace(config: &mut Value, kind: &str) {
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != kind);
    }
}

/// The cost of a part of the container for one runtime.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    runtime: String,
    pause_ms: f64,
    step: String,
    /// The start time of the whole container minus the start time without the part, in microseconds.
    costs_us: Option<Estimate>,
}

/// Runs the experiment.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Steps,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut series = Vec::new();
    for rounds in options.timing.by_pause() {
        let name = title("staircase", rounds.pause.as_secs_f64() * 1e3);
        let steps = STEPS.map(|step| step.name);
        series.extend(race_in_steps(
            stand,
            entrants,
            rounds,
            &name,
            &steps,
            |_, number, config| {
                (STEPS[number].leave_out)(config);
            },
        )?);
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let costs = costs(&series);
    Ok(Outcome {
        text: [results::times(&rows, first), text(&costs), results::verdicts(&rows, first)]
            .join("\n"),
        json: vec![("rows", results::value(&rows)?), ("costs", results::value(&costs)?)],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// Returns the costs: how much less time each step takes than the whole container, for each runtime and pause.
pub(crate) fn costs(series: &[Series]) -> Vec<Cost> {
    let cost = |of: &Series| {
        let mut wholes = series.iter().filter(|whole| whole.step == WHOLE);
        let whole = wholes.find(|it| (it.pause, &it.runtime) == (of.pause, &of.runtime))?;
        Some(Cost {
            runtime: of.runtime.clone(),
            pause_ms: of.pause.as_secs_f64() * 1e3,
            step: of.step.clone(),
            costs_us: bootstrap::difference(&whole.wall_us(), &of.wall_us(), Pairing::Paired),
        })
    };
    series.iter().filter(|of| of.step != WHOLE).filter_map(cost).collect()
}

/// Formats the costs.
pub(crate) fn text(costs: &[Cost]) -> String {
    let mut text = String::new();
    let mut pauses: Vec<f64> = costs.iter().map(|cost| cost.pause_ms).collect();
    pauses.dedup();
    for pause in pauses {
        let headings = ["", "", "it takes µs less", "95 %"];
        let mut table = Table::new(&headings).left(&[0, 1]);
        for cost in costs.iter().filter(|cost| cost.pause_ms == pause) {
            let mut cells = vec![cost.step.clone(), cost.runtime.clone()];
            cells.extend(match cost.costs_us {
                Some(less) => {
                    let shown = less.differs_from(0.0);
                    let figure = || format!("{:.0}", less.value);
                    let figure = if shown { figure() } else { "nothing shown".to_owned() };
                    [figure, format!("[{:.0} {:.0}]", less.low, less.high)]
                }
                None => ["too few rounds".to_owned(), String::new()],
            });
            table.row(cells);
        }
        let _ = writeln!(text, "{}\n{table}", title("what each part costs", pause));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Profile, podman};
    use crate::process::Sample;
    use std::time::Duration;

    fn has(config: &Value, what: &str) -> bool {
        let linux = &config["linux"];
        let namespaces = linux["namespaces"].as_array().expect("namespaces");
        let mounts = config["mounts"].as_array().expect("mounts");
        match what {
            "seccomp" => linux["seccomp"].is_object(),
            "mqueue" => mounts.iter().any(|mount| mount["type"] == "mqueue"),
            kind => namespaces.iter().any(|namespace| namespace["type"] == kind),
        }
    }

    #[test]
    fn each_step_is_without_its_part() {
        let Ok(config) = podman(Profile::Seccomp) else { return };
        let parts = ["seccomp", "network", "mqueue", "ipc"];
        let kept = STEPS.each_ref().map(|step| {
            let mut config = config.clone();
            (step.leave_out)(&mut config);
            parts.map(|part| has(&config, part))
        });
        assert_eq!(kept[0], [true; 4]);
        assert_eq!(kept[1], [false, true, true, true]);
        assert_eq!(kept[2], [true, false, true, true]);
        assert_eq!(kept[3], [true, true, false, true]);
        assert_eq!(kept[4], [true, true, false, false]);
        assert_eq!(kept[5], [false; 4]);
    }

    #[test]
    fn costs_are_differences() {
        let series = |step: &str, us: u64| Series {
            step: step.to_owned(),
            pause: Duration::ZERO,
            runtime: "crun".to_owned(),
            samples: vec![Sample { wall: Duration::from_micros(us), ..Sample::default() }; 6],
            is_split: true,
        };
        let costs = costs(&[series(WHOLE, 3000), series("run without mqueue", 2000)]);
        let expected = "\
what each part costs, back-to-back
                          it takes µs less         95 %
run without mqueue  crun              1000  [1000 1000]

";
        assert_eq!(text(&costs), expected);
    }
}
