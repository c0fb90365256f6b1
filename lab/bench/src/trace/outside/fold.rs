//! Folds the threads of a process into one row: the process's work, and the times in which all threads waited.

use trace::Span;

/// One thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The start of the thread, in nanoseconds.
    pub start: u64,
    /// The end of the thread, in nanoseconds.
    pub end: u64,
    /// The thread's calls, in order of time, none nested in another.
    pub spans: Vec<Span>,
    /// The call that the thread is in.
    pub call: Option<Span>,
    /// Whether this is a clone(2) that suspends its caller until the child executes a program (CLONE_VFORK).
    pub lends: bool,
}

/// Folds a process's threads into one row. If work of two threads overlaps and neither span
/// contains the other, the earlier span is cut where the later one begins. A process waits only
/// while all of its threads wait. Each such period is represented by the wait whose end is closest
/// to the period's end. So idle threads of a thread pool do not count as waits, and no time counts
/// twice.
pub fn fold(threads: &[Thread]) -> Vec<Span> {
    let all = || threads.iter().flat_map(|thread| &thread.spans);
    let mut spans = cut(all().filter(|span| span.wait.is_none()).cloned().collect());
    for (start, end) in idle(threads) {
        let overlapping =
            all().filter(|span| span.wait.is_some() && span.start < end && span.end > start);
        if let Some(span) = overlapping.min_by_key(|span| span.end.abs_diff(end)) {
            spans.push(Span { start, end, ..span.clone() });
        }
    }
    spans.sort_by_key(|span| span.start);
    spans
}

/// Returns the periods in which every live thread waits, as pairs of start and end.
fn idle(threads: &[Thread]) -> Vec<(u64, u64)> {
    let mut busy: Vec<(u64, u64)> = Vec::new();
    for thread in threads {
        let mut from = thread.start;
        for wait in thread.spans.iter().filter(|span| span.wait.is_some()) {
            busy.push((from, wait.start));
            from = wait.end;
        }
        busy.push((from, thread.end));
    }
    busy.retain(|(from, to)| from < to);
    busy.sort_unstable();
    let start = threads.iter().map(|thread| thread.start).min().unwrap_or(0);
    let end = threads.iter().map(|thread| thread.end).max().unwrap_or(0);
    let mut idle = Vec::new();
    let mut done = start;
    for (from, to) in busy {
        if from > done {
            idle.push((done, from));
        }
        done = done.max(to);
    }
    if end > done {
        idle.push((done, end));
    }
    idle
}

/// Cuts the earlier of two overlapping spans where the later one begins, unless the earlier one contains the later one.
/// Any two of the returned spans are nested or disjoint.
fn cut(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut open: Vec<usize> = Vec::new();
    for next in 0..spans.len() {
        let (start, end) = (spans[next].start, spans[next].end);
        while let Some(&top) = open.last() {
            if spans[top].end > start && spans[top].end >= end {
                break;
            }
            spans[top].end = spans[top].end.min(start);
            open.pop();
        }
        open.push(next);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::{Account, Awaited, Row};

    fn work(start: u64, end: u64) -> Span {
        Span { start, end, ..Span::default() }
    }

    fn wait(start: u64, end: u64) -> Span {
        Span { wait: Some(Awaited::Other), ..work(start, end) }
    }

    fn thread(start: u64, end: u64, spans: Vec<Span>) -> Thread {
        Thread { start, end, spans, ..Thread::default() }
    }

    fn times(spans: &[Span]) -> Vec<(u64, u64, bool)> {
        spans.iter().map(|span| (span.start, span.end, span.wait.is_some())).collect()
    }

    #[test]
    fn one_thread_is_as_it_was() {
        let spans = vec![work(1, 3), wait(3, 8), work(9, 10)];
        let thread = thread(0, 10, spans.clone());
        assert_eq!(fold(&[thread]), spans);
    }

    #[test]
    fn idle_threads_do_not_count() {
        let busy = thread(0, 100, vec![work(10, 60), wait(70, 90)]);
        let idle = thread(5, 100, vec![wait(6, 100)]);
        assert_eq!(times(&fold(&[busy, idle])), [(10, 60, false), (70, 90, true)]);
    }

    #[test]
    fn waits_are_those_of_all() {
        let one = thread(0, 100, vec![wait(10, 50), work(50, 60)]);
        let other = thread(0, 100, vec![work(0, 20), wait(20, 100)]);
        let folded = fold(&[one, other]);
        assert_eq!(times(&folded), [(0, 20, false), (20, 50, true), (50, 60, false)]);
    }

    #[test]
    fn spans_lie_within_each_other_or_apart() {
        let one = thread(0, 100, vec![work(10, 40), work(50, 90)]);
        let other = thread(0, 100, vec![work(30, 60), work(65, 70)]);
        let folded = fold(&[one, other]);
        assert_eq!(
            times(&folded),
            [(10, 30, false), (30, 50, false), (50, 90, false), (65, 70, false)]
        );
        let row = Row { start: 0, end: 100, spans: folded, ..Row::default() };
        let account = Account::of(&row);
        assert_eq!(account.own.iter().sum::<u64>() + account.between, 100);
    }
}
