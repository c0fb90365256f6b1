//! `faas`: invokes functions in an open loop, with each runtime and each policy of keeping containers ready.
//!
//! | part | what |
//! |---|---|
//! | `schedule`, `azure`, `csv_lines` | the workload: functions at an interval, or a trace |
//! | `replay`, `replay/placing`, `instance` | a replay, the assignment of invocations to containers, and a container |
//! | `agent`, `kept` | the program of containers, and the templates that fork it |
//! | `histogram` | predicts when a container of a function is needed |
//! | `meter`, `bill` | the memory of containers, and what they cost |
//! | `arguments` | the arguments |
//! | `figures` | tables, CSV and pictures |
//!
//! The memory of a container counts for the function that it serves. A template is made before the first invocation is
//! due and kept until the end; its time and memory count for its function.

mod agent;
mod arguments;
mod azure;
mod bill;
mod figures;
mod histogram;
mod instance;
mod meter;
mod replay;
mod schedule;

pub use arguments::Faas;
pub use schedule::Workload;

use crate::burst;
use crate::harness::*;
use crate::restore::with_criu;
use crate::session::all;
use agent::Agent;
use arguments::{Arrivals, MINUTES, Policy, Regular};
use meter::By;
use schedule::Invocation;
use std::ops::AddAssign;

/// The results of one runtime with one policy, over all rounds.
#[derive(Debug, Clone, Default, Serialize)]
struct Row {
    runtime: String,
    policy: Policy,
    /// The least time of a start, in milliseconds.
    start_ms: f64,
    /// Times in seconds, and how many containers there are and are at work from then on.
    over_time: Vec<(f64, usize, usize)>,
    /// The function of each served invocation, by index.
    #[serde(skip)]
    functions: Vec<usize>,
    /// The cost of each function's containers, by the function's index.
    #[serde(skip)]
    costs: Vec<Cost>,
    /// The time when each invocation was due, in seconds from the beginning.
    due_s: Vec<f64>,
    /// The time from when each invocation was due until its code began, in microseconds.
    latencies_us: Vec<f64>,
    /// The time from when each invocation was due until it was done.
    totals_us: Vec<f64>,
    /// Whether each invocation waited for a container's start.
    was_cold: Vec<bool>,
    /// The number of cold starts.
    cold: usize,
    /// The share of cold starts in the served invocations.
    cold_share: f64,
    /// The number of failed invocations.
    failed: usize,
    /// The reason of the first failure.
    reason: Option<String>,
    /// The number of started containers, including containers of the stock and containers that were
    /// started before their invocation.
    started: usize,
    /// The maximum number of containers at a time.
    most: usize,
    /// The maximum number of busy containers at a time, after the first 30 % of the replay.
    busy_late: usize,
    /// `most` minus `busy_late`: the containers in excess of those that are busy.
    idle_late: usize,
    /// The minimum number of containers needed, computed from the functions' intervals and the median latency of a cold
    /// start.
    least: Option<usize>,
    /// The cost of all containers.
    #[serde(flatten)]
    cost: Cost,
    /// The method by which memory was measured.
    memory_by: Option<By>,
    /// The first runtime's latency ÷ this runtime's latency.
    ratio: Option<Estimate>,
}

/// One function's part of a row.
#[derive(Debug, Serialize)]
struct Part<'a> {
    runtime: &'a str,
    policy: Policy,
    function: &'a str,
    latencies_us: Vec<f64>,
    /// The share of cold starts in the function's served invocations.
    cold_share: f64,
    #[serde(flatten)]
    cost: Cost,
}

/// The resources that the containers of a function use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Cost {
    /// The containers' total time, in seconds per round.
    container_s: f64,
    /// The containers' memory multiplied by their time, in MiB·s per round.
    memory_mib_s: Option<f64>,
}

impl Cost {
    /// The cost of no containers.
    const NONE: Self = Self { container_s: 0.0, memory_mib_s: Some(0.0) };

    /// Returns the cost of one of so many rounds.
    fn of_each(self, rounds: usize) -> Self {
        let rounds = rounds as f64;
        let memory_mib_s = self.memory_mib_s.map(|sum| sum / rounds);
        Self { container_s: self.container_s / rounds, memory_mib_s }
    }
}

impl AddAssign for Cost {
    /// Adds another cost. If memory is unknown for one, it is unknown for the sum.
    fn add_assign(&mut self, other: Self) {
        self.container_s += other.container_s;
        let both = self.memory_mib_s.zip(other.memory_mib_s);
        self.memory_mib_s = both.map(|(sum, more)| sum + more);
    }
}

