//! The time per phase.

use alloc::vec::Vec;

use crate::{Account, Phase, Timeline};

/// The time spent on a phase, summed over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseSum {
    /// The phase.
    pub phase: Phase,
    /// The time of work in nanoseconds, without nested spans and without waits.
    pub time: u64,
    /// The number of distinct step names.
    pub steps: usize,
    /// The number of steps; steps with the same name are counted each time.
    pub calls: usize,
}

impl Timeline {
    /// Sums up the runtime's work, with a sum for each phase in which work was done. The execution of the container's
    /// program is not counted as work of the runtime.
    pub fn phase_sums(&self) -> Vec<PhaseSum> {
        let accounts: Vec<Account> = self.rows.iter().map(Account::of).collect();
        self.phase_sums_of(&accounts)
    }

    /// Returns the sums as [`Self::phase_sums`] does, given the accounts of all rows.
    pub(crate) fn phase_sums_of(&self, accounts: &[Account]) -> Vec<PhaseSum> {
        let mut sums = Phase::ALL.map(|phase| {
            let names: Vec<&str> = Vec::new();
            (PhaseSum { phase, time: 0, steps: 0, calls: 0 }, names)
        });
        for (row, account) in self.rows.iter().zip(accounts) {
            for (span, own) in row.spans.iter().zip(&account.own) {
                let is_work = span.wait.is_none() && span.phase != Phase::Program;
                let found = sums.iter_mut().find(|(sum, _)| sum.phase == span.phase);
                let Some((sum, names)) = found.filter(|_| is_work) else { continue };
                sum.time = sum.time.saturating_add(*own);
                sum.calls += 1;
                // The search runs backwards, because steps with the same name usually follow each other.
                if !names.iter().rev().any(|name| *name == span.name) {
                    names.push(&span.name);
                    sum.steps += 1;
                }
            }
        }
        sums.into_iter().map(|(sum, _)| sum).filter(|sum| sum.calls > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Awaited, Row, Span};

    #[test]
    fn names_are_counted_once_and_waits_and_the_program_never() {
        let span = |phase, name: &str, start, end| Span {
            phase,
            name: name.into(),
            start,
            end,
            ..Span::default()
        };
        let mut spans = vec![
            span(Phase::Mounts, "mount", 0, 10),
            span(Phase::Mounts, "pivot", 2, 4),
            span(Phase::Mounts, "mount", 10, 15),
            span(Phase::Sync, "await", 15, 20),
            span(Phase::Program, "sh", 20, 30),
        ];
        spans[3].wait = Some(Awaited::Other);
        let row = Row { start: 0, end: 30, spans, ..Row::default() };
        let timeline = Timeline { rows: vec![row.clone(), row], ..Timeline::default() };
        let mounts = PhaseSum { phase: Phase::Mounts, time: 30, steps: 2, calls: 6 };
        assert_eq!(timeline.phase_sums(), [mounts]);
    }
}
