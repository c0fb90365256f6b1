//! Figures over many starts of one runtime's command.

use super::calibrate::Cost;
use super::outside::Observed;
use super::sums::{Share, Step, Sums};
use crate::harness::*;
use trace::Phase;

/// The number of slowest steps shown.
const SLOWEST: usize = 12;
/// The share of the critical path below which a step is not shown separately.
const SMALL: f64 = 0.01;

/// The figures of a runtime's command over all starts. Times are in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The runtime, and how it was traced.
    pub runtime: String,
    /// `run`, `create`, ….
    pub command: String,
    /// The time from the command's start to its end.
    pub wall_us: Summary,
    /// The categories of Table I in "Opportunities for Optimizing the Container Runtime", then shutdown, then the
    /// container's program.
    pub phases: Vec<Category>,
    /// The time between steps.
    pub between: Category,
    /// The time of waits.
    pub waits: Category,
    /// The runtime's work: all phases except the program's, plus the time between steps.
    pub work_us: Summary,
    /// The sum of the times of all processes, which overlap: work, waits, and the container's program.
    pub processes_us: Summary,
    /// The slowest steps.
    pub slowest: Vec<Slow>,
    /// The critical path: the steps that determined when the command ended.
    pub path: Vec<OnPath>,
    /// The untraced time of the same command; `None` without untraced starts.
    pub untraced_us: Option<Summary>,
    /// The ratio of the traced to the untraced median.
    pub times: Option<f64>,
    /// The ratio of the traced to the untraced time with its interval; `None` with too few starts.
    pub times_95: Option<Estimate>,
    /// The cost of tracing from outside.
    pub outside: Option<Outside>,
}

/// A category of time: a phase, the time between steps, or waits.
#[derive(Debug, Clone, Serialize)]
pub struct Category {
    /// The name of the category.
    pub name: String,
    /// The time of all processes.
    pub time_us: Summary,
    /// The category's share of the runtime's work; `None` for waits and the program.
    pub share: Option<f64>,
    /// The number of steps with different names.
    pub steps: usize,
    /// The mean number of calls per start.
    pub calls: f64,
    /// The mean time of the category on the critical path, in microseconds.
    pub path_us: f64,
    /// The share of the wall time that the category takes on the critical path.
    pub path_share: f64,
    /// The part of the time that tracing by ptrace(2) adds, estimated from the number of calls.
    pub tracing_us: Option<f64>,
}

/// A slow step.
#[derive(Debug, Clone, Serialize)]
pub struct Slow {
    /// The process of the step.
    pub row: String,
    /// The phase of the step.
    pub phase: Phase,
    /// The name of the step.
    pub name: String,
    /// The object of the step.
    pub object: String,
    /// The step's own time per start, in microseconds.
    pub time_us: Summary,
    /// The mean number of calls per start.
    pub calls: f64,
    /// The step's share of the runtime's work.
    pub share: f64,
}

/// Steps of one name on the critical path.
#[derive(Debug, Clone, Serialize)]
pub struct OnPath {
    /// The process.
    pub row: String,
    /// The name of the steps; empty for the time between steps.
    pub name: String,
    /// The phase of the steps (`mounts`, …), or `between` or `waits`.
    pub part: String,
    /// The mean time.
    pub mean_us: f64,
    /// The share of the wall time that these steps take.
    pub share: f64,
    /// The mean number of pieces of the critical path that these steps make up, per start.
    pub pieces: f64,
}

/// The cost of tracing from outside.
#[derive(Debug, Clone, Serialize)]
pub struct Outside {
    /// The mean number of the tracees' stops.
    pub stops: f64,
    /// The mean time, per start, for which the tracer held the tracees stopped.
    pub held_us: f64,
    /// The time that tracing adds to all processes, estimated from the number of calls.
    pub tracing_us: f64,
    /// The part of `tracing_us` that appears as the time of calls.
    pub within_us: f64,
}

impl Figures {
    /// Returns the categories that the runtime and the container's program work in: all except the waits.
    pub fn phases_and_between(&self) -> impl Iterator<Item = &Category> {
        self.phases.iter().chain([&self.between])
    }

