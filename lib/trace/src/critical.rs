//! The critical path: the sequence of work and waits that determined when the command ended.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::{Awaited, Phase, Row, Span, Timeline};

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The index of the row that contains the piece.
    pub row: usize,
    /// The index of the span in the row; `None` for the time between two spans.
    pub span: Option<usize>,
    /// The start time of the piece, in nanoseconds.
    pub start: u64,
    /// The end time of the piece, in nanoseconds.
    pub end: u64,
}

impl Stretch {
    /// Returns the nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the span of the piece, if there is one.
    pub fn span<'a>(&self, timeline: &'a Timeline) -> Option<&'a Span> {
        timeline.rows.get(self.row)?.spans.get(self.span?)
    }
}

/// Returns the critical path in order of time: each piece ends where the next one begins, and the last one ends with
/// the command.
///
/// The path is followed backwards from the end of the command. Where the current row waited for another row, the path
/// continues with the last step of the other row; the time from the end of that step to the end of the wait is wake-up
/// latency. Where the current row begins, the path continues in the row that created it.
pub fn critical_path(timeline: &Timeline) -> Vec<Stretch> {
    path(timeline, &cuts(timeline))
}

/// Returns the pieces of all rows.
pub(crate) fn cuts(timeline: &Timeline) -> Vec<Vec<Stretch>> {
    timeline.rows.iter().enumerate().map(|(index, row)| cut(row, index)).collect()
}

/// Returns the critical path, given the pieces of all rows.
pub(crate) fn path(timeline: &Timeline, cuts: &[Vec<Stretch>]) -> Vec<Stretch> {
    let rows = &timeline.rows;
    let mut path = Vec::new();
    let (mut at, mut time) = (0, rows.first().map_or(0, |row| row.end));
    // The number of row changes since the last step back in time. If it exceeds the number of rows, the rows form a
    // cycle.
    let mut idle = 0;
    while let (Some(row), Some(pieces)) = (rows.get(at), cuts.get(at)) {
        let place = pieces.partition_point(|piece| piece.start < time);
        let Some(piece) = place.checked_sub(1).and_then(|last| pieces.get(last)) else {
            match row.parent {
                Some(parent) if idle <= rows.len() => {
                    (at, idle) = (parent, idle + 1);
                    continue;
                }
                _ => break,
            }
        };
        if piece.end < time {
            // The row ended before this time.
            path.push(Stretch { row: at, span: None, start: piece.end, end: time });
            time = piece.end;
        }
        let mut begin = piece.start;
        if let Some(Awaited::Row(other)) = piece.span(timeline).and_then(|span| span.wait)
            && let (Some(giver), Some(done)) = (rows.get(other), cuts.get(other))
            && let Some(given) = given(giver, done, (begin, time))
            && idle <= rows.len()
        {
            (at, begin, idle) = (other, given, idle + 1);
        }
        if begin < time {
            path.push(Stretch { start: begin, end: time, ..*piece });
            (time, idle) = (begin, 0);
        }
    }
    path.reverse();
    path
}

/// Returns the time at which `row` ended a wait of another row: the time at which `row` ended or
/// sent a message. If `row` did neither during the wait, returns the end of the last work of `row`
/// during the wait, but at most the end of the wait.
fn given(row: &Row, pieces: &[Stretch], (from, to): (u64, u64)) -> Option<u64> {
    if row.end > from && row.end <= to {
        return Some(row.end);
    }
    let last = pieces.partition_point(|piece| piece.start < to);
    let work = pieces.get(..last)?.iter().rev().take_while(|piece| piece.end > from);
    let mut done = None;
    for piece in work {
        let Some(span) = piece.span.and_then(|span| row.spans.get(span)) else { continue };
        if span.wait.is_none() {
            let end = piece.end.min(to);
            if span.phase == Phase::Sync {
                return Some(end);
            }
            done = done.or(Some(end));
        }
    }
    done
}

/// Cuts the lifetime of a row, whose index is given, into pieces from its start to its end. Where spans overlap, the
/// piece belongs to the span that started last, as in an [`Account`](crate::Account).
pub(crate) fn cut(row: &Row, index: usize) -> Vec<Stretch> {
    let finish = row.end.max(row.start);
    let clip = |time: u64| time.clamp(row.start, finish);
    let times = |span: usize| {
        row.spans.get(span).map_or((finish, 0), |span| (clip(span.start), clip(span.end)))
    };
    let coming = order(row.spans.len(), &|a, b| {
        let (a, b) = (times(a), times(b));
        (a.0, b.1).cmp(&(b.0, a.1))
    });

    let mut pieces: Vec<Stretch> = Vec::with_capacity(row.spans.len() * 2 + 1);
    let mut open: Vec<(usize, u64)> = Vec::new();
    let mut now = row.start;
    // After the last span, the end of the row is processed.
    for next in coming.into_iter().map(Some).chain([None]) {
        let (begin, end) = next.map_or((finish, finish), times);
        while now < begin {
            // A span that ended while a nested span was open is removed only now, when it is at the top of the stack.
            while open.last().is_some_and(|(_, end)| *end <= now) {
                open.pop();
            }
            let span = open.last().map(|(span, _)| *span);
            let end = open.last().map_or(begin, |(_, end)| begin.min(*end));
            match pieces.last_mut() {
                Some(last) if last.span == span => last.end = end,
                _ => pieces.push(Stretch { row: index, span, start: now, end }),
            }
            now = end;
        }
        open.extend(next.map(|span| (span, end)));
    }
    pieces
}

