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
const ROUNDS: usize = 5;

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
    let mut points = Vec::new();
    let mut progress = Progress::new();
    let all = numbers(placement.cpus.len()).count();
    for (done, threads) in numbers(placement.cpus.len()).enumerate() {
        progress.tell(placement.name, done, all);
        let mut turns = Vec::new();
        for _ in 0..ROUNDS {
            interrupt::check()?;
            let cpus: Vec<u32> = placement.cpus.iter().take(threads).collect();
            let round = time / ROUNDS as u32;
            turns.push(match work {
                Work::Lock => lock::round(&cpus, round)?,
                Work::Mounts => mounts::round(&cpus, round)?,
            });
        }
        points.push(Point::of(threads, median(&mut turns)));
    }
    Ok(Curve { work: work.name(), placement: placement.name, cpus: placement.cpus.clone(), points })
}

fn text(works: &[Work], curves: &[Curve], same: &[(&str, &str)], advice: &[Advice]) -> String {
    let mut text = String::new();
    for work in works {
        let _ = writeln!(text, "{}\n", work.describe());
        let mut table =
            Table::new(&["placement", "CPUs", "threads", "µs a turn", "turns/s", "of the best"])
                .left(&[0, 1]);
        for curve in curves.iter().filter(|curve| curve.work == work.name()) {
            let best = curve.points.iter().map(|point| point.per_second).fold(0.0, f64::max);
            for (index, point) in curve.points.iter().enumerate() {
                let first = |text: String| if index == 0 { text } else { String::new() };
                table.row(vec![
                    first(curve.placement.to_owned()),
                    first(curve.cpus.to_string()),
                    point.threads.to_string(),
                    match work {
                        Work::Lock => format!("{:.3}", point.turn_us),
                        Work::Mounts => format!("{:.1}", point.turn_us),
                    },
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