    /// Computes the figures; `None` without starts.
    pub fn of(
        runtime: &str,
        command: &str,
        starts: &[&Observed],
        untraced_us: &[f64],
        cost: Option<Cost>,
    ) -> Option<Self> {
        let sums: Vec<Sums> = starts.iter().map(|start| Sums::of(start)).collect();
        let over = |figure: &dyn Fn(&Sums) -> u64| summary(sums.iter().map(figure));
        let (wall_us, work_us) =
            (over(&|sums| sums.wall)?, over(&|sums| sums.of_steps(Share::is_of_runtime).0)?);
        let part = |name: &str, share: Share| {
            let is_it = |of: Share| of == share;
            let names = sums.iter().flat_map(|sums| &sums.steps);
            let names = names.filter(|(step, _)| step.share == share).map(|(step, _)| &step.name);
            let on_path = |sums: &Sums| {
                sums.path.iter().filter(|(step, _)| step.share == share).map(|(_, time)| time).sum()
            };
            let (time_us, path_us) = (over(&|sums| sums.of_steps(is_it).0)?, over(&on_path)?.mean);
            let calls = mean(&sums, |sums| sums.of_steps(is_it).1);
            let is_counted = share != Share::Between;
            Some(Category {
                name: name.to_owned(),
                time_us,
                share: share.is_of_runtime().then_some(time_us.mean / work_us.mean),
                steps: match share {
                    Share::Work(_) => names.collect::<BTreeSet<_>>().len(),
                    _ => 0,
                },
                calls: if is_counted { calls } else { 0.0 },
                path_us,
                path_share: path_us / wall_us.mean,
                tracing_us: cost.filter(|_| is_counted).map(|cost| calls * cost.within_us),
            })
        };
        let phases = Phase::ALL.iter().map(|&phase| part(phase.name(), Share::Work(phase)));
        let untraced = Summary::of(untraced_us);
        let walls_us: Vec<f64> = sums.iter().map(|sums| sums.wall as f64 / 1e3).collect();
        let outside = cost.map(|cost| outside(starts, &sums, cost));
        let name = if cost.is_some() { "between calls" } else { "between steps" };
        let mut between = part(name, Share::Between)?;
        between.tracing_us = outside.as_ref().map(|outside| outside.tracing_us - outside.within_us);
        Some(Self {
            runtime: runtime.to_owned(),
            command: command.to_owned(),
            wall_us,
            phases: phases.collect::<Option<_>>()?,
            between,
            waits: part("waits", Share::Wait)?,
            work_us,
            processes_us: over(&|sums| sums.rows)?,
            slowest: slowest(&sums, work_us.mean),
            path: path(&sums, wall_us.mean),
            untraced_us: untraced,
            times_95: bootstrap::ratio(&walls_us, untraced_us, Pairing::Paired),
            times: untraced.map(|untraced| wall_us.median / untraced.median),
            outside,
        })
    }
}

/// Summarizes times of all starts, given in nanoseconds, in microseconds.
fn summary(times: impl Iterator<Item = u64>) -> Option<Summary> {
    Summary::of(&times.map(|time| time as f64 / 1e3).collect::<Vec<_>>())
}

fn mean(sums: &[Sums], count: impl Fn(&Sums) -> usize) -> f64 {
    sums.iter().map(count).sum::<usize>() as f64 / sums.len().max(1) as f64
}

/// One step over all starts: its time in each start, and the mean number of its occurrences.
struct Total<'a> {
    step: &'a Step,
    time_us: Summary,
    calls: f64,
}

