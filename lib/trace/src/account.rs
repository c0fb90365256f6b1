//! The self times of the spans of a row, and the time per phase. No time is counted twice.

use alloc::vec;
use alloc::vec::Vec;

use crate::critical::cut;
use crate::{Phase, Row, Span, Stretch, Timeline};

/// The wall time of a row, split into parts whose sum is the wall time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The self time of each span in nanoseconds: its duration without the spans nested in it.
    pub own: Vec<u64>,
    /// The time outside all spans, in nanoseconds.
    pub between: u64,
}

impl Account {
    /// Computes the account of a row. Where spans overlap, the time is counted for the span that started last. Times
    /// before the start and after the end of the row are not counted.
    pub fn of(row: &Row) -> Self {
        Self::of_pieces(row, &cut(row, 0))
    }

    /// Sums up the pieces of a row.
    pub(crate) fn of_pieces(row: &Row, pieces: &[Stretch]) -> Self {
        let mut account = Self { own: vec![0; row.spans.len()], between: 0 };
        for piece in pieces {
            let own = piece.span.and_then(|span| account.own.get_mut(span));
            *own.unwrap_or(&mut account.between) += piece.took();
        }
        account
    }

    /// Returns the time spent on work of a phase, in nanoseconds.
    pub fn work(&self, row: &Row, phase: Phase) -> u64 {
        self.sum(row, |span| span.wait.is_none() && span.phase == phase)
    }

    /// Returns the time spent waiting, in nanoseconds.
    pub fn waited(&self, row: &Row) -> u64 {
        self.sum(row, |span| span.wait.is_some())
    }

    fn sum(&self, row: &Row, counts: impl Fn(&Span) -> bool) -> u64 {
        let spans = row.spans.iter().zip(&self.own);
        spans.filter(|(span, _)| counts(span)).map(|(_, own)| own).sum()
    }
}

/// The time spent on a phase, summed over all rows.
pub(crate) struct PhaseSum {
    /// The phase.
    pub(crate) phase: Phase,
    /// The time of work in nanoseconds, without nested spans and without waits.
    pub(crate) time: u64,
    /// The number of distinct step names.
    pub(crate) steps: usize,
    /// The number of steps; steps with the same name are counted each time.
    pub(crate) calls: usize,
}

/// Sums up the runtime's work, given the accounts of all rows, with a sum for each phase in which work was done. The
/// execution of the container's program is not counted as work of the runtime.
pub(crate) fn phase_sums(timeline: &Timeline, accounts: &[Account]) -> Vec<PhaseSum> {
    let spans = || {
        let rows = timeline.rows.iter().zip(accounts);
        rows.flat_map(|(row, account)| row.spans.iter().zip(&account.own))
    };
    let sum = |phase| {
        let (mut time, mut calls, mut names) = (0u64, 0, Vec::new());
        for (span, own) in spans().filter(|(span, _)| span.phase == phase && span.is_work()) {
            time = time.saturating_add(*own);
            calls += 1;
            // The search runs backwards, because steps with the same name usually follow each other.
            if !names.iter().rev().any(|name| *name == &span.name) {
                names.push(&span.name);
            }
        }
        PhaseSum { phase, time, steps: names.len(), calls }
    };
    Phase::ALL.into_iter().map(sum).filter(|sum| sum.calls > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn work_waits_and_what_lies_between_add_up_to_the_wall_time(timeline in sample::anything()) {
            for row in &timeline.rows {
                let account = Account::of(row);
                let work: u64 = Phase::ALL.iter().map(|&phase| account.work(row, phase)).sum();
                prop_assert_eq!(work + account.waited(row) + account.between, row.took());
                prop_assert_eq!(account.own.iter().sum::<u64>() + account.between, row.took());
                for (span, own) in row.spans.iter().zip(&account.own) {
                    prop_assert!(*own <= span.took());
                }
            }
        }
    }

    #[test]
    fn a_span_within_another_is_counted_once() {
        let span = |start, end| Span { start, end, ..Span::default() };
        let row =
            Row { start: 0, end: 100, spans: vec![span(10, 60), span(20, 30)], ..Row::default() };
        assert_eq!(Account::of(&row), Account { own: vec![40, 10], between: 50 });
    }
}
