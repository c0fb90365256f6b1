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

/// The total of all pieces of the critical path that are in the same row and have the same step name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSum<'a> {
    /// The index of the row.
    pub row: usize,
    /// The name of the steps; `None` for the time between steps.
    pub name: Option<&'a str>,
    /// The total time in nanoseconds that the row's steps with this name contribute to the path.
    pub took: u64,
    /// The number of pieces in this total.
    pub pieces: usize,
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

/// Sums up the path by row and step name; the largest sum comes first.
pub fn path_sums<'a>(timeline: &'a Timeline, path: &[Stretch]) -> Vec<PathSum<'a>> {
    let sums = sums_of(timeline, path);
    let order = order(sums.len(), &dearest(&sums));
    order.into_iter().filter_map(|index| sums.get(index).copied()).collect()
}

/// Returns a function that compares two sums, given by index: the larger sum comes first.
pub(crate) fn dearest<'a>(sums: &'a [PathSum<'_>]) -> impl Fn(usize, usize) -> Ordering + 'a {
    let took = |index: usize| sums.get(index).map(|sum| sum.took);
    move |a, b| took(b).cmp(&took(a))
}

/// Returns the sums in no particular order.
pub(crate) fn sums_of<'a>(timeline: &'a Timeline, path: &[Stretch]) -> Vec<PathSum<'a>> {
    let mut sums: Vec<PathSum<'a>> = Vec::new();
    for piece in path {
        let name = piece.span(timeline).map(|span| &*span.name);
        match sums.iter_mut().find(|sum| sum.row == piece.row && sum.name == name) {
            Some(sum) => {
                sum.took += piece.took();
                sum.pieces += 1;
            }
            None => sums.push(PathSum { row: piece.row, name, took: piece.took(), pieces: 1 }),
        }
    }
    sums
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

/// Returns a stable order of the indices below `len`, by merging sorted runs. Most lists are already sorted, or consist
/// of a few sorted runs.
pub(crate) fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut ends: Vec<usize> = (1..len).filter(|&at| compare(at - 1, at).is_gt()).collect();
    ends.push(len);
    while ends.len() > 1 {
        let mut merged = Vec::with_capacity(len);
        let mut longer = Vec::with_capacity(ends.len() / 2 + 1);
        for runs in ends.chunks(2) {
            let (Some(&middle), Some(&end)) = (runs.first(), runs.last()) else { continue };
            let mut left = order.get(merged.len()..middle).unwrap_or_default();
            let mut right = order.get(middle..end).unwrap_or_default();
            while let ([a, others @ ..], [b, rest @ ..]) = (left, right) {
                if compare(*a, *b).is_gt() {
                    merged.push(*b);
                    right = rest;
                } else {
                    merged.push(*a);
                    left = others;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
            longer.push(end);
        }
        (order, ends) = (merged, longer);
    }
    order
}

/// Returns the first `limit` of the indices below `len`, in the order of `compare`.
pub(crate) fn first(
    limit: usize,
    len: usize,
    compare: &dyn Fn(usize, usize) -> Ordering,
) -> Vec<usize> {
    let mut first: Vec<usize> = Vec::with_capacity(limit + 1);
    for index in 0..len {
        let before = first.iter().rposition(|&other| compare(other, index).is_le());
        let place = before.map_or(0, |before| before + 1);
        if place < limit {
            first.insert(place, index);
            first.truncate(limit);
        }
    }
    first
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

    fn told(timeline: &Timeline) -> Vec<(usize, String, u64, u64)> {
        let path = critical_path(timeline).into_iter();
        path.map(|piece| {
            let name = piece.span(timeline).map_or("between", |span| &span.name).to_string();
            (piece.row, name, piece.start, piece.end)
        })
        .collect()
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
        let expected: Vec<_> =
            expected.into_iter().map(|(r, name, s, e)| (r, name.to_string(), s, e)).collect();
        let timeline = Timeline { rows, ..Timeline::default() };
        assert_eq!(told(&timeline), expected);

        let sums = path_sums(&timeline, &critical_path(&timeline));
        assert_eq!(sums[0], PathSum { row: 1, name: Some("mount"), took: 45, pieces: 1 });
        assert_eq!(sums[1], PathSum { row: 0, name: None, took: 20, pieces: 2 });
    }

    #[test]
    fn what_follows_a_message_is_not_what_the_other_one_waited_for() {
        let message = Span { phase: Phase::Sync, ..span("announce", (50, 52), None) };
        let init = vec![span("mount", (0, 50), None), message, span("more", (52, 99), None)];
        let host = vec![span("await", (10, 60), Some(Awaited::Row(1)))];
        let rows = vec![row(None, (0, 60), host), row(Some(0), (0, 99), init)];
        let timeline = Timeline { rows, ..Timeline::default() };
        let expected = vec![
            (1, "mount".into(), 0, 50),
            (1, "announce".into(), 50, 52),
            (0, "await".to_string(), 52, 60),
        ];
        assert_eq!(told(&timeline), expected);
    }

    #[test]
    fn a_wait_for_somebody_who_did_nothing_stays_one() {
        let host = vec![span("await", (10, 60), Some(Awaited::Row(1)))];
        let init = vec![span("await", (0, 80), Some(Awaited::Row(0)))];
        let rows = vec![row(None, (0, 60), host), row(Some(0), (0, 80), init)];
        let timeline = Timeline { rows, ..Timeline::default() };
        assert_eq!(told(&timeline), [(0, "between".into(), 0, 10), (0, "await".into(), 10, 60)]);
    }

    #[test]
    fn the_sample_is_accounted_for_from_the_start_of_the_command_to_its_end() {
        let timeline = sample::start();
        let path = critical_path(&timeline);
        let took: u64 = path.iter().map(Stretch::took).sum();
        assert_eq!(took, timeline.rows[0].took());
        assert!(path.iter().any(|piece| piece.row == 3), "the program is waited for");
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
            let sums = path_sums(&timeline, &path);
            let all: u64 = path.iter().map(Stretch::took).sum();
            prop_assert_eq!(sums.iter().map(|sum| sum.took).sum::<u64>(), all);
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

        #[test]
        fn order_is_that_of_a_stable_sort(
            list in proptest::collection::vec(0u8..20, 0..80),
            runs in proptest::collection::vec(0usize..80, 0..5),
            limit in 1usize..12,
        ) {
            let mut list = list;
            for end in runs {
                // A part of the list is already sorted.
                let end = end.min(list.len());
                list[end / 2..end].sort();
            }
            let mut expected: Vec<usize> = (0..list.len()).collect();
            expected.sort_by_key(|&index| list[index]);
            let compare = |a: usize, b: usize| list[a].cmp(&list[b]);
            prop_assert_eq!(&order(list.len(), &compare), &expected);
            expected.truncate(limit);
            prop_assert_eq!(first(limit, list.len(), &compare), expected);
        }
    }
}