/// Returns a stable order of the indices below `len`.
pub(crate) fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    fn span(name: &str, (start, end): (u64, u64), wait: Option<Awaited>) -> Span {
        Span { name: name.into(), start, end, wait, ..Span::default() }
    }

    fn row(parent: Option<usize>, (start, end): (u64, u64), spans: Vec<Span>) -> Row {
        Row { parent, start, end, spans, ..Row::default() }
    }

    #[track_caller]
    fn check(rows: Vec<Row>, expected: &[(usize, &str, u64, u64)]) {
        let timeline = Timeline { rows, ..Timeline::default() };
        let path = critical_path(&timeline);
        let name = |piece: &Stretch| piece.span(&timeline).map_or("between", |span| &span.name);
        let told = path.iter().map(|piece| (piece.row, name(piece), piece.start, piece.end));
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_path_leaves_a_wait_for_whom_it_waits_for_and_a_birth_for_the_parent() {
        let host = vec![
            span("clone", (10, 30), None),
            span("cgroup", (30, 40), None),
            span("await ready", (45, 80), Some(Awaited::Row(1))),
            span("commit", (80, 90), None),
        ];
        let init = vec![
            span("mount", (25, 70), None),
            span("await commit", (70, 85), Some(Awaited::Row(0))),
        ];
        let rows = vec![row(None, (0, 100), host), row(Some(0), (20, 85), init)];
        let expected = [
            (0, "between", 0, 10),
            (0, "clone", 10, 20),
            (1, "between", 20, 25),
            (1, "mount", 25, 70),
            (0, "await ready", 70, 80),
            (0, "commit", 80, 90),
            (0, "between", 90, 100),
        ];
        check(rows, &expected);
    }

    #[test]
    fn what_follows_a_message_is_not_what_the_other_one_waited_for() {
        let message = Span { phase: Phase::Sync, ..span("announce", (50, 52), None) };
        let init = vec![span("mount", (0, 50), None), message, span("more", (52, 99), None)];
        let host = vec![span("await", (10, 60), Some(Awaited::Row(1)))];
        let rows = vec![row(None, (0, 60), host), row(Some(0), (0, 99), init)];
        check(rows, &[(1, "mount", 0, 50), (1, "announce", 50, 52), (0, "await", 52, 60)]);
    }

    #[test]
    fn a_wait_for_somebody_who_did_nothing_stays_one() {
        let host = vec![span("await", (10, 60), Some(Awaited::Row(1)))];
        let init = vec![span("await", (0, 80), Some(Awaited::Row(0)))];
        let rows = vec![row(None, (0, 60), host), row(Some(0), (0, 80), init)];
        check(rows, &[(0, "between", 0, 10), (0, "await", 10, 60)]);
    }

    proptest! {
        #[test]
        fn the_path_of_anything_is_without_gaps_and_ends_with_the_command(
            timeline in sample::anything()
        ) {
            let path = critical_path(&timeline);
            for pair in path.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
            }
            for piece in &path {
                prop_assert!(piece.start < piece.end);
                prop_assert!(piece.row < timeline.rows.len());
                prop_assert_eq!(piece.span.is_some(), piece.span(&timeline).is_some());
            }
            let end = timeline.rows.first().map_or(0, |row| row.end);
            prop_assert!(path.last().is_none_or(|last| last.end == end));
        }

        #[test]
        fn each_moment_is_that_of_the_span_that_began_last(timeline in sample::anything()) {
            for (index, row) in timeline.rows.iter().enumerate() {
                let pieces = cut(row, index);
                let finish = row.end.max(row.start);
                prop_assert_eq!(pieces.first().map_or(finish, |piece| piece.start), row.start);
                prop_assert_eq!(pieces.last().map_or(row.start, |piece| piece.end), finish);
                let mut edges: Vec<u64> =
                    row.spans.iter().flat_map(|span| [span.start, span.end]).collect();
                edges.extend([row.start, finish]);
                for at in edges.into_iter().filter(|at| (row.start..finish).contains(at)) {
                    let covers = |span: &Span| span.start <= at && at < span.end;
                    let open = row.spans.iter().enumerate().filter(|(_, span)| covers(span));
                    // If several spans began at the same time, the shortest of them is expected; if several are equally
                    // short, the last of these.
                    let last = open.max_by_key(|(_, span)| {
                        (span.start.max(row.start), u64::MAX - span.end.min(finish))
                    });
                    let piece = pieces.iter().find(|piece| piece.start <= at && at < piece.end);
                    prop_assert_eq!(piece.unwrap().span, last.map(|(index, _)| index));
                }
                for pair in pieces.windows(2) {
                    prop_assert_eq!(pair[0].end, pair[1].start);
                    prop_assert_ne!(pair[0].span, pair[1].span);
                }
            }
        }
    }
}
