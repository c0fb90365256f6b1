//! `dayfly host locks`: measures lock contention between threads, as does the article on mount lock contention.
//!
//! Every mount, unmount and path lookup of a host uses the same lock. The lock's throughput under contention depends on
//! which CPUs contend: those of one socket or of two, two CPUs of a core, CPUs with a common cache or with several. So
//! this command lets threads contend for such a lock, on one set of CPUs (a *placement*) after the other. The curves
//! show how many starts to run concurrently, and on which CPUs.

mod advice;
mod lock;
mod mounts;
mod placement;
mod team;

pub use advice::{Advice, ENOUGH, advise};
pub use placement::{PLACEMENTS, Placement, placements};

use crate::measure::bootstrap;
use crate::measure::chart::{self, Axis, Chart, Form, Picture, Series};
use crate::measure::progress::Progress;
use crate::measure::statistics::median;
use crate::options::{Locks, Work};
use report::interrupt::{self, Second};
use report::{Error, Format, Table, say, sayln};
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::time::Duration;
use topology::{List, Topology};

/// The number of measurements for each number of threads.
const ROUNDS: usize = 8;

/// The names of the variants of [`Work`], the work that the threads can do.
pub const WORKS: [&str; 2] = ["lock", "mounts"];

/// The result for a number of threads. A *turn* is one repetition of the work: to take and release the lock, or to
/// mount and unmount a layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The number of threads.
    pub threads: usize,
    /// The time of one turn of a thread in microseconds: the median of the rounds.
    pub turn_us: f64,
    /// Turns of all threads per second.
    pub per_second: f64,
}

impl Point {
    /// Computes a point from the time of a turn.
    pub fn of(threads: usize, turn_us: f64) -> Self {
        Self { threads, turn_us, per_second: threads as f64 * 1e6 / turn_us }
    }
}

/// The results for increasing numbers of threads in one placement.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// The work of the threads: `lock` or `mounts`.
    pub work: &'static str,
    /// The placement of the threads.
    pub placement: &'static str,
    /// The CPUs of the threads.
    pub cpus: List,
    /// The results by number of threads.
    pub points: Vec<Point>,
    /// The time of a turn in each round, for each point; empty if not recorded.
    pub rounds_us: Vec<Vec<f64>>,
}

impl Curve {
    /// Returns the curve of the quickest rounds, which other processes of the host have disturbed least.
    pub fn undisturbed(&self) -> Self {
        let quickest = |rounds: &Vec<f64>| rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let points = self.points.iter().enumerate().map(|(at, point)| {
            let us = self.rounds_us.get(at).map_or(f64::INFINITY, quickest);
            if us.is_finite() { Point::of(point.threads, us) } else { *point }
        });
        Self { points: points.collect(), ..self.clone() }
    }
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Lock => WORKS[0],
            Self::Mounts => WORKS[1],
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Lock => "one lock like mount_lock: read its sequence, take it, release it",
            Self::Mounts => {
                "mounts: a layer bound and taken away (open_tree, move_mount, umount2), each thread in a \
                 mount namespace of its own"
            }
        }
    }
}

/// Measures lock throughput by number of threads, one curve for each placement of the threads, and prints the curves
/// with advice on concurrent starts.
///
/// # Errors
/// Mount operations without root; a file that cannot be written; SIGINT.
pub fn locks(options: &Locks) -> Result<(), Error> {
    let (curves, same) = measure(&options.work, options.time)?;
    if let Some(file) = &options.svg {
        fs::write(file, picture(&curves)).map_err(Error::of("write", file))?;
    }
    let advice = advise(&curves);
    match options.format {
        Format::Json => {
            let json = serde_json::json!({
                "curves": curves,
                "same": same.iter().map(|(one, other)| [one, other]).collect::<Vec<_>>(),
                "advice": advice,
            });
            sayln!("{json:#}");
        }
        Format::Table => say!("{}", text(&options.work, &curves, &same, &advice)),
    }
    Ok(())
}

/// The curves of each work; and the placements without curves of their own, each with the name of the measured
/// placement that has the same CPUs.
pub type Measured = (Vec<Curve>, Vec<(&'static str, &'static str)>);

/// Measures the curves of these works, for `time` per number of threads.
///
/// # Errors
/// As [`locks`].
pub fn measure(works: &[Work], time: Duration) -> Result<Measured, Error> {
    interrupt::catch(Second::Waits)?;
    let topology = Topology::read("")?;
    let own = rustix::thread::sched_getaffinity(None)
        .map_err(|errno| Error::system("sched_getaffinity", "this process", errno))?;
    let allowed: List = topology.online().iter().filter(|cpu| own.is_set(*cpu as usize)).collect();
    let (different, same) = placements(&topology, &allowed);
    let mut curves = Vec::new();
    for work in works {
        for placement in &different {
            curves.push(curve(*work, placement, time)?);
        }
    }
    Ok((curves, same))
}

