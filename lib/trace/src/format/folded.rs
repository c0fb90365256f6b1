//! Folded stacks for flame graph tools: `command;row;phase;step NANOSECONDS`, where the number is the self time of the
//! step. For a wait, the third frame is `waiting` instead of the phase. The time outside all steps of a row is
//! `command;row;between`.

use core::fmt::{self, Write};

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::text::step;
use crate::{Account, Timeline};

/// Writes the stacks.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |stack: String, own: u64| {
        let sum = stacks.entry(stack).or_default();
        *sum = sum.saturating_add(own);
    };
    for row in &timeline.rows {
        let account = Account::of(row);
        let base = format!("{};{}", frame(&timeline.command), frame(&row.name));
        for (span, &own) in row.spans.iter().zip(&account.own) {
            let kind = if span.wait.is_some() { "waiting" } else { span.phase.name() };
            add(format!("{base};{kind};{}", frame(&step(span))), own);
        }
        add(format!("{base};between"), account.between);
    }
    stacks
        .iter()
        .filter(|(_, sum)| **sum > 0)
        .try_for_each(|(stack, sum)| writeln!(out, "{stack} {sum}"))
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
    use crate::Row;
    use crate::format::sample;
    use proptest::prelude::*;

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
