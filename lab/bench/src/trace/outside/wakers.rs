//! Determines which process another process waited for. No system call shows this, so it is derived from the actions of
//! other processes during the wait.

use trace::{Awaited, Phase, Row, Timeline};

/// An action that may have ended another process's wait.
struct Deed {
    row: usize,
    time: u64,
}

/// For each wait whose awaited row is unknown, fills in the row of the process that acted last before the end of the
/// wait. Actions are a write to a channel, a signal, the execution of a program, and an exit.
pub fn name(timeline: &mut Timeline) {
    let mut deeds: Vec<Deed> = Vec::new();
    for (row, of) in timeline.rows.iter().enumerate() {
        let telling = of.spans.iter().filter(|span| span.wait.is_none() && tells(span));
        // The time at which the action begins is used, because the tracer may see the waiting
        // process continue before it sees the end of the action.
        deeds.extend(telling.map(|span| Deed { row, time: span.start }));
        deeds.push(Deed { row, time: of.end });
    }
    deeds.sort_by_key(|deed| deed.time);
    for row in 0..timeline.rows.len() {
        name_those_of(row, &mut timeline.rows[row], &deeds);
    }
}

fn name_those_of(row: usize, of: &mut Row, deeds: &[Deed]) {
    for span in of.spans.iter_mut().filter(|span| span.wait == Some(Awaited::Other)) {
        let before = deeds.partition_point(|deed| deed.time <= span.end);
        let meanwhile = deeds[..before].iter().rev().take_while(|deed| deed.time >= span.start);
        if let Some(deed) = meanwhile.into_iter().find(|deed| deed.row != row) {
            span.wait = Some(Awaited::Row(deed.row));
        }
    }
}

fn tells(span: &trace::Span) -> bool {
    span.phase == Phase::Sync || span.name.starts_with("exec") || span.name.starts_with("exit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Span;

    #[test]
    fn a_reader_waits_for_the_writer() {
        let wait = Span {
            phase: Phase::Sync,
            name: "read".to_owned(),
            start: 10,
            end: 50,
            wait: Some(Awaited::Other),
            ..Span::default()
        };
        let write =
            Span { name: "write".to_owned(), start: 45, end: 52, wait: None, ..wait.clone() };
        let late = Span { start: 60, end: 61, ..write.clone() };
        let row = |spans, end| Row { spans, end, ..Row::default() };
        let mut timeline = Timeline {
            rows: vec![row(vec![wait.clone()], 100), row(vec![write, late], 90), row(vec![], 30)],
            ..Timeline::default()
        };
        name(&mut timeline);
        assert_eq!(timeline.rows[0].spans[0].wait, Some(Awaited::Row(1)));

        let mut alone = Timeline { rows: vec![row(vec![wait], 100)], ..Timeline::default() };
        name(&mut alone);
        assert_eq!(alone.rows[0].spans[0].wait, Some(Awaited::Other));
    }
}