/// Iterates over the powers of two below `cpus`, and ends with `cpus` itself.
fn numbers(cpus: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |threads| Some(threads * 2));
    doubled.take_while(move |threads| *threads < cpus).chain([cpus])
}

fn curve(work: Work, placement: &Placement, time: Duration) -> Result<Curve, Error> {
    let numbers: Vec<usize> = numbers(placement.cpus.len()).collect();
    let mut rounds_us = vec![Vec::new(); numbers.len()];
    let mut progress = Progress::new();
    // The numbers of threads take turns, so that what else the host does disturbs all of them.
    for round in 0..ROUNDS {
        progress.tell(placement.name, round, ROUNDS);
        for (threads, turns) in numbers.iter().zip(&mut rounds_us) {
            interrupt::check()?;
            let cpus: Vec<u32> = placement.cpus.iter().take(*threads).collect();
            let time = time / ROUNDS as u32;
            turns.push(match work {
                Work::Lock => lock::round(&cpus, time)?,
                Work::Mounts => mounts::round(&cpus, time)?,
            });
        }
    }
    let points = numbers.iter().zip(&rounds_us);
    let points = points.map(|(threads, turns)| Point::of(*threads, median(&mut turns.clone())));
    Ok(Curve {
        work: work.name(),
        placement: placement.name,
        cpus: placement.cpus.clone(),
        points: points.collect(),
        rounds_us,
    })
}

fn text(works: &[Work], curves: &[Curve], same: &[(&str, &str)], advice: &[Advice]) -> String {
    let mut text = String::new();
    for work in works {
        let _ = writeln!(text, "{}\n", work.describe());
        let mut table = Table::new(&[
            "placement",
            "CPUs",
            "threads",
            "µs a turn",
            "95 %",
            "turns/s",
            "of the best",
        ])
        .left(&[0, 1]);
        for curve in curves.iter().filter(|curve| curve.work == work.name()) {
            let best = curve.points.iter().map(|point| point.per_second).fold(0.0, f64::max);
            for (index, point) in curve.points.iter().enumerate() {
                let first = |text: String| if index == 0 { text } else { String::new() };
                let rounds = curve.rounds_us.get(index).map_or(&[][..], Vec::as_slice);
                let between = bootstrap::middle(rounds).map_or_else(String::new, |us| {
                    format!("{} {}", chart::digits(us.low), chart::digits(us.high))
                });
                table.row(vec![
                    first(curve.placement.to_owned()),
                    first(curve.cpus.to_string()),
                    point.threads.to_string(),
                    match work {
                        Work::Lock => format!("{:.3}", point.turn_us),
                        Work::Mounts => format!("{:.1}", point.turn_us),
                    },
                    between,
                    format!("{:.0}", point.per_second),
                    format!("{:.0} %", point.per_second / best * 100.0),
                ]);
            }
        }
        let _ = writeln!(text, "{table}");
    }
    for (one, other) in same {
        let _ = writeln!(text, "{one}: the same CPUs as {other} here");
    }
    if !same.is_empty() {
        text.push('\n');
    }
    for advice in advice {
        let _ = writeln!(text, "→ {}", advice.text);
    }
    text
}

/// Draws the curves: a picture per work.
fn picture(curves: &[Curve]) -> String {
    let chart = |(work, title): (&str, &str)| {
        let series = |curve: &Curve| Series {
            name: format!("{} ({})", curve.placement, curve.cpus),
            points: curve.points.iter().map(|it| (it.threads as f64, it.turn_us)).collect(),
        };
        Chart {
            title: title.to_owned(),
            x: Axis::logarithmic("threads"),
            y: Axis::linear("µs a turn, median"),
            series: curves.iter().filter(|curve| curve.work == work).map(series).collect(),
            marks: Vec::new(),
            form: Form::Curves,
        }
    };
    let titles = ["Time of a turn at one lock", "Time of a mount and its unmount"];
    let charts = WORKS.into_iter().zip(titles).map(chart);
    let charts = charts.filter(|chart| !chart.series.is_empty()).map(Picture::Chart);
    chart::draw(&charts.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads() {
        assert_eq!(numbers(1).collect::<Vec<_>>(), [1]);
        assert_eq!(numbers(2).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(numbers(96).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 96]);
    }
}
