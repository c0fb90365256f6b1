//! Splits one command's time into its steps, and into the pieces of its critical path.

use super::outside::Observed;
use trace::{Account, Phase, Row, critical_path};

/// The identity of a step across starts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The process of the step.
    pub row: String,
    /// The category of its time.
    pub share: Share,
    /// The name of the step; empty for the time between steps.
    pub name: String,
    /// The object of the step, without parts that differ from start to start.
    pub object: String,
}

/// A category of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// The work of a phase.
    Work(Phase),
    /// The time between two steps; in a trace from outside, this is the time in user space.
    Between,
    /// A wait. On the critical path, this is wake-up latency: the time from the event that ends a wait until the waiting
    /// process runs again.
    Wait,
}

impl Share {
    /// Returns whether this time counts as work of the runtime.
    pub fn is_of_runtime(self) -> bool {
        !matches!(self, Self::Wait | Self::Work(Phase::Program))
    }
}

/// The times of one command in nanoseconds. The times of `steps` add up to `rows`, and those of `path` to `wall`.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// The time from the command's start to its end.
    pub wall: u64,
    /// The sum of the times of all the command's processes, which overlap.
    pub rows: u64,
    /// The time of each step, without the steps nested in it, and the time between the steps of each process.
    pub steps: Vec<(Step, u64)>,
    /// The pieces of the critical path. Their steps have no objects.
    pub path: Vec<(Step, u64)>,
}

impl Sums {
    /// Splits the times of a command.
    pub fn of(observed: &Observed) -> Self {
        let timeline = &observed.timeline;
        let step = |row: &Row, span: Option<usize>| {
            let span = span.and_then(|at| row.spans.get(at));
            let share = match span {
                None => Share::Between,
                Some(span) if span.wait.is_some() => Share::Wait,
                Some(span) => Share::Work(span.phase),
            };
            let name = span.map_or_else(String::new, |span| span.name.clone());
            Step { row: row.name.clone(), share, name, object: String::new() }
        };
        let steps_of = |row: &Row| {
            let Account { own, between } = Account::of(row);
            let steps = own.into_iter().zip(&row.spans).enumerate().map(|(at, (own, span))| {
                let object = general(&span.object, &timeline.id);
                (Step { object, ..step(row, Some(at)) }, own)
            });
            steps.chain([(step(row, None), between)]).collect::<Vec<_>>()
        };
        let path = critical_path(timeline).into_iter().filter_map(|piece| {
            Some((step(timeline.rows.get(piece.row)?, piece.span), piece.took()))
        });
        Self {
            wall: timeline.rows.first().map_or(0, Row::took),
            rows: timeline.rows.iter().map(Row::took).sum(),
            steps: timeline.rows.iter().flat_map(steps_of).collect(),
            path: path.collect(),
        }
    }

    /// Returns the time of the steps of the given categories, and their number.
    pub fn of_steps(&self, counts: impl Fn(Share) -> bool) -> (u64, usize) {
        let of = self.steps.iter().filter(|(step, _)| counts(step.share));
        of.fold((0, 0), |(time, calls), (_, own)| (time + own, calls + 1))
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
    use trace::{Awaited, Span, Timeline};

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
    fn objects_are_the_same_in_every_start() {
        assert_eq!(general("/proc/71/x/c-1", "c-1"), "/proc/%p/x/%i");
        assert_eq!(general("/proc/self/c", ""), "/proc/self/c");
    }
}
