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

use crate::arguments::Format as OutputFormat;
use crate::harness::*;
use crate::race::{Go, go, sleepers};
use crate::weight::Way;
use calibrate::Cost;
use figures::Figures;
use outside::Observed;
use schedule::{Clock, Lateness};
use trace::{Awaited, Format, Timeline};

/// The help of `trace` about runtimes.
const TRACED: &str = "A runtime; repeatable. dayfly traces itself; other runtimes are traced by \
    ptrace(2), and then dayfly is also traced by ptrace(2), in addition [default: dayfly]";

/// The help of `trace` about formats.
const FORMATS: &str = "The output: tables over all starts, the same figures as JSON, or one start as a file for a \
    viewer. That start is the first runtime's start that is nearest to the median";

/// `trace`.
#[derive(Debug, Args)]
#[command(mut_arg("runtimes", |runtimes| runtimes.help(TRACED)))]
#[command(mut_arg("format", |it| it.value_parser(clap::value_parser!(OutputFormat)).help(FORMATS)))]
#[command(mut_arg("program", |program| program.index(2)))]
#[command(mut_arg("csv", |csv| csv.help("Write the categories of each runtime and command as CSV")))]
pub struct Trace {
    /// The bundle to start [default: a bundle like that of the experiments, see --profile]
    #[arg(value_name = "BUNDLE", index = 1, conflicts_with_all = ["bundle", "profile"])]
    pub directory: Option<PathBuf>,
    /// Number of measured starts
    #[arg(short = 'n', long, value_name = "N", value_parser = some, default_value = "100")]
    pub count: usize,
    /// The time between two starts
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms")]
    pub interval: Duration,
    /// Number of starts before the measured ones
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub warm_up: usize,
    /// The traced operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "run")]
    pub operation: Vec<Operation>,
    /// Trace dayfly from outside like the other runtimes, instead of using its own trace
    #[arg(long)]
    pub outside: bool,
    /// The format of a single start, if one is asked for.
    #[arg(skip)]
    pub of_one_start: Option<Format>,
}

/// The end of the name of an entrant that traces itself.
const OWN: &str = "(its own trace)";
/// The end of the name of an entrant that is traced from outside.
const FOLLOWED: &str = "(followed)";

/// Returns an entrant for each way in which a runtime is traced: dayfly traces itself, and other runtimes are traced
/// from outside. If any runtime is traced from outside, dayfly is also traced from outside, for a fair comparison. With
/// `outside`, no runtime traces itself.
fn ways(runtimes: &[Entrant], outside: bool) -> Vec<Entrant> {
    let tells = |runtime: &Entrant| !outside && runtime.runtime.is_dayfly();
    let any_followed = !runtimes.iter().all(tells);
    let ways = |runtime: &'_ Entrant| {
        let own = tells(runtime).then_some(OWN);
        let both = [own, any_followed.then_some(FOLLOWED)]
            .map(|way| way.map(|way| runtime.called(format!("{} {way}", runtime.name))));
        both.into_iter().flatten()
    };
    runtimes.iter().flat_map(ways).collect()
}

/// Returns the way in which an entrant is traced.
fn way(entrant: &Entrant) -> Way {
    if entrant.name.ends_with(OWN) { Way::Traced } else { Way::Observed }
}

impl Experiment for Trace {
    fn prepare(&mut self, common: &mut Common) -> Result<(), Error> {
        common.bundle = self.directory.take().or(common.bundle.take());
        self.of_one_start = common.forms.format.of_one_start();
        Ok(())
    }

    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let runtimes = match common.runtimes[..] {
            [] => vec![Entrant::new(session::own(common)?)],
            _ => session::all(common)?,
        };
        Ok(ways(&runtimes, self.outside))
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let followed = entrants.iter().any(|entrant| way(entrant) == Way::Observed);
        let cost = followed.then(|| calibrate::measure(stand.deadline)).transpose()?;
        let mut all: Vec<Figures> = Vec::new();
        let mut text = String::new();
        let mut document = None;
        for &operation in &self.operation {
            let (starts, lateness) = self.starts(stand, entrants, operation)?;
            let raced: Vec<_> =
                entrants.iter().zip(starts).filter(|(entrant, _)| !entrant.is_out()).collect();
            let figures = figures(&raced, operation, cost);
            text += &tables(&figures, operation, &lateness, self);
            all.extend(figures);
            if let Some(format) = self.of_one_start
                && let Some((entrant, starts)) = raced.first()
                && document.is_none()
            {
                document = Some(picture(format, starts, &entrant.runtime.name));
            }
        }
        text += &text::costs(&all, cost);
        let outcome = Outcome {
            text,
            csv: csv(&all),
            pictures: pictures(&all),
            document,
            ..Outcome::default()
        };
        outcome.with("commands", &all)?.with("calibration", &cost)
    }
}

