//! A human-readable table: each step, the phases, the rows, the slowest steps, and the critical path.

use core::fmt::Write;

use alloc::vec::Vec;

use super::buffer::Buffer;
use super::nest::{Place, places};
use super::text::{Share, awaited, micros, origin, put_step};
use crate::critical::{cuts, dearest, first, order, path, sums_of};
use crate::{Account, Phase, Span, Stretch, Timeline};

/// The number of slowest steps to print.
const SLOWEST: usize = 10;

/// The maximum number of step names in a line of the critical path.
const NAMED: usize = 4;

/// The width of the columns of times and of phases.
const TIME: usize = 10;
const PHASE: usize = 13;

/// Returns the whole table.
pub fn text(timeline: &Timeline) -> Buffer {
    let names = timeline.rows.iter().map(|row| row.name.chars().count());
    let width = names.max().unwrap_or(0).clamp(3, 16);
    let cuts = cuts(timeline);
    let pieces = timeline.rows.iter().zip(&cuts);
    let accounts: Vec<Account> =
        pieces.map(|(row, pieces)| Account::of_pieces(row, pieces)).collect();
    let names: Vec<Buffer> = timeline.rows.iter().map(|row| column(&row.name, width)).collect();
    let rows = timeline.rows.iter().zip(&accounts).zip(&names);
    let told: Vec<Told<'_>> = rows
        .flat_map(|((row, account), name)| {
            let spans = row.spans.iter().zip(&account.own).zip(places(row));
            spans.map(move |((span, &own), place)| Told { name, span, own, place })
        })
        .collect();
    let mut table = Table {
        out: Buffer::with_room(4096 + told.len() * 128),
        timeline,
        origin: origin(timeline),
        width,
    };
    table.head();
    table.steps(&told);
    table.phases(&accounts);
    table.rows(&accounts, &names);
    table.slowest(&told);
    table.critical(&cuts, &names);
    table.notes();
    table.out
}

/// Returns a row's name, padded to its column.
fn column(name: &str, width: usize) -> Buffer {
    let mut column = Buffer::with_room(32);
    column.plain(name);
    column.fill(0, width);
    column
}

struct Table<'a> {
    out: Buffer,
    timeline: &'a Timeline,
    origin: u64,
    /// The width of the column of row names.
    width: usize,
}

/// A span, together with the texts of the columns printed for it.
struct Told<'a> {
    /// The name of the span's row, padded to the width of its column.
    name: &'a Buffer,
    span: &'a Span,
    own: u64,
    place: Place,
}

