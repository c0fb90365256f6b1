//! A human-readable table: each step, the phases, the rows, the slowest steps, and the critical path.
//!
//! A trace of a start consists of thousands of short pieces. They are appended without core::fmt, which takes several
//! times as long for each piece, because it writes through `dyn`.

use core::cmp::Reverse;
use core::fmt::{self, Write};

use alloc::string::String;
use alloc::vec::Vec;

use super::places::{Place, places};
use super::text::{awaited, micros, notes, number, origin, plain, put_step, share};
use crate::account::phase_sums;
use crate::critical::{cuts, path};
use crate::{Account, Span, Stretch, Timeline};

/// The number of slowest steps to print.
const SLOWEST: usize = 10;

/// The maximum number of step names in a line of the critical path.
const NAMED: usize = 4;

/// The width of the columns of times and of phases.
const TIME: usize = 10;
const PHASE: usize = 13;

/// Writes the whole table.
pub fn write(out: &mut String, timeline: &Timeline) -> fmt::Result {
    let names = timeline.rows.iter().map(|row| row.name.chars().count());
    let width = names.max().unwrap_or(0).clamp(3, 16);
    let cuts = cuts(timeline);
    let pieces = timeline.rows.iter().zip(&cuts);
    let accounts: Vec<Account> =
        pieces.map(|(row, pieces)| Account::of_pieces(row, pieces)).collect();
    let names: Vec<String> = timeline.rows.iter().map(|row| column(&row.name, width)).collect();
    let rows = timeline.rows.iter().zip(&accounts).zip(&names);
    let told: Vec<Told<'_>> = rows
        .flat_map(|((row, account), name)| {
            let spans = row.spans.iter().zip(&account.own).zip(places(row));
            spans.map(move |((span, &own), place)| Told { name, span, own, place })
        })
        .collect();
    let mut table = Table { out, timeline, origin: origin(timeline), width };
    table.head();
    table.steps(&told);
    table.phases(&accounts);
    table.rows(&accounts, &names)?;
    table.slowest(&told);
    table.critical(&path(timeline, &cuts), &names);
    table.notes();
    Ok(())
}

/// Returns a row's name, padded to its column.
fn column(name: &str, width: usize) -> String {
    let mut column = String::with_capacity(32);
    plain(&mut column, name);
    fill(&mut column, 0, width);
    column
}

/// Pads with spaces until there are `width` characters from the byte offset `start` on.
fn fill(out: &mut String, start: usize, width: usize) {
    let chars = out.get(start..).unwrap_or_default().chars().count();
    (chars..width).for_each(|_| out.push(' '));
}

/// Appends a right-aligned number.
fn right(out: &mut String, value: u64, width: usize) {
    let digits = value.checked_ilog10().unwrap_or(0) as usize + 1;
    (digits..width).for_each(|_| out.push(' '));
    number(out, value);
}

/// Appends a number given in tenths, such as 123 as `12.3`, right-aligned.
fn tenths(out: &mut String, tenths: u64, width: usize) {
    right(out, tenths / 10, width.saturating_sub(2));
    out.push('.');
    number(out, tenths % 10);
}

struct Table<'a> {
    out: &'a mut String,
    timeline: &'a Timeline,
    origin: u64,
    /// The width of the column of row names.
    width: usize,
}

/// A span, together with the texts of the columns printed for it.
struct Told<'a> {
    /// The name of the span's row, padded to the width of its column.
    name: &'a str,
    span: &'a Span,
    own: u64,
    place: Place,
}

