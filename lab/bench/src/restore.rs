//! `restore`: compares two times for each runtime: from the start of a program until the program is ready, and from the
//! program's restore from a checkpoint until it is ready.
//!
//! | part | what |
//! |---|---|
//! | `program` | the programs |
//! | `ready` | waits until a program is ready |
//! | `saved` | a saved container |
//! | `statistics` | criu's own statistics |
//!
//! Each runtime saves a container of each program once. In every round, each runtime starts such a
//! container, restores the saved container, and starts a container with nothing to load. The last
//! start shows for which warm-up times a restore is faster than a start.

mod program;
mod ready;
mod saved;
mod statistics;

pub(crate) use program::Program;
pub(crate) use saved::Saved;

use crate::Error;
use crate::container::{Container, Fault};
use crate::options::Restore;
use crate::process::Sample;
use crate::race::{Rounds, Series, in_turns, series_by_step};
use crate::results::{self, Row, compare};
use crate::runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use proto::messages::criu_stats::RestoreStatistics;
use ready::Reports;
use report::Table;
use report::interrupt;
use serde::Serialize;
use statistics::{Parts, Wait};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The warm-up time above which a restore is faster than a start.
#[derive(Debug, Serialize)]
struct Pays {
    runtime: String,
    program: &'static str,
    /// The time of a restore until the program is ready, minus the time of a start with nothing to
    /// load, in ms.
    from_ms: f64,
}

