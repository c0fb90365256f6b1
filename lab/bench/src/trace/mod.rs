//! `trace`: shows where the time of a start goes.
//!
//! | part | what |
//! |---|---|
//! | [`inside`] | dayfly's own trace, extended by times that its caller measures |
//! | [`outside`] | the system calls of any runtime, as a time line of the same kind |
//! | [`calibrate`] | the cost of tracing from outside |
//! | [`sums`], [`mod@figures`], `text` | the sums of one start, the figures of many starts, and tables |
//! | [`overhead`] | `trace-overhead`: what dayfly's own trace costs |

pub mod calibrate;
pub mod figures;
pub mod inside;
pub mod outside;
pub mod overhead;
mod schedule;
pub mod sums;
mod text;

use crate::Error;
use crate::arguments::Common;
use crate::options::Trace;
use crate::process::Sample;
use crate::race::Operation;
use crate::results;
use crate::session::{self, Experiment, Outcome};
use crate::stand::{Entrant, Stand};
use crate::weight::Way;
use calibrate::Cost;
use figures::Figures;
use measure::chart::Picture;
use measure::statistics::median;
use outside::Observed;
use report::count::counted;
use report::csv::quoted;
use schedule::Lateness;
use std::fmt::Write;
use trace::{Awaited, Format, Timeline};

/// A runtime, traced in one way.
#[derive(Debug)]
struct Column {
    name: String,
    /// The index of the runtime among the entrants.
    entrant: usize,
    way: Way,
    /// The time lines of each start: one for each command.
    starts: Vec<Vec<Observed>>,
    /// The samples of untraced starts, as many as the traced starts.
    untraced: Vec<Vec<Sample>>,
}

/// Returns the way in which each runtime is traced: dayfly traces itself, and other runtimes are
/// traced from outside. If any runtime is traced from outside, dayfly is also traced from outside,
/// for a fair comparison. With `outside`, no runtime traces itself.
fn columns(entrants: &[Entrant], outside: bool) -> Vec<Column> {
    let tells = |entrant: &Entrant| !outside && entrant.runtime.is_dayfly();
    let any_followed = !entrants.iter().all(tells);
    let mut columns = Vec::new();
    for (at, entrant) in entrants.iter().enumerate() {
        let mut column = |name: String, way| {
            let (starts, untraced) = (Vec::new(), Vec::new());
            columns.push(Column { name, entrant: at, way, starts, untraced });
        };
        if tells(entrant) {
            column(format!("{} (its own trace)", entrant.name), Way::Traced);
        }
        if any_followed {
            column(format!("{} (followed)", entrant.name), Way::Observed);
        }
    }
    columns
}

impl Experiment for Trace {
    fn common(&self) -> &Common {
        &self.common
    }

    fn prepare(&mut self) -> Result<(), Error> {
        self.common.bundle = self.directory.take().or(self.common.bundle.take());
        Ok(())
    }

    fn entrants(&self) -> Result<Vec<Entrant>, Error> {
        match self.common.runtimes[..] {
            [] => Ok(vec![Entrant::new(session::own(&self.common)?)]),
            _ => session::all(&self.common),
        }
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        experiment(self, stand, entrants)
    }
}

fn experiment(options: &Trace, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
    let mut columns = columns(entrants, options.outside);
    let followed = columns.iter().any(|column| column.way == Way::Observed);
    let cost = if followed { Some(calibrate::measure(stand.deadline)?) } else { None };
    let mut all: Vec<Figures> = Vec::new();
    let mut text = String::new();
    let mut document = None;
    for &operation in &options.operation {
        let lateness = schedule::run(options, stand, entrants, operation, &mut columns)?;
        columns.retain(|column| !entrants[column.entrant].is_out());
        let figures = figures(&columns, operation, cost);
        let _ = write!(text, "{}", tables(&figures, operation, &lateness, options));
        all.extend(figures);
        if let Some(format) = options.common.forms.format.of_one_start()
            && let Some(column) = columns.first()
            && document.is_none()
        {
            document = Some(picture(format, column, &entrants[column.entrant].name)?);
        }
        columns.iter_mut().for_each(|column| {
            column.starts.clear();
            column.untraced.clear();
        });
    }
    let _ = write!(text, "{}", text::costs(&all, cost));
    Ok(Outcome {
        text,
        json: vec![("commands", results::value(&all)?), ("calibration", results::value(&cost)?)],
        csv: csv(&all),
        pictures: pictures(&all),
        document,
    })
}

/// Draws the mean time that each runtime works in each category (a phase, or the time between steps), one picture per
/// command; then each category's share of the runtime's work.
fn pictures(all: &[Figures]) -> Vec<Picture> {
    let parts =
        |figures| Figures::phases_and_between(figures).filter(|part| part.time_us.mean > 0.0);
    let mut commands: Vec<&str> = all.iter().map(|figures| figures.command.as_str()).collect();
    commands.dedup();
    let of_command = |command: &&str| {
        let of = all.iter().filter(|figures| figures.command == *command);
        let times = of.flat_map(|figures| {
            parts(figures)
                .map(|part| (part.name.clone(), figures.runtime.clone(), part.time_us.mean / 1e3))
        });
        results::bars(&format!("{command}: work by category"), "ms, mean", times)
    };
    let mut pictures: Vec<Picture> = commands.iter().map(of_command).collect();
    let shares = all.iter().flat_map(|figures| {
        let name = format!("{}, {}", figures.runtime, figures.command);
        parts(figures)
            .filter_map(move |part| Some((name.clone(), part.name.clone(), part.share? * 100.0)))
    });
    let mut shares = results::bars("Shares of the runtime's work", "%", shares);
    if let Picture::Bars(bars) = &mut shares {
        bars.stacked = true;
    }
    pictures.push(shares);
    pictures
}