impl Experiment for Faas {
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        match self.has_checkpoints() {
            true => with_criu(all(common)?, self.criu.as_deref()),
            false => all(common),
        }
    }

    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        if !common.program.is_empty() {
            bail!("faas runs its own program in containers: leave PROGRAM out");
        }
        self.settle_namespace(common);
        Workload::of(self).map(drop)
    }

    /// For every policy, the runtimes take turns.
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let workload = Workload::of(self)?;
        let wakes = interrupt::wakes()?;
        burst::warm_up(stand, entrants, &[])?;
        let agent = Agent::of(self, stand)?;
        let mut rows: Vec<Row> = Vec::new();
        let starts = || self.start_time.iter().map(|time| time.as_secs_f64() * 1e3);
        let all = self.policy.iter().flat_map(|&policy| starts().map(move |ms| (policy, ms)));
        for (policy, start_ms) in all {
            let rounds = Rounds { timed: self.rounds, ..Rounds::default() };
            let new =
                |entrant: &Entrant| Row { start_ms, ..Row::new(&entrant.name, policy, &workload) };
            let mut of_policy: Vec<Row> = entrants.iter().map(new).collect();
            in_turns(entrants, rounds, "faas, replays", |at| {
                // Other runtimes have the other policies.
                if policy == Policy::Template && !entrants[at].runtime.is_dayfly() {
                    return Ok(());
                }
                let row = &mut of_policy[at];
                replay::replay(stand, &entrants[at], self, (&workload, &agent), row, &wakes)
                    .map_err(|error| error.during(policy.name()))
            })?;
            of_policy.iter_mut().for_each(|row| row.finish(&workload, self.rounds));
            rows.extend(of_policy);
        }
        let is_in = |row: &Row| entrants.iter().any(|it| it.name == row.runtime && !it.is_out());
        rows.retain(|row| is_in(row) && row.latencies_us.len() + row.failed > 0);
        compare(&mut rows, first(entrants));
        let parts: Vec<Part<'_>> = rows.iter().flat_map(|row| row.parts(&workload)).collect();
        let outcome = Outcome {
            text: figures::text(&rows, &parts, &workload, self),
            csv: figures::csv(&rows, &workload),
            pictures: figures::pictures(&rows, &parts),
            ..Outcome::default()
        };
        let outcome = outcome.with("workload", &workload.functions)?.with("rows", &rows)?;
        outcome.with("functions", &parts)
    }
}

/// Compares each row with the row of the first runtime for the same policy.
fn compare(rows: &mut [Row], first: &str) {
    let key = |row: &Row| (row.policy, row.start_ms);
    let base: Vec<((Policy, f64), Vec<f64>)> = rows
        .iter()
        .filter(|row| row.runtime == first)
        .map(|row| (key(row), row.latencies_us.clone()))
        .collect();
    for row in rows.iter_mut().filter(|row| row.runtime != first) {
        let base = base.iter().find(|(of, _)| *of == key(row));
        row.ratio = base
            .and_then(|(_, base)| bootstrap::ratio(base, &row.latencies_us, Pairing::Independent));
    }
}

/// Returns the number of containers that the functions need if they are invoked at fixed intervals: enough for all
/// invocations that become due while one container starts and serves its first invocation. `None` if the intervals of
/// any function vary.
fn least(workload: &Workload, cold_ms: f64) -> Option<usize> {
    let of = |function: &schedule::Function| {
        let every = function.every_ms?;
        // A container that becomes free just when an invocation is due can serve it.
        Some(((function.takes_ms + cold_ms) / every).ceil().max(1.0) as usize)
    };
    workload.functions.iter().map(of).sum()
}

impl Row {
    fn new(runtime: &str, policy: Policy, workload: &Workload) -> Self {
        let costs = vec![Cost::NONE; workload.functions.len()];
        Self { runtime: runtime.to_owned(), policy, cost: Cost::NONE, costs, ..Self::default() }
    }

    /// Adds an invocation that began and was done these times after it was due.
    fn add(&mut self, invocation: Invocation, begun: Duration, done: Duration, is_cold: bool) {
        self.functions.push(invocation.function);
        self.due_s.push(invocation.due.as_secs_f64());
        self.latencies_us.push(begun.as_secs_f64() * 1e6);
        self.totals_us.push(done.as_secs_f64() * 1e6);
        self.was_cold.push(is_cold);
    }

