//! Experiments that time variants of a container (steps): how much less time each takes than the first.

use crate::Error;
use crate::arguments::Timing;
use crate::race::{Series, race_in_steps};
use crate::results::{self, judged, title};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand, first};
use measure::bootstrap::{self, Estimate, Pairing};
use report::Table;
use serde::Serialize;
use serde_json::Value;

/// What the first step costs more than another one, for one runtime.
#[derive(Debug, Serialize)]
struct Cost {
    runtime: String,
    pause_ms: f64,
    step: String,
    /// The time of the first step minus the time of this step, in microseconds.
    costs_us: Option<Estimate>,
    /// The time of the first step ÷ the time of this step.
    ratio: Option<Estimate>,
}

/// Times the steps at each pause, and compares each step with the first. `change` modifies the configuration for an
/// entrant and a step, by their indices. The tables `more` come after those of times.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub(crate) fn compare(
    stand: &Stand,
    entrants: &[Entrant],
    timing: &Timing,
    steps: &[&str],
    mut change: impl FnMut(usize, usize, &mut Value),
    more: &[String],
) -> Result<Outcome, Error> {
    let mut series = Vec::new();
    for rounds in timing.by_pause() {
        let name = title(steps[0], rounds.pause.as_secs_f64() * 1e3);
        series.extend(race_in_steps(stand, entrants, rounds, &name, steps, &mut change)?);
    }
    let costs = costs(&series, steps[0]);
    let tables = [&[text(&costs, steps[0])], more].concat();
    Outcome::of_series(&series, first(entrants), &tables)?.with("costs", &costs)
}

fn costs(series: &[Series], whole: &str) -> Vec<Cost> {
    let cost = |of: &Series| {
        let mut wholes = series.iter().filter(|it| it.step == whole);
        let whole = wholes.find(|it| (it.pause, &it.runtime) == (of.pause, &of.runtime))?;
        Some(Cost {
            runtime: of.runtime.clone(),
            pause_ms: of.pause.as_secs_f64() * 1e3,
            step: of.step.clone(),
            costs_us: bootstrap::difference(&whole.wall_us(), &of.wall_us(), Pairing::Paired),
            ratio: bootstrap::ratio(&whole.wall_us(), &of.wall_us(), Pairing::Paired),
        })
    };
    series.iter().filter(|of| of.step != whole).filter_map(cost).collect()
}

fn text(costs: &[Cost], whole: &str) -> String {
    let ratio = format!("{whole} ÷ it");
    let mut table = Table::new(&["", "", "it takes µs less", "95 %", &ratio, "95 %"]);
    for cost in costs {
        let mut cells = vec![title(&cost.step, cost.pause_ms), cost.runtime.clone()];
        cells.extend(results::difference(cost.costs_us));
        cells.extend(cost.ratio.map_or_else(Default::default, judged));
        table.row(cells);
    }
    format!("Less time than \"{whole}\"\n{}", table.left(&[0, 1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Sample;
    use std::time::Duration;

    #[test]
    fn costs_are_differences() {
        let series = |step: &str, us: u64| Series {
            step: step.to_owned(),
            pause: Duration::ZERO,
            runtime: "crun".to_owned(),
            samples: vec![Sample { wall: Duration::from_micros(us), ..Sample::default() }; 6],
            is_split: true,
        };
        let costs = costs(&[series("run", 3000), series("run without mqueue", 2000)], "run");
        let expected = "\
Less time than \"run\"
                                        it takes µs less         95 %  run ÷ it           95 %
run without mqueue, back-to-back  crun              1000  [1000 1000]     1.500  [1.500 1.500]
";
        assert_eq!(text(&costs, "run"), expected);
        let same = super::costs(&[series("run", 2000), series("run again", 2000)], "run");
        assert!(text(&same, "run").contains("nothing shown"), "{}", text(&same, "run"));
    }
}