/// Returns the figures of every command of an operation, runtime by runtime.
fn figures(columns: &[Column], operation: Operation, cost: Option<Cost>) -> Vec<Figures> {
    let mut all = Vec::new();
    for (at, command) in operation.commands().iter().enumerate() {
        let step = operation.steps().iter().position(|step| step == command);
        for column in columns {
            let starts: Vec<&Observed> =
                column.starts.iter().filter_map(|start| start.get(at)).collect();
            let samples = column.untraced.iter().filter_map(|start| start.get(step?));
            let untraced: Vec<f64> =
                samples.map(|sample| sample.wall.as_secs_f64() * 1e6).collect();
            let cost = cost.filter(|_| column.way == Way::Observed);
            all.extend(Figures::of(&column.name, command, &starts, &untraced, cost));
        }
    }
    all
}

fn tables(all: &[Figures], operation: Operation, late: &Lateness, options: &Trace) -> String {
    let mut text = String::new();
    for figures in all {
        let _ = writeln!(text, "{}", text::one(figures));
    }
    for command in operation.commands() {
        let same: Vec<&Figures> =
            all.iter().filter(|figures| figures.command == *command).collect();
        if same.len() > 1 {
            let _ = writeln!(text, "{}", text::side_by_side(&same));
        }
    }
    if late.starts > 0 {
        let _ = writeln!(
            text,
            "{} of {} began late, by up to {:.1} ms: one every {:?} is more than this host does\n",
            late.starts,
            counted(late.of, "start"),
            late.most.as_secs_f64() * 1e3,
            options.interval,
        );
    }
    text
}

/// Formats the start that is nearest to the median, as a file.
fn picture(format: Format, column: &Column, runtime: &str) -> Result<String, Error> {
    let took = |start: &Vec<Observed>| {
        let commands = start.iter().filter_map(|observed| observed.timeline.rows.first());
        commands.map(trace::Row::took).sum::<u64>() as f64
    };
    let middle = median(&mut column.starts.iter().map(took).collect::<Vec<_>>());
    let distance = |start: &Vec<Observed>| (took(start) - middle).abs();
    let typical =
        column.starts.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    let timelines = typical.into_iter().flatten().map(|observed| observed.timeline.clone());
    let mut whole = joined(timelines);
    whole.notes.push(format!(
        "of {} by {runtime}, the one nearest to the median",
        counted(column.starts.len(), "start")
    ));
    Ok(format.text(&whole))
}

/// Joins the time lines of consecutive commands.
fn joined(timelines: impl Iterator<Item = Timeline>) -> Timeline {
    let mut whole = Timeline::default();
    for timeline in timelines {
        let first = whole.rows.len();
        let command = timeline.command.rsplit(' ').next().unwrap_or_default().to_owned();
        whole.command = match first {
            0 => timeline.command,
            _ => format!("{}, {command}", whole.command),
        };
        whole.id = timeline.id;
        whole.notes.extend(timeline.notes);
        whole.rows.extend(timeline.rows.into_iter().map(|mut row| {
            if first > 0 {
                row.name = format!("{command}: {}", row.name);
            }
            row.parent = row.parent.map(|parent| parent + first);
            for span in &mut row.spans {
                if let Some(Awaited::Row(other)) = &mut span.wait {
                    *other += first;
                }
            }
            row
        }));
    }
    whole.notes.dedup();
    whole
}

/// Formats a line for each command, runtime and category.
fn csv(all: &[Figures]) -> String {
    let mut text = String::from(
        "runtime,command,category,mean_us,deviation_us,p99_us,steps,calls,critical_path_us\n",
    );
    for figures in all {
        for part in figures.phases.iter().chain([&figures.between, &figures.waits]) {
            let time = part.time_us;
            let _ = writeln!(
                text,
                "{},{},{},{:.3},{:.3},{:.3},{},{:.2},{:.3}",
                quoted(&figures.runtime),
                figures.command,
                part.name,
                time.mean,
                time.deviation,
                time.p99,
                part.steps,
                part.calls,
                part.path_us
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entrants: &[&str], outside: bool) -> Vec<String> {
        let entrants: Vec<Entrant> = entrants.iter().map(|name| Entrant::named(name)).collect();
        columns(&entrants, outside).into_iter().map(|column| column.name).collect()
    }

    #[test]
    fn like_is_compared_with_like() {
        assert_eq!(names(&["dayfly"], false), ["dayfly (its own trace)"]);
        assert_eq!(names(&["dayfly"], true), ["dayfly (followed)"]);
        let three = ["dayfly (its own trace)", "dayfly (followed)", "runc (followed)"];
        assert_eq!(names(&["dayfly", "runc"], false), three);
    }

    #[test]
    fn commands_follow_each_other() {
        let observed = sums::tests::observed();
        let mut other = observed.timeline.clone();
        other.command = "dayfly delete".to_owned();
        let first = Timeline { command: "dayfly create".to_owned(), ..observed.timeline };
        let whole = joined([first, other].into_iter());
        assert_eq!(whole.command, "dayfly create, delete");
        assert_eq!((whole.rows[3].parent, whole.rows[3].name.as_str()), (Some(2), "delete: init"));
        assert_eq!(whole.rows[2].spans[3].wait, Some(Awaited::Row(3)));
    }
}
