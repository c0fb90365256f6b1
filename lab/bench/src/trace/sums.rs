//! Adds up one command's time by phase, by step, and along the critical path.

use super::outside::Observed;
use std::collections::{BTreeMap, BTreeSet};
use trace::{Account, Phase, Row, Span, Timeline, critical_path};

/// The identity of a step across starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The process of the step.
    pub row: String,
    /// The phase of the step.
    pub phase: Phase,
    /// The name of the step.
    pub name: String,
    /// The object of the step, without parts that differ from start to start.
    pub object: String,
}

/// The category of a part of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The work of a phase.
    Work(Phase),
    /// The time between two steps.
    Between,
    /// Wake-up latency: the time from the event that ends a wait until the waiting process runs again.
    Wait,
}

/// A time and a number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// The time in nanoseconds.
    pub time: u64,
    /// The number of calls.
    pub calls: usize,
}

impl Sum {
    fn add(&mut self, time: u64) {
        self.time += time;
        self.calls += 1;
    }
}

/// The sums of one command. The times of work, `between` and `waits` add up to `rows`; the times on the critical path
/// add up to `wall`.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// The time from the command's start to its end.
    pub wall: u64,
    /// The sum of the times of all the command's processes, which overlap.
    pub rows: u64,
    /// Work by phase.
    pub work: BTreeMap<Phase, Sum>,
    /// The names of the steps of each phase.
    pub names: BTreeMap<Phase, BTreeSet<String>>,
    /// The time between steps; in a trace from outside, this is the time in user space.
    pub between: u64,
    /// The time and number of waits.
    pub waits: Sum,
    /// The work of each step, without the steps nested in it.
    pub steps: BTreeMap<Step, Sum>,
    /// The time on the critical path by category.
    pub path: BTreeMap<Share, u64>,
    /// The time on the critical path by row, name of the step, and category.
    pub path_steps: BTreeMap<(String, String, Share), Sum>,
}

impl Sums {
    /// Sums up a command.
    #[must_use]
    pub fn of(observed: &Observed) -> Self {
        let timeline = &observed.timeline;
        let mut sums = Self::default();
        for row in &timeline.rows {
            sums.add_row(row, &timeline.id);
        }
        sums.wall = timeline.rows.first().map_or(0, Row::took);
        sums.add_path(timeline);
        sums
    }

    fn add_row(&mut self, row: &Row, id: &str) {
        let account = Account::of(row);
        self.rows += row.took();
        self.between += account.between;
        for (span, &own) in row.spans.iter().zip(&account.own) {
            if span.wait.is_some() {
                self.waits.add(own);
                continue;
            }
            self.work.entry(span.phase).or_default().add(own);
            self.names.entry(span.phase).or_default().insert(span.name.clone());
            self.steps.entry(Step::of(row, span, id)).or_default().add(own);
        }
    }

    fn add_path(&mut self, timeline: &Timeline) {
        for stretch in critical_path(timeline) {
            let Some(row) = timeline.rows.get(stretch.row) else { continue };
            let span = stretch.span.and_then(|at| row.spans.get(at));
            let (share, name) = match span {
                None => (Share::Between, ""),
                Some(span) if span.wait.is_some() => (Share::Wait, span.name.as_str()),
                Some(span) => (Share::Work(span.phase), span.name.as_str()),
            };
            let time = stretch.end.saturating_sub(stretch.start);
            *self.path.entry(share).or_default() += time;
            let key = (row.name.clone(), name.to_owned(), share);
            self.path_steps.entry(key).or_default().add(time);
        }
    }

    /// Returns the number of all calls, including waits.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.waits.calls + self.work.values().map(|sum| sum.calls).sum::<usize>()
    }

    /// Returns the nanoseconds of work for a phase.
    #[must_use]
    pub fn work(&self, phase: Phase) -> u64 {
        self.work.get(&phase).map_or(0, |sum| sum.time)
    }
}

impl Step {
    fn of(row: &Row, span: &Span, id: &str) -> Self {
        Self {
            row: row.name.clone(),
            phase: span.phase,
            name: span.name.clone(),
            object: general(&span.object, id),
        }
    }
}

/// Returns an object's name without the container's id and process ids, so that it is the same in every start.
fn general(object: &str, id: &str) -> String {
    let object = if id.is_empty() { object.to_owned() } else { object.replace(id, "%i") };
    let Some((before, after)) = object.split_once("/proc/") else { return object };
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    match after.get(digits..) {
        Some(rest) if digits > 0 => format!("{before}/proc/%p{rest}"),
        _ => object,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use trace::Awaited;

    /// Returns a command of 100 ns with a child of 60 ns, 40 ns of which are concurrent with the command.
    pub fn observed() -> Observed {
        let span = |phase, name: &str, start, end| Span {
            phase,
            name: name.to_owned(),
            start,
            end,
            ..Span::default()
        };
        let wait = |row, start, end| Span {
            wait: Some(Awaited::Row(row)),
            ..span(Phase::Sync, "await", start, end)
        };
        let host = vec![
            span(Phase::Configuration, "read config", 0, 20),
            span(Phase::Bootstrap, "clone", 20, 30),
            span(Phase::Cgroups, "enter cgroup", 35, 50),
            wait(1, 50, 92),
            span(Phase::Shutdown, "exit", 92, 100),
        ];
        let init = vec![
            span(Phase::Mounts, "mount", 30, 60),
            Span { object: "/proc/71/x/c-1".to_owned(), ..span(Phase::Mounts, "mount", 60, 80) },
            span(Phase::Security, "load seccomp", 80, 90),
        ];
        let row = |name: &str, parent, start, end, spans| Row {
            name: name.to_owned(),
            parent,
            start,
            end,
            spans,
            ..Row::default()
        };
        let rows = vec![row("parent", None, 0, 100, host), row("init", Some(0), 30, 90, init)];
        let timeline = Timeline { id: "c-1".to_owned(), rows, ..Timeline::default() };
        Observed { timeline, ..Observed::default() }
    }

    #[test]
    fn it_all_adds_up() {
        let sums = Sums::of(&observed());
        let work: u64 = Phase::ALL.iter().map(|&phase| sums.work(phase)).sum();
        assert_eq!((sums.wall, sums.rows), (100, 160));
        assert_eq!(work + sums.between + sums.waits.time, sums.rows);
        assert_eq!(sums.path.values().sum::<u64>(), sums.wall);
        let by_step: u64 = sums.path_steps.values().map(|sum| sum.time).sum();
        assert_eq!(by_step, sums.wall);
    }

    #[test]
    fn calls_and_names_are_told_apart() {
        let sums = Sums::of(&observed());
        assert_eq!(sums.work[&Phase::Mounts], Sum { time: 50, calls: 2 });
        assert_eq!(sums.names[&Phase::Mounts].len(), 1);
        assert_eq!(sums.waits, Sum { time: 42, calls: 1 });
        assert!(sums.path[&Share::Work(Phase::Mounts)] > 0, "{sums:?}");
    }

    #[test]
    fn objects_are_the_same_in_every_start() {
        assert_eq!(general("/proc/71/x/c-1", "c-1"), "/proc/%p/x/%i");
        assert_eq!(general("/proc/self/c", ""), "/proc/self/c");
    }
}
