//! For people: each step, the phases, the rows, the slowest steps, the critical path.

use core::fmt::{self, Write};

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::nest::{Place, places};
use super::text::{Micros, Plain, Share, Step, awaited, origin};
use crate::critical::order;
use crate::{Account, Phase, Row, Span, Stretch, Timeline, critical_path, path_sums};

/// How many of the slowest steps are told.
const SLOWEST: usize = 10;

/// How many steps a line of the critical path names.
const NAMED: usize = 4;

/// Writes it.
pub fn write(out: &mut dyn fmt::Write, timeline: &Timeline) -> fmt::Result {
    let names = timeline.rows.iter().map(|row| row.name.chars().count());
    let table = Table {
        timeline,
        accounts: timeline.rows.iter().map(Account::of).collect(),
        origin: origin(timeline),
        width: names.max().unwrap_or(0).clamp(3, 16),
    };
    let took = timeline.end().saturating_sub(timeline.start());
    write!(out, "{}", Plain(&timeline.command))?;
    if !timeline.id.is_empty() {
        write!(out, " {}", Plain(&timeline.id))?;
    }
    writeln!(out, ": {} µs", Micros(took))?;
    table.steps(out)?;
    table.phases(out)?;
    table.rows(out)?;
    table.slowest(out)?;
    table.critical(out)?;
    table.notes(out)
}

struct Table<'a> {
    timeline: &'a Timeline,
    accounts: Vec<Account>,
    origin: u64,
    /// Of the column of row names.
    width: usize,
}

/// A span with what the table says about it.
struct Told<'a> {
    row: &'a Row,
    span: &'a Span,
    own: u64,
    place: Place,
}

