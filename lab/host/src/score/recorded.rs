//! Curves written by `dayfly host locks --format json`.

use crate::locks::{Curve, PLACEMENTS, Point, WORKS};
use report::Error;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use topology::List;

/// The maximum length of the document in bytes, larger than the curves of any host.
const LONGEST: u64 = 4 << 20;

/// The fields of the document that are read. The other fields can be computed from them.
#[derive(Deserialize)]
struct Document {
    curves: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    work: String,
    placement: String,
    cpus: String,
    points: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    threads: usize,
    turn_us: f64,
}

/// Reads the curves. The curves must have been measured on a host whose online CPUs are `online`.
///
/// # Errors
/// The file cannot be read, is not in this format, or was made on other CPUs.
pub fn read(file: &Path, online: &List) -> Result<Vec<Curve>, Error> {
    let mut text = String::new();
    let open = File::open(file).map_err(Error::of("open", file))?;
    let read = open.take(LONGEST + 1).read_to_string(&mut text);
    let length = read.map_err(Error::of("read", file))?;
    let refused = |reason: String| {
        refused!("{}: {reason}", file.display())
            .advise("--locks accepts the output of \"dayfly host locks --format json\"")
    };
    if length as u64 > LONGEST {
        return Err(refused(format!("longer than {LONGEST} bytes")));
    }
    let document: Document =
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    let curves = document.curves.iter().map(Recorded::curve).collect::<Result<Vec<_>, _>>();
    let curves = curves.map_err(refused)?;
    match curves.iter().find(|curve| !curve.cpus.is_within(online)) {
        Some(curve) => Err(refused!(
            "{}: measured on CPUs {}, of which {} are not online here",
            file.display(),
            curve.cpus,
            curve.cpus.without(online)
        )
        .advise("measure again, on this host")),
        None => Ok(curves),
    }
}

impl Recorded {
    fn curve(&self) -> Result<Curve, String> {
        let name = |text: &str, known: &[&'static str]| {
            let found = known.iter().find(|name| **name == text).copied();
            found.ok_or_else(|| format!("{text:?} is none of {}", known.join(", ")))
        };
        let work = name(&self.work, &WORKS)?;
        let placement = name(&self.placement, &PLACEMENTS)?;
        let cpus = List::parse(&self.cpus).filter(|cpus| !cpus.is_empty());
        let cpus = cpus.ok_or_else(|| format!("{:?} is not a list of CPUs", self.cpus))?;
        let mut points = Vec::new();
        for turn in &self.points {
            let last = points.last().map_or(0, |point: &Point| point.threads);
            if turn.threads <= last || turn.threads > cpus.len() {
                let (threads, all) = (turn.threads, cpus.len());
                return Err(format!("{threads} threads, after {last}, on {all} CPUs"));
            }
            // A turn takes at least a CPU cycle and at most a day.
            if !(1e-5..1e11).contains(&turn.turn_us) {
                return Err(format!("a turn of {} µs", turn.turn_us));
            }
            points.push(Point::of(turn.threads, turn.turn_us));
        }
        // The last point must have as many threads as there are CPUs.
        match points.last().is_some_and(|point| point.threads == cpus.len()) {
            true => Ok(Curve { work, placement, cpus, points, rounds_us: Vec::new() }),
            false => Err(format!("no point with as many threads as CPUs, {}", cpus.len())),
        }
    }
}
