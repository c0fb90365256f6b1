//! `unshare`: measures a process that makes a thousand IPC namespaces in a row.
//!
//! Since Linux 5.9 a work queue frees such namespaces; before that, freeing each namespace waited for the end of an RCU
//! grace period. The author of that change showed its effect by timing a program that does nothing else.

use crate::options::Unshare;
use crate::process::{self, Sample};
use crate::results;
use crate::session::{self, Outcome};
use crate::{Error, circumstances};
use measure::chart::Picture;
use measure::progress::Progress;
use measure::statistics::Summary;
use report::count::counted;
use report::{Table, interrupt};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use sys::clone::CloneFlags;

/// The hidden command that makes the namespaces.
pub const MAKE: &str = "make-ipc-namespaces";

/// The timeout of a round: before Linux 5.9 a namespace took 8 ms.
const DEADLINE: Duration = Duration::from_secs(120);

/// The times of the rounds.
#[derive(Debug, Serialize)]
struct Row {
    kind: &'static str,
    count: u32,
    /// The time of the whole program, in seconds.
    wall_s: Vec<f64>,
    /// The CPU time of the program, in seconds.
    cpu_s: Vec<f64>,
}

/// Makes `count` IPC namespaces, one after the other.
///
/// # Errors
/// Those of unshare(2).
pub fn make(count: u32) -> Result<(), Error> {
    for _ in 0..count {
        sys::ns::unshare(CloneFlags::NEWIPC)
            .map_err(Error::errno("unshare IPC of", Path::new("this process")))?;
    }
    Ok(())
}

/// Executes the command.
///
/// # Errors
/// Whatever prevents the program from making namespaces; an interrupt.
pub fn command(options: &Unshare) -> Result<(), Error> {
    let mut row = Row { kind: "ipc", count: options.count, wall_s: Vec::new(), cpu_s: Vec::new() };
    let mut progress = Progress::new();
    for round in 0..options.rounds {
        progress.tell("unshare, rounds", round, options.rounds);
        interrupt::check()?;
        let Sample { wall, usage, .. } = once(options.count)?;
        row.wall_s.push(wall.as_secs_f64());
        row.cpu_s.push(usage.cpu().as_secs_f64());
    }
    drop(progress);
    let record =
        circumstances::Circumstances::take("none".to_owned(), Vec::new(), Path::new("/run"));
    let outcome = Outcome {
        text: text(&row),
        json: vec![("rows", results::value(&[&row])?)],
        csv: csv(&row),
        pictures: vec![picture(&row)],
        ..Outcome::default()
    };
    session::tell(&options.forms, &record, &[], false, outcome)
}

/// Runs a program that only makes the namespaces.
fn once(count: u32) -> Result<Sample, Error> {
    let mut program = Command::new("/proc/self/exe");
    program.args([MAKE, &count.to_string()]);
    program.stdin(Stdio::null()).stdout(Stdio::null());
    process::run(&mut program, DEADLINE)
        .map_err(|failure| Error::Unfit(format!("{count} IPC namespaces: {failure}")))
}

fn text(row: &Row) -> String {
    let mut table = Table::new(&["s", "min", "median", "max"]);
    for (name, times) in [("until it is gone", &row.wall_s), ("CPU time", &row.cpu_s)] {
        let figures = Summary::of(times).map(|all| [all.min, all.median, all.max]);
        let cells = figures.into_iter().flatten().map(|s| format!("{s:.4}"));
        table.row(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    let rounds = counted(row.wall_s.len(), "round");
    format!("unshare(CLONE_NEWIPC) × {}, {rounds}\n{table}", row.count)
}

fn csv(row: &Row) -> String {
    let mut text = String::from("kind,count,round,wall_s,cpu_s\n");
    for (round, (wall, cpu)) in row.wall_s.iter().zip(&row.cpu_s).enumerate() {
        let _ = writeln!(text, "{},{},{round},{wall:.6},{cpu:.6}", row.kind, row.count);
    }
    text
}

/// Draws each round's times as dots.
fn picture(row: &Row) -> Picture {
    let us = |times: &[f64]| times.iter().map(|s| s * 1e6).collect::<Vec<_>>();
    let both = [("until it is gone", us(&row.wall_s)), ("CPU time", us(&row.cpu_s))];
    let title = format!("unshare(CLONE_NEWIPC) × {}, round by round", row.count);
    results::dots(&title, both.iter().map(|(name, times)| (*name, times.as_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_summed_up() {
        let row =
            Row { kind: "ipc", count: 10, wall_s: vec![0.25, 0.5, 1.0], cpu_s: vec![0.125; 3] };
        let expected = "\
unshare(CLONE_NEWIPC) × 10, 3 rounds
s                    min  median     max
until it is gone  0.2500  0.5000  1.0000
CPU time          0.1250  0.1250  0.1250
";
        assert_eq!(text(&row), expected);
        assert_eq!(csv(&row).lines().nth(2), Some("ipc,10,1,0.500000,0.125000"));
        let Picture::Chart(chart) = picture(&row) else { panic!("no chart") };
        assert_eq!(chart.series[0].points[2], (3.0, 1000.0));
    }
}