    /// Computes the summary after all rounds.
    fn finish(&mut self, workload: &Workload, rounds: usize) {
        self.cold = self.was_cold.iter().filter(|cold| **cold).count();
        self.cold_share = self.cold as f64 / self.was_cold.len().max(1) as f64;
        self.idle_late = self.most.saturating_sub(self.busy_late);
        for cost in self.costs.iter_mut().chain([&mut self.cost]) {
            *cost = cost.of_each(rounds);
        }
        let mut cold: Vec<f64> = self.of_cold().collect();
        if !cold.is_empty() && matches!(self.policy, Policy::KeepAlive | Policy::Histogram) {
            let median = host::measure::statistics::median(&mut cold);
            self.least = least(workload, median / 1e3);
        }
    }

    /// Returns the latencies of cold starts, in microseconds.
    fn of_cold(&self) -> impl Iterator<Item = f64> {
        let both = self.latencies_us.iter().zip(&self.was_cold);
        both.filter(|(_, is_cold)| **is_cold).map(|(us, _)| *us)
    }

    fn parts<'a>(&'a self, workload: &'a Workload) -> impl Iterator<Item = Part<'a>> {
        workload.functions.iter().enumerate().map(|(at, function)| {
            let all = self.latencies_us.iter().zip(&self.was_cold).zip(&self.functions);
            let own = all.filter(|(_, of)| **of == at).map(|((us, is_cold), _)| (*us, *is_cold));
            let (latencies_us, was_cold): (Vec<f64>, Vec<bool>) = own.unzip();
            let cold = was_cold.iter().filter(|is_cold| **is_cold).count();
            Part {
                runtime: &self.runtime,
                policy: self.policy,
                function: &function.name,
                cold_share: cold as f64 / was_cold.len().max(1) as f64,
                latencies_us,
                cost: self.costs.get(at).copied().unwrap_or_default(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;

    fn workload(words: &[&str]) -> Workload {
        Workload::of(&parse(words).expect("options")).expect("workload")
    }

    #[test]
    fn containers_that_must_be_there_are_counted() {
        // In the paper's example, a container that is started at 0 s becomes free at 1.25 s, and serves the invocation
        // that is due at 1.3 s.
        let requests = workload(&["--function", "100ms/1s", "--duration", "10s"]);
        assert_eq!(least(&requests, 250.0), Some(13));
        assert_eq!(least(&requests, 5.0), Some(11));
        assert_eq!(least(&requests, 0.0), Some(10));
        assert_eq!(least(&workload(&["--function", "1s/0"]), 0.0), Some(1));
        assert_eq!(least(&workload(&[]), 4.0), Some(2 + 1 + 7));
        assert_eq!(least(&workload(&["--arrivals", "random"]), 4.0), None);
    }

    #[test]
    fn rounds_are_summed_up() {
        let cost = |container_s, memory_mib_s| Cost { container_s, memory_mib_s };
        let workload = workload(&["--function", "100ms/1s", "--duration", "1s"]);
        let ms = std::time::Duration::from_millis;
        let mut row = Row::new("a", Policy::KeepAlive, &workload);
        for (invocation, begun, is_cold) in
            [(0, 20, true), (1, 1, false), (0, 20, true), (1, 1, false)]
        {
            row.add(workload.invocations[invocation], ms(begun), ms(begun + 1000), is_cold);
        }
        (row.most, row.busy_late) = (5, 2);
        row.cost += cost(8.0, Some(8.0));
        row.costs[0] += cost(6.0, Some(6.0));
        row.finish(&workload, 2);
        assert_eq!((row.cold, row.cold_share), (2, 0.5));
        assert_eq!((row.most, row.busy_late, row.idle_late), (5, 2, 3));
        assert_eq!(row.cost, cost(4.0, Some(4.0)));
        assert_eq!(row.least, Some(11));
        let parts: Vec<_> = row.parts(&workload).collect();
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].latencies_us, [20_000.0, 1000.0, 20_000.0, 1000.0]);
        assert_eq!(parts[0].cold_share, 0.5);
        assert_eq!(parts[0].cost, cost(3.0, Some(3.0)));
        // If a figure is unknown for one round, it is unknown for all.
        row.cost += cost(1.0, None);
        assert_eq!(row.cost.memory_mib_s, None);
    }
}
