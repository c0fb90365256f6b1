//! `trace-overhead`: measures how much time dayfly's own trace costs, by pairs of starts with and
//! without a trace.

use crate::harness::*;
use crate::process::Sample;
use crate::spaced;
use crate::steps::{self, Cost};

/// `trace-overhead`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |rounds| rounds.default_value("300")))]
#[command(mut_arg("runtimes", |runtimes| runtimes.help("A dayfly [default: this one]")))]
pub struct TraceOverhead {
    /// The number of rounds, and pauses.
    #[command(flatten)]
    pub timing: Timing,
}

/// The maximum accepted ratio of a traced start's time to an untraced start's time.
const BAR: f64 = 1.01;
/// The untraced entrant.
const OFF: &str = "untraced";
/// The steps.
const BEGUN: &str = "until its program runs";
const GONE: &str = "until it is gone";

impl Experiment for TraceOverhead {
    /// Returns dayfly without a trace, with a trace as JSON lines in memory, and with a trace printed as a table.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let own = Entrant::new(session::own(common)?);
        let named = |name: &str, options: &[&str]| {
            let options = options.iter().map(|&word| word.to_owned()).collect();
            Entrant { options, ..own.called(name) }
        };
        // In memory.
        let file = format!("/dev/shm/dayfly-trace-{}.jsonl", std::process::id());
        Ok(vec![
            named(OFF, &[]),
            named("--trace FILE.jsonl", &["--trace", &file]),
            named("--trace -", &["--trace", "-"]),
        ])
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let mut series = Vec::new();
        for rounds in self.timing.by_pause() {
            series.extend(until_begun(stand, entrants, rounds)?);
            let gone = race(stand, entrants, Operation::Run, rounds, || Ok(()))?;
            series.extend(gone.into_iter().map(|of| Series { step: GONE.to_owned(), ..of }));
        }
        for file in entrants.iter().filter_map(|entrant| entrant.options.get(1)) {
            let _ = std::fs::remove_file(file);
        }
        let costs = steps::of_entrants(&series, OFF);
        let tables = [steps::table(&costs, "more µs", "it ÷ untraced"), verdicts(&costs)];
        Outcome::of_series(&series, OFF, &tables)?.with("costs", &costs)
    }
}

/// Times the starts until the container's program reports that it runs.
fn until_begun(stand: &Stand, entrants: &[Entrant], rounds: Rounds) -> Result<Vec<Series>, Error> {
    let title = results::title(BEGUN, rounds.pause.as_secs_f64() * 1e3);
    let samples = in_turns(entrants, rounds, &title, |at| {
        Ok([Sample { wall: spaced::at_once(stand, &entrants[at])?, ..Sample::default() }])
    })?;
    Ok(series_by_step(entrants, &[BEGUN], rounds.pause, &samples))
}

/// Tells whether each way of tracing costs at most 1 %.
fn verdicts(costs: &[Cost]) -> String {
    let within = |ratio: Option<Estimate>| {
        ratio.map_or_else(dash, |it| format!("{}: {:.4}", it.within(BAR), it.value))
    };
    let table = Table::of(
        costs,
        &[
            ("", &|it| it.title()),
            ("", &|it| it.runtime.clone()),
            ("≤ 1 %", &|it| within(it.ratio)),
            ("lower quartiles ≤ 1 %", &|it| within(it.quartile_ratio)),
        ],
    );
    table.left(&[0, 1]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_compared() {
        let series = |name, us| Series::uniform(GONE, name, us);
        let costs = steps::of_entrants(&[series(OFF, 1000), series("x", 1100)], OFF);
        assert_eq!(costs.len(), 1);
        assert!(costs[0].ratio.is_some_and(|ratio| (ratio.value - 1.1).abs() < 1e-9));
        assert!(verdicts(&costs).contains("no: 1.1000"), "{}", verdicts(&costs));
    }
}
