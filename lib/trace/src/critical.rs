//! What the end had to wait for.

use alloc::vec::Vec;
use core::cmp::Ordering;

use crate::{Awaited, Phase, Row, Span, Timeline};

/// A piece of the critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Whose.
    pub row: usize,
    /// Which of its spans; none between two.
    pub span: Option<usize>,
    /// From when.
    pub start: u64,
    /// To when.
    pub end: u64,
}

impl Stretch {
    /// Nanoseconds from start to end.
    pub fn took(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Its span.
    pub fn span<'a>(&self, timeline: &'a Timeline) -> Option<&'a Span> {
        timeline.rows.get(self.row)?.spans.get(self.span?)
    }
}

/// How much of the critical path is due to the steps of one name in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSum<'a> {
    /// Whose.
    pub row: usize,
    /// What the steps are called; none for what lies between steps.
    pub name: Option<&'a str>,
    /// Nanoseconds of all of them.
    pub took: u64,
    /// How many pieces of the path.
    pub pieces: usize,
}

/// The critical path, in order of time: each piece ends where the next one begins, and the last one
/// where the command ends.
///
/// It is found from the end, back through what the command did. Where that had waited for another
/// row, the path goes on in that row, from what it did last; what is left of the wait is the time it
/// took to wake up. Where a row begins, the path goes on in the one that made it.
pub fn critical_path(timeline: &Timeline) -> Vec<Stretch> {
    let rows = &timeline.rows;
    let cuts: Vec<Vec<Stretch>> =
        rows.iter().enumerate().map(|(index, row)| cut(row, index)).collect();
    let mut path = Vec::new();
    let (mut at, mut time) = (0, rows.first().map_or(0, |row| row.end));
    // Changes of rows that led to no earlier time; more than there are rows is going round in circles.
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
            // After the row's own end.
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

/// When, in the time somebody waited for it, a row did what that somebody needed: it ended; or sent a
/// message; or is still working on it; or did the last thing before it waited itself.
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

/// Sums the path up by name of step, the most expensive first.
pub fn path_sums<'a>(timeline: &'a Timeline, path: &[Stretch]) -> Vec<PathSum<'a>> {
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
    let took = |index: usize| sums.get(index).map(|sum| sum.took);
    let order = order(sums.len(), &|a, b| took(b).cmp(&took(a)));
    order.into_iter().filter_map(|index| sums.get(index).copied()).collect()
}

/// Cuts the life of a row, which has that index, into pieces, from its start to its end. Each belongs
/// to the span that began last of those that it lies in, as in an [`Account`](crate::Account).
pub(crate) fn cut(row: &Row, index: usize) -> Vec<Stretch> {
    let clip = |time: u64| time.clamp(row.start, row.end.max(row.start));
    let begins = |span: usize| row.spans.get(span).map_or(u64::MAX, |span| clip(span.start));
    let ends = |span: usize| row.spans.get(span).map_or(0, |span| clip(span.end));

    let mut edges: Vec<u64> =
        row.spans.iter().flat_map(|span| [clip(span.start), clip(span.end)]).collect();
    edges.extend([row.start, clip(row.end)]);
    edges.sort_unstable();
    edges.dedup();
    let coming = order(row.spans.len(), &|a, b| (begins(a), ends(b)).cmp(&(begins(b), ends(a))));
    let mut coming = coming.into_iter().peekable();

    let mut pieces: Vec<Stretch> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for edge in edges.windows(2) {
        let &[start, end] = edge else { continue };
        while let Some(span) = coming.next_if(|&span| begins(span) <= start) {
            open.push(span);
        }
        // Those that have ended below the top are taken off when they get there.
        while open.last().is_some_and(|&span| ends(span) <= start) {
            open.pop();
        }
        let span = open.last().copied();
        match pieces.last_mut() {
            Some(last) if last.span == span => last.end = end,
            _ => pieces.push(Stretch { row: index, span, start, end }),
        }
    }
    pieces
}

/// The numbers below `len` in order; equals keep theirs. One sort for all lists: its code is large.
pub(crate) fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..len).collect();
    indices.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    indices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;
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
        fn pieces_of_a_row_are_what_its_account_says(timeline in sample::anything()) {
            for (index, row) in timeline.rows.iter().enumerate() {
                let mut account = Account { own: vec![0; row.spans.len()], between: 0 };
                for piece in cut(row, index) {
                    *piece.span.map_or(&mut account.between, |span| &mut account.own[span]) +=
                        piece.took();
                }
                prop_assert_eq!(account, Account::of(row));
            }
        }
    }
}
