//! The step table: both actors on one time line.

use alloc::vec::Vec;
use core::fmt;

use crate::record::{Actor, Kind, Phase, Record, Recorder};

/// What a step is called in reports.
#[derive(Debug, Clone)]
pub struct Label<'a> {
    /// What it is for.
    pub phase: Phase,
    /// What it does, such as `"mount"`.
    pub name: &'static str,
    /// What it does it to; may be empty.
    pub object: alloc::borrow::Cow<'a, str>,
}

/// Prints every step in order of its start, then the time each phase took. `host` and `init` name
/// the steps of either actor.
///
/// # Errors
/// Those of the writer.
pub fn table(
    out: &mut dyn fmt::Write,
    recorder: &Recorder,
    host: &[Label<'_>],
    init: &[Label<'_>],
) -> fmt::Result {
    let mut rows: Vec<(Actor, Record)> = Vec::new();
    for actor in [Actor::Host, Actor::Init] {
        rows.extend(recorder.records(actor).map(|record| (actor, record)));
    }
    rows.sort_by_key(|(_, record)| record.start);
    let Some(origin) = rows.first().map(|(_, record)| record.start) else { return Ok(()) };

    writeln!(out, "{:>9} {:>9}  {:<5} {:<14} STEP", "AT µs", "TOOK µs", "ACTOR", "PHASE")?;
    let mut phases: Vec<(Phase, u64, usize)> = Vec::new();
    let mut waits = 0;
    for (actor, record) in &rows {
        let (who, labels) = match actor {
            Actor::Host => ("host", host),
            Actor::Init => ("init", init),
        };
        let Some(label) = labels.get(usize::from(record.step)) else { continue };
        let took = record.end.saturating_sub(record.start);
        write!(
            out,
            "{:>9} {:>9}  {who:<5} {:<14} {}",
            Micros(record.start - origin),
            Micros(took),
            label.phase,
            label.name,
        )?;
        if !label.object.is_empty() {
            write!(out, " {}", label.object)?;
        }
        if record.errno != 0 {
            let errno = rustix::io::Errno::from_raw_os_error(i32::from(record.errno));
            write!(out, ": {}", sys::errno::describe(errno))?;
        }
        writeln!(out)?;
        if record.kind == Kind::Wait {
            waits += took;
            continue;
        }
        match phases.iter_mut().find(|(phase, ..)| *phase == label.phase) {
            Some((_, total, steps)) => {
                *total += took;
                *steps += 1;
            }
            None => phases.push((label.phase, took, 1)),
        }
    }
    phases.sort();
    let total: u64 = phases.iter().map(|(_, total, _)| total).sum();
    writeln!(out, "\n{:<14} {:>9} {:>6} {:>6}", "PHASE", "µs", "SHARE", "STEPS")?;
    for (phase, took, steps) in phases {
        let share = (took * 1000).checked_div(total).unwrap_or(0);
        writeln!(
            out,
            "{phase:<14} {:>9} {:>4}.{}% {steps:>6}",
            Micros(took),
            share / 10,
            share % 10
        )?;
    }
    writeln!(out, "{:<14} {:>9}", "waiting", Micros(waits))
}

/// Nanoseconds, printed as microseconds with one decimal.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0 / 100;
        f.pad_integral(true, "", &alloc::format!("{}.{}", tenths / 10, tenths % 10))
    }
}