/// Runs the experiment.
///
/// # Errors
/// No criu; none of the programs; errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Restore,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    find_criu(options.criu.as_deref(), entrants)?;
    let (mut series, mut parts, mut pays) = (Vec::new(), Vec::new(), Vec::new());
    let first = entrants.first().map_or_else(String::new, |entrant| entrant.name.clone());
    let mut missing = String::new();
    for kind in &options.programs {
        let program = match Program::prepare(*kind, stand.directory())? {
            Ok(program) => program,
            Err(reason) => {
                let _ = writeln!(missing, "not measured: {reason}");
                continue;
            }
        };
        let (of_program, of_criu) = measure(options, stand, entrants, &program)?;
        let rows = compare(&of_program, &first);
        for OfCriu { runtime, statistics, waits } in of_criu {
            let ready = median_us(&rows, &program.steps()[1], &runtime).unwrap_or_default();
            parts.extend(Parts::of(&runtime, program.name, ready, &statistics, waits));
        }
        pays.extend(entrants.iter().filter_map(|entrant| pay(&rows, &program, &entrant.name)));
        series.extend(of_program);
    }
    if series.is_empty() && entrants.iter().all(|entrant| entrant.failure.is_none()) {
        return Err(Error::Unfit(missing.trim_end().to_owned()));
    }
    let rows = compare(&series, &first);
    let tables = [results::times(&rows, &first), parts_text(&parts), pays_text(&pays)];
    Ok(Outcome {
        text: tables.join("\n") + &missing,
        json: vec![
            ("rows", results::value(&rows)?),
            ("criu", results::value(&parts)?),
            ("pays", results::value(&pays)?),
        ],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// Puts the directory of `criu`, or of the criu that is found, first in the runtimes' PATH.
///
/// # Errors
/// There is no criu.
pub(crate) fn find_criu(criu: Option<&Path>, entrants: &mut [Entrant]) -> Result<(), Error> {
    let criu = criu.map(Path::to_owned).or_else(|| runtime::known("criu")).ok_or_else(|| {
        Error::Unfit(
            "no criu in $PATH: \"scripts/peers criu\" installs criu; --criu names another path"
                .to_owned(),
        )
    })?;
    let criu = fs::canonicalize(&criu).map_err(Error::at("find criu", &criu))?;
    let own = criu.parent().map(|parent| parent.to_string_lossy().into_owned());
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", own.unwrap_or_default());
    for entrant in entrants {
        entrant.environment.push(("PATH".to_owned(), path.clone()));
        entrant.environment.push(("DAYFLY_CRIU".to_owned(), criu.to_string_lossy().into_owned()));
    }
    Ok(())
}

/// criu's statistics of a runtime's restores.
struct OfCriu {
    runtime: String,
    statistics: Vec<RestoreStatistics>,
    /// The longest waits of the last restore.
    waits: Vec<Wait>,
}

/// Times one program: in each round, each runtime performs a start, a restore, and a start of a shell.
fn measure(
    options: &Restore,
    stand: &Stand,
    entrants: &mut [Entrant],
    program: &Program,
) -> Result<(Vec<Series>, Vec<OfCriu>), Error> {
    let racers = entrants.to_vec();
    let mut saved = Vec::new();
    for (racer, entrant) in racers.iter().zip(&mut *entrants) {
        if entrant.failure.is_some() {
            saved.push(None);
            continue;
        }
        let one = Saved::save(stand, racer, program)?;
        saved.push(one.map_err(|fault| entrant.failure = Some(fault.to_string())).ok());
    }
    let rounds = Rounds { warm_up: options.warm_up, timed: options.rounds, pause: Duration::ZERO };
    let samples = in_turns(entrants, rounds, program.name, |at| {
        let Some(saved) = &saved[at] else { return Ok(Err("nothing was saved".to_owned())) };
        let cold = start(stand, &racers[at], Some(program))?;
        interrupt::check()?;
        let restored = match cold {
            Ok(_) => saved.restore()?,
            Err(fault) => return Ok(Err(fault.to_string())),
        };
        saved.container.discard();
        let bare = start(stand, &racers[at], None)?;
        let all = cold.and_then(|cold| Ok([cold, restored?, bare?]));
        Ok(all.map_err(|fault| fault.to_string()))
    })?;
    let steps = program.steps();
    let steps = steps.each_ref().map(String::as_str);
    let series = series_by_step(entrants, &steps, Duration::ZERO, &samples);
    let of_criu = saved.into_iter().flatten().map(Saved::into_told).collect();
    Ok((series, of_criu))
}

/// Starts a container of the program, or of a shell, and waits until it is ready.
fn start(
    stand: &Stand,
    racer: &Entrant,
    program: Option<&Program>,
) -> Result<Result<Sample, Fault>, Error> {
    let (_, result) = started(stand, racer, program)?;
    Ok(result.map(|(_, sample)| sample))
}

type Started = (Reports, Sample);

fn started<'a>(
    stand: &'a Stand,
    racer: &'a Entrant,
    program: Option<&Program>,
) -> Result<(Container<'a>, Result<Started, Fault>), Error> {
    let reports = Reports::make(stand.new_directory())?;
    let container = Container::changed(stand, racer, &[], |config| match program {
        Some(program) => program.settle(config, &reports.directory),
        None => program::settle_shell(config, &reports.directory),
    })?;
    let begin = || container.begin_run(Stdio::null(), Stdio::null());
    let learn = |end| container.started(end).map(drop);
    let sample = reports.time(&container, "run", stand.deadline, begin, learn)?;
    Ok((container, sample.map(|sample| (reports, sample))))
}

impl Program {
    /// Returns the names of the samples of one round.
    fn steps(&self) -> [String; 3] {
        let of = |what: &str| format!("{}, {what}", self.name);
        [of("started until ready"), of("restored until ready"), of("a shell instead")]
    }
}

fn median_us(rows: &[Row], step: &str, runtime: &str) -> Option<f64> {
    let mut of = rows.iter().filter(|row| row.step == step && row.runtime == runtime);
    of.next().map(|row| row.wall_us.median)
}

fn pay(rows: &[Row], program: &Program, runtime: &str) -> Option<Pays> {
    let [_, restored, bare] = program.steps();
    let from_us = median_us(rows, &restored, runtime)? - median_us(rows, &bare, runtime)?;
    Some(Pays { runtime: runtime.to_owned(), program: program.name, from_ms: from_us / 1e3 })
}

fn parts_text(parts: &[Parts]) -> String {
    let headings = ["restore", "", "until ready, ms", "criu's own, ms", "pages"];
    let mut table = Table::new(&headings).left(&[0, 1]);
    for part in parts {
        let ms = |us: f64| format!("{:.1}", us / 1e3);
        table.row(vec![
            part.program.to_owned(),
            part.runtime.clone(),
            ms(part.ready_us),
            ms(part.criu_us),
            format!("{:.0}", part.pages),
        ]);
    }
    let mut text = table.to_string();
    for part in parts {
        for Wait { ms, after } in &part.waits {
            let _ =
                writeln!(text, "{}, {}: {ms:.1} ms after \"{after}\"", part.runtime, part.program);
        }
    }
    text
}

fn pays_text(pays: &[Pays]) -> String {
    let mut text = String::new();
    for Pays { runtime, program, from_ms } in pays {
        let _ = writeln!(
            text,
            "{runtime}, {program}: a restore is faster than a start that warms up for more than {from_ms:.0} ms"
        );
    }
    text
}
