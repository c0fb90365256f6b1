//! The self times of the spans of a row. No time is counted twice.

use alloc::vec;
use alloc::vec::Vec;

use crate::critical::cut;
use crate::{Phase, Row, Stretch};

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
        let spans = row.spans.iter().zip(&self.own);
        spans.filter(|(s, _)| s.wait.is_none() && s.phase == phase).map(|(_, own)| own).sum()
    }

    /// Returns the time spent waiting, in nanoseconds.
    pub fn waited(&self, row: &Row) -> u64 {
        let spans = row.spans.iter().zip(&self.own);
        spans.filter(|(span, _)| span.wait.is_some()).map(|(_, own)| own).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Awaited, Span};
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = Row> {
        let span = (0u64..1000, 0u64..400, 0usize..9, proptest::option::of(Just(Awaited::Other)));
        let spans = proptest::collection::vec(span, 0..60);
        (spans, 0u64..300, 0u64..1200).prop_map(|(spans, start, length)| Row {
            start,
            end: start + length,
            spans: spans
                .into_iter()
                .map(|(start, took, phase, wait)| Span {
                    phase: Phase::ALL[phase],
                    start,
                    end: start + took,
                    wait,
                    ..Span::default()
                })
                .collect(),
            ..Row::default()
        })
    }

    proptest! {
        #[test]
        fn work_waits_and_what_lies_between_add_up_to_the_wall_time(row in row()) {
            let account = Account::of(&row);
            let work: u64 = Phase::ALL.iter().map(|&phase| account.work(&row, phase)).sum();
            prop_assert_eq!(work + account.waited(&row) + account.between, row.took());
            prop_assert_eq!(account.own.iter().sum::<u64>() + account.between, row.took());
        }

        #[test]
        fn no_span_owns_more_than_it_took(row in row()) {
            let account = Account::of(&row);
            for (span, own) in row.spans.iter().zip(&account.own) {
                prop_assert!(*own <= span.took());
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