/// Returns the totals of the steps of all starts; the one that takes longest comes first.
fn totals<'a>(sums: &'a [Sums], steps: fn(&Sums) -> &[(Step, u64)]) -> Vec<Total<'a>> {
    let mut totals: BTreeMap<&Step, (Vec<u64>, usize)> = BTreeMap::new();
    for (start, of) in sums.iter().enumerate() {
        for (step, time) in steps(of) {
            let total = totals.entry(step).or_insert_with(|| (vec![0; sums.len()], 0));
            total.0[start] += time;
            total.1 += 1;
        }
    }
    let total = |(step, (times, calls)): (&'a Step, (Vec<u64>, usize))| {
        let time_us = summary(times.into_iter())?;
        Some(Total { step, time_us, calls: calls as f64 / sums.len() as f64 })
    };
    let mut totals: Vec<Total<'_>> = totals.into_iter().filter_map(total).collect();
    totals.sort_by(|one, other| other.time_us.mean.total_cmp(&one.time_us.mean));
    totals
}

fn slowest(sums: &[Sums], work_us: f64) -> Vec<Slow> {
    let slow = |total: Total<'_>| match total.step.share {
        Share::Work(phase) if phase != Phase::Program => Some(Slow {
            row: total.step.row.clone(),
            phase,
            name: total.step.name.clone(),
            object: total.step.object.clone(),
            time_us: total.time_us,
            calls: total.calls,
            share: total.time_us.mean / work_us,
        }),
        _ => None,
    };
    totals(sums, |sums| &sums.steps).into_iter().filter_map(slow).take(SLOWEST).collect()
}

fn path(sums: &[Sums], wall_us: f64) -> Vec<OnPath> {
    let on_path = |total: Total<'_>| {
        let part = match total.step.share {
            Share::Work(phase) => phase.name(),
            Share::Between => "between",
            Share::Wait => "waits",
        };
        OnPath {
            row: total.step.row.clone(),
            name: total.step.name.clone(),
            part: part.to_owned(),
            mean_us: total.time_us.mean,
            share: total.time_us.mean / wall_us,
            pieces: total.calls,
        }
    };
    let path = totals(sums, |sums| &sums.path).into_iter().map(on_path);
    path.filter(|on_path| on_path.share >= SMALL).collect()
}

fn outside(starts: &[&Observed], sums: &[Sums], cost: Cost) -> Outside {
    let count = starts.len() as f64;
    let stops: u64 = starts.iter().map(|start| start.held.stops).sum();
    let held: u64 = starts.iter().map(|start| start.held.time).sum();
    let held_us = held as f64 / 1e3 / count;
    let calls = mean(sums, |sums| sums.of_steps(|share| share != Share::Between).1);
    // The tracer holds the calibration program for a shorter time than a runtime, because it looks up the arguments of
    // a runtime's calls. So the measured `held_us` replaces that of the calibration.
    let switching_us = calls * (cost.call_us - cost.within_us - cost.held_us).max(0.0);
    Outside {
        stops: stops as f64 / count,
        held_us,
        within_us: calls * cost.within_us,
        tracing_us: calls * cost.within_us + switching_us + held_us,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn figures(runtime: &str) -> Figures {
        let start = super::super::sums::tests::observed();
        let cost = Cost { call_us: 0.004, within_us: 0.001, held_us: 0.001 };
        Figures::of(runtime, "run", &[&start, &start], &[0.05], Some(cost)).expect("two starts")
    }

    #[test]
    fn what_tracing_adds_is_told() {
        let figures = figures("x");
        let outside = figures.outside.as_ref().expect("seen from outside");
        assert_eq!(figures.times, Some(2.0));
        let parts = figures.phases.iter().chain([&figures.between, &figures.waits]);
        let tracing: f64 = parts.filter_map(|part| part.tracing_us).sum();
        assert!((tracing - outside.tracing_us).abs() < 1e-9, "{figures:?}");
        // The start has eight calls.
        assert!((outside.tracing_us - 8.0 * 0.003).abs() < 1e-9, "{outside:?}");
    }

    #[test]
    fn slow_steps_come_first() {
        let figures = figures("x");
        assert_eq!((figures.slowest[0].name.as_str(), figures.slowest[0].calls), ("mount", 1.0));
        assert!(figures.path.windows(2).all(|two| two[0].mean_us >= two[1].mean_us));
    }

    #[test]
    fn nothing_says_nothing() {
        assert!(Figures::of("x", "run", &[], &[], None).is_none());
    }
}