impl<'a> Table<'a> {
    fn told(&self) -> Vec<Told<'a>> {
        let mut all = Vec::new();
        for (row, account) in self.timeline.rows.iter().zip(&self.accounts) {
            let spans = row.spans.iter().zip(&account.own).zip(places(row));
            all.extend(spans.map(|((span, &own), place)| Told { row, span, own, place }));
        }
        all
    }

    fn at(&self, time: u64) -> Micros {
        Micros(time.saturating_sub(self.origin))
    }

    fn steps(&self, out: &mut dyn Write) -> fmt::Result {
        let width = self.width;
        writeln!(
            out,
            "\n{:>10} {:>10}  {:width$}  {:<13}  STEP",
            "AT µs", "TOOK µs", "ROW", "PHASE"
        )?;
        let all = self.told();
        let start = |index: usize| all.get(index).map(|told| told.span.start);
        for index in order(all.len(), &|a, b| start(a).cmp(&start(b))) {
            let Some(Told { row, span, place, .. }) = all.get(index) else { continue };
            let (at, took) = (self.at(span.start), Micros(span.took()));
            write!(out, "{at:>10} {took:>10}  {:width$}  {:<13}  ", Name(&row.name), span.phase)?;
            for _ in 0..place.depth.min(8) {
                out.write_str("  ")?;
            }
            write!(out, "{}", Step(span))?;
            if let Some(whom) = awaited(self.timeline, span) {
                match whom {
                    "other" => out.write_str("  (waits)")?,
                    whom => write!(out, "  (waits for {})", Plain(whom))?,
                }
            }
            out.write_str("\n")?;
        }
        Ok(())
    }

    fn phases(&self, out: &mut dyn Write) -> fmt::Result {
        let sums = self.timeline.phase_sums();
        let total = sums.iter().fold(0u64, |total, sum| total.saturating_add(sum.time));
        writeln!(
            out,
            "\n{:<13} {:>10} {:>7} {:>6} {:>6}",
            "PHASE", "WORK µs", "SHARE", "STEPS", "CALLS"
        )?;
        for sum in &sums {
            let (time, share) = (Micros(sum.time), Share(sum.time, total));
            let (steps, calls) = (sum.steps, sum.calls);
            writeln!(out, "{:<13} {time:>10} {share:>6}% {steps:>6} {calls:>6}", sum.phase)?;
        }
        let steps: usize = sums.iter().map(|sum| sum.steps).sum();
        let calls: usize = sums.iter().map(|sum| sum.calls).sum();
        let (time, share) = (Micros(total), Share(total, total));
        writeln!(out, "{:<13} {time:>10} {share:>6}% {steps:>6} {calls:>6}", "total")
    }

    fn rows(&self, out: &mut dyn Write) -> fmt::Result {
        let width = self.width;
        writeln!(
            out,
            "\n{:width$} {:>8} {:>10} {:>10} {:>10} {:>10}",
            "ROW", "PID", "WORK µs", "WAITED", "BETWEEN", "WALL"
        )?;
        for (row, account) in self.timeline.rows.iter().zip(&self.accounts) {
            let waited = account.waited(row);
            let work = row.took().saturating_sub(waited).saturating_sub(account.between);
            let [work, waited, between, wall] =
                [work, waited, account.between, row.took()].map(Micros);
            let (name, pid) = (Name(&row.name), row.pid);
            writeln!(
                out,
                "{name:width$} {pid:>8} {work:>10} {waited:>10} {between:>10} {wall:>10}"
            )?;
        }
        Ok(())
    }

    fn slowest(&self, out: &mut dyn Write) -> fmt::Result {
        let mut all = self.told();
        all.retain(|told| {
            told.span.wait.is_none() && told.span.phase != Phase::Program && told.own > 0
        });
        let own = |index: usize| all.get(index).map(|told| told.own);
        let width = self.width;
        writeln!(out, "\n{:>10}  {:width$}  {:<13}  SLOWEST STEPS", "SELF µs", "ROW", "PHASE")?;
        for index in order(all.len(), &|a, b| own(b).cmp(&own(a))).into_iter().take(SLOWEST) {
            let Some(Told { row, span, own, .. }) = all.get(index) else { continue };
            let (own, name) = (Micros(*own), Name(&row.name));
            writeln!(out, "{own:>10}  {name:width$}  {:<13}  {}", span.phase, Step(span))?;
        }
        Ok(())
    }

    /// A line for each time that the path goes through a row.
    fn critical(&self, out: &mut dyn Write) -> fmt::Result {
        let path = critical_path(self.timeline);
        let took = |pieces: &[Stretch]| pieces.iter().map(Stretch::took).sum::<u64>();
        let (width, total) = (self.width, took(&path));
        writeln!(
            out,
            "\n{:>10} {:>10} {:>7}  {:width$}  CRITICAL PATH",
            "AT µs", "TOOK µs", "SHARE", "ROW"
        )?;
        for visit in path.chunk_by(|a, b| a.row == b.row) {
            let Some(first) = visit.first() else { continue };
            let name = self.timeline.rows.get(first.row).map_or("", |row| &row.name);
            let (at, share) = (self.at(first.start), Share(took(visit), total));
            let took = Micros(took(visit));
            write!(out, "{at:>10} {took:>10} {share:>6}%  {:width$}  ", Name(name))?;
            let sums = path_sums(self.timeline, visit);
            for (index, sum) in sums.iter().take(NAMED).enumerate() {
                let comma = if index > 0 { ", " } else { "" };
                let name = Plain(sum.name.unwrap_or("between steps"));
                write!(out, "{comma}{name} {}", Micros(sum.took))?;
            }
            match sums.len().saturating_sub(NAMED) {
                0 => out.write_str("\n")?,
                more => writeln!(out, ", {more} more")?,
            }
        }
        Ok(())
    }

    fn notes(&self, out: &mut dyn Write) -> fmt::Result {
        let lost = self.timeline.rows.iter().filter(|row| row.lost > 0);
        let lost = lost.map(|row| format!("{}: {} steps found no room", row.name, row.lost));
        for (index, note) in lost.chain(self.timeline.notes.iter().cloned()).enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            writeln!(out, "{gap}note: {}", Plain(&note))?;
        }
        Ok(())
    }
}

/// A row's name in its column.
struct Name<'a>(&'a str);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = String::new();
        write!(name, "{}", Plain(self.0))?;
        f.pad(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;

    fn table(timeline: &Timeline) -> String {
        let mut text = String::new();
        write(&mut text, timeline).unwrap();
        text
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
