//! What each phase took: the table of seed 004 (Table I).

use alloc::vec::Vec;

use crate::critical::order;
use crate::{Account, Phase, Timeline};

/// What a phase took in all rows together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseSum {
    /// Which.
    pub phase: Phase,
    /// Nanoseconds of work, without those of spans within and without waits.
    pub time: u64,
    /// How many different steps.
    pub steps: usize,
    /// How many steps.
    pub calls: usize,
}

impl Timeline {
    /// What the runtime's work took, a sum a phase that there was any work in. What the container's
    /// own program did is no work of the runtime.
    pub fn phase_sums(&self) -> Vec<PhaseSum> {
        let accounts: Vec<Account> = self.rows.iter().map(Account::of).collect();
        let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Program);
        phases.filter_map(|phase| self.sum(phase, &accounts)).collect()
    }

    fn sum(&self, phase: Phase, accounts: &[Account]) -> Option<PhaseSum> {
        let works = self.rows.iter().zip(accounts).map(|(row, account)| account.work(row, phase));
        let time = works.fold(0, u64::saturating_add);
        let spans = self.rows.iter().flat_map(|row| &row.spans);
        let spans = spans.filter(|span| span.phase == phase && span.wait.is_none());
        let names: Vec<&str> = spans.map(|span| &*span.name).collect();
        let order = order(names.len(), &|a, b| names.get(a).cmp(&names.get(b)));
        let mut last = None;
        let mut steps = 0;
        for index in order {
            let name = names.get(index);
            steps += usize::from(name != last);
            last = name;
        }
        (steps > 0).then_some(PhaseSum { phase, time, steps, calls: names.len() })
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