impl Table<'_> {
    fn head(&mut self) {
        let timeline = self.timeline;
        plain(self.out, &timeline.command);
        if !timeline.id.is_empty() {
            self.text(" ");
            plain(self.out, &timeline.id);
        }
        self.text(": ");
        tenths(self.out, micros(timeline.end().saturating_sub(timeline.start())), 0);
        self.text(" µs\n");
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Appends a duration.
    fn time(&mut self, nanoseconds: u64) {
        tenths(self.out, micros(nanoseconds), TIME);
    }

    /// Appends a time, relative to the start.
    fn at(&mut self, time: u64) {
        self.time(time.saturating_sub(self.origin));
        self.text(" ");
    }

    /// Appends a left-aligned text.
    fn left(&mut self, text: &str, width: usize) {
        let start = self.out.len();
        self.text(text);
        fill(self.out, start, width);
    }

    /// Appends the columns for the row and the phase of a step.
    fn whose(&mut self, told: &Told<'_>) {
        self.text("  ");
        self.text(told.name);
        self.text("  ");
        self.left(told.span.phase.name(), PHASE);
        self.text("  ");
    }

    /// Appends a line of headings: `before`, the heading of the column of row names, and `after`.
    fn title(&mut self, before: &str, after: &str) {
        self.text(before);
        self.left("ROW", self.width);
        self.text(after);
    }

    fn steps(&mut self, all: &[Told<'_>]) {
        self.title("\n     AT µs    TOOK µs  ", "  PHASE          STEP\n");
        let mut by_start: Vec<&Told<'_>> = all.iter().collect();
        by_start.sort_by_key(|told| told.span.start);
        for told in by_start {
            self.at(told.span.start);
            self.time(told.span.took());
            self.whose(told);
            self.left("", told.place.depth.min(8) * 2);
            put_step(self.out, told.span);
            match awaited(self.timeline, told.span) {
                Some("other") => self.text("  (waits)"),
                Some(whom) => {
                    self.text("  (waits for ");
                    plain(self.out, whom);
                    self.text(")");
                }
                None => {}
            }
            self.text("\n");
        }
    }

    fn phases(&mut self, accounts: &[Account]) {
        let sums = phase_sums(self.timeline, accounts);
        let total = sums.iter().fold(0u64, |total, sum| total.saturating_add(sum.time));
        self.text("\nPHASE            WORK µs   SHARE  STEPS  CALLS\n");
        let [mut all_steps, mut all_calls] = [0, 0];
        for sum in &sums {
            self.sum(sum.phase.name(), (sum.time, total), [sum.steps, sum.calls]);
            all_steps += sum.steps;
            all_calls += sum.calls;
        }
        self.sum("total", (total, total), [all_steps, all_calls]);
    }

    fn sum(&mut self, name: &str, (time, total): (u64, u64), counts: [usize; 2]) {
        self.left(name, PHASE);
        self.text(" ");
        self.time(time);
        self.share(time, total);
        for count in counts {
            self.text(" ");
            right(self.out, count as u64, 6);
        }
        self.text("\n");
    }

    fn share(&mut self, part: u64, whole: u64) {
        self.text(" ");
        tenths(self.out, share(part, whole), 6);
        self.text("%");
    }

    fn rows(&mut self, accounts: &[Account], names: &[String]) -> fmt::Result {
        self.title("\n", "      PID    WORK µs     WAITED    BETWEEN       WALL\n");
        for ((row, account), name) in self.timeline.rows.iter().zip(accounts).zip(names) {
            write!(self.out, "{name} {:>8}", row.pid)?;
            let waited = account.waited(row);
            let work = row.took().saturating_sub(waited).saturating_sub(account.between);
            for time in [work, waited, account.between, row.took()] {
                self.text(" ");
                self.time(time);
            }
            self.text("\n");
        }
        Ok(())
    }

    fn slowest(&mut self, all: &[Told<'_>]) {
        self.title("\n   SELF µs  ", "  PHASE          SLOWEST STEPS\n");
        let works = |told: &&Told<'_>| told.own > 0 && told.span.is_work();
        let mut slowest: Vec<&Told<'_>> = all.iter().filter(works).collect();
        slowest.sort_by_key(|told| Reverse(told.own));
        for told in slowest.into_iter().take(SLOWEST) {
            self.time(told.own);
            self.whose(told);
            put_step(self.out, told.span);
            self.text("\n");
        }
    }

    /// Prints the critical path: a line for each section of the path that stays in one row.
    fn critical(&mut self, path: &[Stretch], names: &[String]) {
        let took = |pieces: &[Stretch]| pieces.iter().map(Stretch::took).sum::<u64>();
        let total = took(path);
        self.title("\n     AT µs    TOOK µs   SHARE  ", "  CRITICAL PATH\n");
        for visit in path.chunk_by(|a, b| a.row == b.row) {
            let (Some(piece), took) = (visit.first(), took(visit)) else { continue };
            self.at(piece.start);
            self.time(took);
            self.share(took, total);
            self.text("  ");
            self.text(names.get(piece.row).map_or("", |name| name));
            self.text("  ");
            let sums = by_name(self.timeline, visit);
            for (place, (name, sum)) in sums.iter().take(NAMED).enumerate() {
                self.text(if place > 0 { ", " } else { "" });
                plain(self.out, name);
                self.text(" ");
                tenths(self.out, micros(*sum), 0);
            }
            if sums.len() > NAMED {
                self.text(", ");
                number(self.out, (sums.len() - NAMED) as u64);
                self.text(" more");
            }
            self.text("\n");
        }
    }

    fn notes(&mut self) {
        for (place, note) in notes(self.timeline).enumerate() {
            self.text(if place == 0 { "\nnote: " } else { "note: " });
            plain(self.out, &note);
            self.text("\n");
        }
    }
}

/// Sums up a part of the critical path by the names of its steps; the largest sum comes first.
fn by_name<'a>(timeline: &'a Timeline, path: &[Stretch]) -> Vec<(&'a str, u64)> {
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for piece in path {
        let name = piece.span(timeline).map_or("between steps", |span| &span.name);
        match sums.iter_mut().find(|(other, _)| *other == name) {
            Some((_, sum)) => *sum += piece.took(),
            None => sums.push((name, piece.took())),
        }
    }
    sums.sort_by_key(|(_, sum)| Reverse(*sum));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn anything_is_a_table(timeline in sample::anything()) {
            let mut text = String::new();
            write(&mut text, &timeline).unwrap();
            prop_assert!(text.contains("CRITICAL PATH"));
        }

        #[test]
        fn columns_are_those_of_core(value in any::<u64>(), shift in 0u32..64, width in 0usize..24, text in "\\PC{0,30}") {
            let value = value >> shift;
            let mut out = String::new();
            right(&mut out, value, width);
            tenths(&mut out, value, width);
            let tenths = format!("{}.{}", value / 10, value % 10);
            prop_assert_eq!(&out, &format!("{value:>width$}{tenths:>width$}"));
            prop_assert_eq!(column(&text, width), format!("{text:width$}"));
        }
    }
}
