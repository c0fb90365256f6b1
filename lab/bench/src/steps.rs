//! Ways that are timed in the same rounds: how much more time one takes than another. The ways are variants of a
//! container (steps), or entrants.

use crate::harness::*;
use crate::race::race_in_steps;
use crate::results::{judged, title};

/// The time that one series takes more than another one.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    /// The entrant, the pause and the step of one of the two series.
    pub(crate) runtime: String,
    pub(crate) pause_ms: f64,
    pub(crate) step: String,
    /// The difference, in microseconds.
    costs_us: Option<Estimate>,
    /// The longer time ÷ the shorter one.
    pub(crate) ratio: Option<Estimate>,
    /// The same of the lower quartiles.
    pub(crate) quartile_ratio: Option<Estimate>,
}

impl Cost {
    /// Compares the series `more` with the series `less`; the cost is named after `of`.
    fn new(of: &Series, more: &Series, less: &Series, pairing: Pairing) -> Self {
        let (more, less) = (more.wall_us(), less.wall_us());
        Self {
            runtime: of.runtime.clone(),
            pause_ms: of.pause.as_secs_f64() * 1e3,
            step: of.step.clone(),
            costs_us: bootstrap::difference(&more, &less, pairing),
            ratio: bootstrap::ratio(&more, &less, pairing),
            quartile_ratio: bootstrap::quartile_ratio(&more, &less, pairing),
        }
    }

    /// Returns the title of the step at the pause.
    pub(crate) fn title(&self) -> String {
        title(&self.step, self.pause_ms)
    }
}

/// Returns what the step `whole` costs each entrant more than each other step.
fn of_steps(series: &[Series], whole: &str) -> Vec<Cost> {
    let cost = |of: &Series| {
        let mut wholes = series.iter().filter(|it| it.step == whole);
        let whole = wholes.find(|it| (it.pause, &it.runtime) == (of.pause, &of.runtime))?;
        Some(Cost::new(of, whole, of, Pairing::Paired))
    };
    series.iter().filter(|of| of.step != whole).filter_map(cost).collect()
}

/// Returns what each step costs each entrant more than the entrant `base`.
pub(crate) fn of_entrants(series: &[Series], base: &str) -> Vec<Cost> {
    let cost = |of: &Series| {
        let base = of.peer(series, base)?;
        Some(Cost::new(of, of, base, Pairing::Paired))
    };
    series.iter().filter(|of| of.runtime != base).filter_map(cost).collect()
}

/// Returns what each step costs each entrant more than its first step, in other rounds.
pub(crate) fn of_later_steps(series: &[Series]) -> Vec<Cost> {
    let cost = |of: &Series| {
        let first = series.iter().find(|it| it.runtime == of.runtime)?;
        (first.step != of.step).then(|| Cost::new(of, of, first, Pairing::Independent))
    };
    series.iter().filter_map(cost).collect()
}

/// Formats costs; `more` and `ratio` are the headings of the difference and the ratio.
pub(crate) fn table(costs: &[Cost], more: &str, ratio: &str) -> String {
    let mut table = Table::new(&["", "", more, "95 %", ratio, "95 %"]);
    for cost in costs {
        let mut cells = vec![cost.title(), cost.runtime.clone()];
        cells.extend(results::difference(cost.costs_us));
        cells.extend(cost.ratio.map_or_else(Default::default, judged));
        table.row(cells);
    }
    table.left(&[0, 1]).to_string()
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
    let costs = of_steps(&series, steps[0]);
    let tables = [&[text(&costs, steps[0])], more].concat();
    Outcome::of_series(&series, first(entrants), &tables)?.with("costs", &costs)
}

fn text(costs: &[Cost], whole: &str) -> String {
    let table = table(costs, "it takes µs less", &format!("{whole} ÷ it"));
    format!("Less time than \"{whole}\"\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_differences() {
        let series = |step, us| Series::uniform(step, "crun", us);
        let costs = of_steps(&[series("run", 3000), series("run without mqueue", 2000)], "run");
        let expected = "\
Less time than \"run\"
                                        it takes µs less         95 %  run ÷ it           95 %
run without mqueue, back-to-back  crun              1000  [1000 1000]     1.500  [1.500 1.500]
";
        assert_eq!(text(&costs, "run"), expected);
        let same = of_steps(&[series("run", 2000), series("run again", 2000)], "run");
        assert!(text(&same, "run").contains("nothing shown"), "{}", text(&same, "run"));
    }
}