impl Trace {
    /// Makes every entrant perform the operation twice per round, traced and untraced, each when its start is due.
    fn starts(
        &self,
        stand: &Stand,
        entrants: &[Entrant],
        operation: Operation,
    ) -> Result<(Vec<Vec<Go>>, Lateness), Error> {
        let sleepers = sleepers(stand, entrants, operation)?;
        let title = format!("{}, traced", operation.commands().join("+"));
        let rounds = Rounds { warm_up: self.warm_up, timed: self.count, ..Rounds::default() };
        let mut clock = Clock::new(self.interval);
        let mut turns = vec![0; entrants.len()];
        let starts = in_turns(entrants, rounds, &title, |at| {
            let mut ways = [way(&entrants[at]), Way::Timed];
            ways.rotate_left(turns[at] % 2);
            turns[at] += 1;
            // The untraced samples, and what was observed of the traced commands.
            let mut start = Go::default();
            for way in ways {
                interrupt::check()?;
                clock.wait();
                let go = go(stand, &entrants[at], operation, sleepers[at].as_ref(), way)?;
                match way {
                    Way::Timed => start.samples = go.samples,
                    _ => start.observed = go.observed,
                }
            }
            Ok(start)
        })?;
        Ok((starts, clock.late))
    }
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

/// Returns the figures of every command of an operation, entrant by entrant.
fn figures(
    raced: &[(&Entrant, Vec<Go>)],
    operation: Operation,
    cost: Option<Cost>,
) -> Vec<Figures> {
    let mut all = Vec::new();
    for (at, command) in operation.commands().iter().enumerate() {
        let step = operation.steps().iter().position(|step| step == command);
        for (entrant, starts) in raced {
            let observed: Vec<&Observed> =
                starts.iter().filter_map(|start| start.observed.get(at)).collect();
            let samples = starts.iter().filter_map(|start| start.samples.get(step?));
            let untraced: Vec<f64> =
                samples.map(|sample| sample.wall.as_secs_f64() * 1e6).collect();
            let cost = cost.filter(|_| way(entrant) == Way::Observed);
            all.extend(Figures::of(&entrant.name, command, &observed, &untraced, cost));
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
fn picture(format: Format, starts: &[Go], runtime: &str) -> String {
    let took = |start: &Go| {
        let commands = start.observed.iter().filter_map(|it| it.timeline.rows.first());
        commands.map(trace::Row::took).sum::<u64>() as f64
    };
    let middle = median(&mut starts.iter().map(took).collect::<Vec<_>>());
    let distance = |start: &Go| (took(start) - middle).abs();
    let typical = starts.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
    let timelines = typical.into_iter().flat_map(|start| &start.observed);
    let timelines = timelines.map(|observed| observed.timeline.clone());
    let mut whole = joined(timelines);
    whole.notes.push(format!(
        "of {} by {runtime}, the one nearest to the median",
        counted(starts.len(), "start")
    ));
    format.text(&whole)
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
    let lines = all.iter().flat_map(|of| {
        of.phases.iter().chain([&of.between, &of.waits]).map(move |part| {
            let time = part.time_us;
            let times = (time.mean, time.deviation, time.p99);
            let rest = (part.steps, part.calls, part.path_us);
            (&of.runtime, &of.command, &part.name, times, rest)
        })
    });
    let headings =
        "runtime,command,category,mean_us,deviation_us,p99_us,steps,calls,critical_path_us";
    results::lines_of(headings, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entrants: &[&str], outside: bool) -> Vec<String> {
        let entrants: Vec<Entrant> = entrants.iter().map(|name| Entrant::named(name)).collect();
        ways(&entrants, outside).into_iter().map(|entrant| entrant.name).collect()
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
