//! Folded stacks for flame graph tools: `command;row;phase;step NANOSECONDS`, where the number is the self time of the
//! step. For a wait, the third frame is `waiting` instead of the phase. The time outside all steps of a row is
//! `command;row;between`.

use core::fmt;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::text::step;
use crate::critical::order;
use crate::{Account, Timeline};

/// Writes the stacks.
pub fn write(out: &mut dyn fmt::Write, timeline: &Timeline) -> fmt::Result {
    let mut stacks: Vec<(String, u64)> = Vec::new();
    for row in &timeline.rows {
        let account = Account::of(row);
        let base = format!("{};{}", frame(&timeline.command), frame(&row.name));
        for (span, &own) in row.spans.iter().zip(&account.own) {
            let kind = if span.wait.is_some() { "waiting" } else { span.phase.name() };
            stacks.push((format!("{base};{kind};{}", frame(&step(span))), own));
        }
        stacks.push((format!("{base};between"), account.between));
    }
    let stack = |index: usize| stacks.get(index).map(|(stack, _)| stack);
    let order = order(stacks.len(), &|a, b| stack(a).cmp(&stack(b)));
    let mut sorted = order.into_iter().filter_map(|index| stacks.get(index)).peekable();
    while let Some((stack, own)) = sorted.next() {
        let mut sum = *own;
        while let Some((_, own)) = sorted.next_if(|(next, _)| next == stack) {
            sum = sum.saturating_add(*own);
        }
        if sum > 0 {
            writeln!(out, "{stack} {sum}")?;
        }
    }
    Ok(())
}

/// Returns a name without the characters that separate frames and stacks.
fn frame(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        ';' => ',',
        letter if letter.is_control() => ' ',
        letter => letter,
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use crate::{Phase, Row, Span};
    use proptest::prelude::*;

    #[test]
    fn the_same_stacks_are_one() {
        let span = |object: &str, start, end| Span {
            phase: Phase::Mounts,
            name: "mount".into(),
            object: object.into(),
            start,
            end,
            ..Span::default()
        };
        let spans = vec![span("a;b", 0, 10), span("c", 10, 11), span("a;b", 15, 20)];
        let row = Row { name: "init".into(), start: 0, end: 20, spans, ..Row::default() };
        let timeline =
            Timeline { command: "dayfly run".into(), rows: vec![row], ..Timeline::default() };
        let mut text = String::new();
        write(&mut text, &timeline).unwrap();
        let expected = "dayfly run;init;between 4\n\
                        dayfly run;init;mounts;mount a,b 15\n\
                        dayfly run;init;mounts;mount c 1\n";
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn the_stacks_of_anything_add_up_to_the_wall_times(timeline in sample::anything()) {
            let mut text = String::new();
            write(&mut text, &timeline).unwrap();
            let mut sum = 0u64;
            for line in text.split_terminator('\n') {
                let (stack, value) = line.rsplit_once(' ').unwrap();
                prop_assert!((3..=4).contains(&stack.split(';').count()));
                sum = sum.saturating_add(value.parse().unwrap());
            }
            let walls = timeline.rows.iter().map(Row::took).fold(0, u64::saturating_add);
            prop_assert_eq!(sum, walls);
        }
    }
}