impl Table<'_> {
    fn head(&mut self) {
        let timeline = self.timeline;
        self.out.plain(&timeline.command);
        if !timeline.id.is_empty() {
            self.out.text(" ");
            self.out.plain(&timeline.id);
        }
        self.out.text(": ");
        self.out.tenths(micros(timeline.end().saturating_sub(timeline.start())), 0);
        self.out.text(" µs\n");
    }

    /// Appends a duration.
    fn time(&mut self, nanoseconds: u64) {
        self.out.tenths(micros(nanoseconds), TIME);
    }

    /// Appends a time, relative to the start.
    fn at(&mut self, time: u64) {
        self.time(time.saturating_sub(self.origin));
    }

    /// Appends the columns for the row and the phase of a step.
    fn whose(&mut self, told: &Told<'_>) {
        self.out.text("  ");
        self.out.append(told.name);
        self.out.text("  ");
        self.out.left(told.span.phase.name(), PHASE);
        self.out.text("  ");
    }

    /// Appends a line of headings: `before`, the heading of the column of row names, and `after`.
    fn title(&mut self, before: &str, after: &str) {
        self.out.text(before);
        self.out.left("ROW", self.width);
        self.out.text(after);
    }

    fn steps(&mut self, all: &[Told<'_>]) {
        self.title("\n     AT µs    TOOK µs  ", "  PHASE          STEP\n");
        let start = |index: usize| all.get(index).map(|told| told.span.start);
        for index in order(all.len(), &|a, b| start(a).cmp(&start(b))) {
            let Some(told) = all.get(index) else { continue };
            self.at(told.span.start);
            self.out.text(" ");
            self.time(told.span.took());
            self.whose(told);
            self.out.fill(self.out.len(), told.place.depth.min(8) * 2);
            put_step(&mut self.out, told.span);
            match awaited(self.timeline, told.span) {
                Some("other") => self.out.text("  (waits)"),
                Some(whom) => {
                    self.out.text("  (waits for ");
                    self.out.plain(whom);
                    self.out.text(")");
                }
                None => {}
            }
            self.out.text("\n");
        }
    }

    fn phases(&mut self, accounts: &[Account]) {
        let sums = self.timeline.phase_sums_of(accounts);
        let total = sums.iter().fold(0u64, |total, sum| total.saturating_add(sum.time));
        self.out.text("\nPHASE            WORK µs   SHARE  STEPS  CALLS\n");
        let [mut all_steps, mut all_calls] = [0, 0];
        for sum in &sums {
            self.sum(sum.phase.name(), (sum.time, total), [sum.steps, sum.calls]);
            all_steps += sum.steps;
            all_calls += sum.calls;
        }
        self.sum("total", (total, total), [all_steps, all_calls]);
    }

    fn sum(&mut self, name: &str, (time, total): (u64, u64), counts: [usize; 2]) {
        self.out.left(name, PHASE);
        self.out.text(" ");
        self.time(time);
        self.out.text(" ");
        self.share(time, total);
        for count in counts {
            self.out.text(" ");
            self.out.right(count as u64, 6);
        }
        self.out.text("\n");
    }

    fn share(&mut self, part: u64, whole: u64) {
        self.out.tenths(Share(part, whole).tenths(), 6);
        self.out.text("%");
    }

    fn rows(&mut self, accounts: &[Account], names: &[Buffer]) {
        self.title("\n", "      PID    WORK µs     WAITED    BETWEEN       WALL\n");
        for ((row, account), name) in self.timeline.rows.iter().zip(accounts).zip(names) {
            self.out.append(name);
            // A pid is never negative, but a trace file may contain a negative number.
            let _ = match u64::try_from(row.pid) {
                Ok(pid) => {
                    self.out.text(" ");
                    self.out.right(pid, 8);
                    Ok(())
                }
                Err(_) => write!(self.out, " {:>8}", row.pid),
            };
            let waited = account.waited(row);
            let work = row.took().saturating_sub(waited).saturating_sub(account.between);
            for time in [work, waited, account.between, row.took()] {
                self.out.text(" ");
                self.time(time);
            }
            self.out.text("\n");
        }
    }

    fn slowest(&mut self, all: &[Told<'_>]) {
        self.title("\n   SELF µs  ", "  PHASE          SLOWEST STEPS\n");
        // Spans that are not work of the runtime sort last, and are left out.
        let own = |index: usize| {
            let works = |span: &Span| span.wait.is_none() && span.phase != Phase::Program;
            all.get(index).filter(|told| works(told.span)).map_or(0, |told| told.own)
        };
        for index in first(SLOWEST, all.len(), &|a, b| own(b).cmp(&own(a))) {
            let Some(told) = all.get(index).filter(|_| own(index) > 0) else { continue };
            self.time(told.own);
            self.whose(told);
            put_step(&mut self.out, told.span);
            self.out.text("\n");
        }
    }

    /// Prints the critical path: a line for each section of the path that stays in one row.
    fn critical(&mut self, cuts: &[Vec<Stretch>], names: &[Buffer]) {
        let path = path(self.timeline, cuts);
        let took = |pieces: &[Stretch]| pieces.iter().map(Stretch::took).sum::<u64>();
        let total = took(&path);
        self.title("\n     AT µs    TOOK µs   SHARE  ", "  CRITICAL PATH\n");
        for visit in path.chunk_by(|a, b| a.row == b.row) {
            let (Some(piece), took) = (visit.first(), took(visit)) else { continue };
            self.at(piece.start);
            self.out.text(" ");
            self.time(took);
            self.out.text(" ");
            self.share(took, total);
            self.out.text("  ");
            if let Some(name) = names.get(piece.row) {
                self.out.append(name);
            }
            self.out.text("  ");
            let sums = sums_of(self.timeline, visit);
            let named = first(NAMED, sums.len(), &dearest(&sums));
            for (place, sum) in named.into_iter().filter_map(|at| sums.get(at)).enumerate() {
                self.out.text(if place > 0 { ", " } else { "" });
                self.out.plain(sum.name.unwrap_or("between steps"));
                self.out.text(" ");
                self.out.tenths(micros(sum.took), 0);
            }
            let more = sums.len().saturating_sub(NAMED);
            if more > 0 {
                self.out.text(", ");
                self.out.number(more as u64);
                self.out.text(" more");
            }
            self.out.text("\n");
        }
    }

    fn notes(&mut self) {
        let start = self.out.len();
        let timeline = self.timeline;
        for row in timeline.rows.iter().filter(|row| row.lost > 0) {
            self.note(start, &row.name);
            self.out.text(": ");
            self.out.number(row.lost);
            self.out.text(" steps found no room\n");
        }
        for note in &timeline.notes {
            self.note(start, note);
            self.out.text("\n");
        }
    }

    /// Begins a note. Prints a blank line before the first note; `start` is the length of the
    /// output before the first note.
    fn note(&mut self, start: usize, text: &str) {
        let gap = if self.out.len() == start { "\n" } else { "" };
        self.out.text(gap);
        self.out.text("note: ");
        self.out.plain(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;

    fn table(timeline: &Timeline) -> String {
        text(timeline).into_string()
    }

    #[test]
    fn the_table_of_a_small_run() {
        let expected = "\
dayfly run c: 100.0 µs

     AT µs    TOOK µs  ROW     PHASE          STEP
       0.0       20.0  parent  bootstrap      exec
      20.0       60.0  parent  configuration  read
      30.0       10.0  parent  configuration    parse config.json: no such file or directory
      50.0       40.0  init    mounts         mount /proc
      85.0       10.0  parent  sync           await init  (waits for init)

PHASE            WORK µs   SHARE  STEPS  CALLS
mounts              40.0   33.3%      1      1
bootstrap           20.0   16.7%      1      1
configuration       60.0   50.0%      2      2
total              120.0  100.0%      4      4

ROW         PID    WORK µs     WAITED    BETWEEN       WALL
parent        7       80.0       10.0       10.0      100.0
init          8       40.0        0.0        0.0       40.0

   SELF µs  ROW     PHASE          SLOWEST STEPS
      50.0  parent  configuration  read
      40.0  init    mounts         mount /proc
      20.0  parent  bootstrap      exec
      10.0  parent  configuration  parse config.json: no such file or directory

     AT µs    TOOK µs   SHARE  ROW     CRITICAL PATH
       0.0       50.0   50.0%  parent  exec 20.0, read 20.0, parse 10.0
      50.0       40.0   40.0%  init    mount 40.0
      90.0       10.0   10.0%  parent  await init 5.0, between steps 5.0

note: init: 3 steps found no room
note: times are invented
";
        assert_eq!(table(&sample::small()), expected);
    }

    #[test]
    fn nothing_is_a_table_too() {
        assert!(table(&Timeline::default()).contains("CRITICAL PATH"));
    }
}
