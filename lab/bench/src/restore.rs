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
//! container, restores the saved container twice, and starts a container with nothing to load. The
//! first restore loads all memory before the program continues, the second one only the pages that
//! the program accesses first, if the runtime can do so. The last start shows for which warm-up
//! times a restore is faster than a start.

mod program;
mod ready;
mod saved;

pub(crate) use program::Program;
pub(crate) use saved::{Images, Saved};

use crate::harness::*;
use crate::process::Sample;
use crate::results::{Row, compare};
use crate::runtime;
use crate::session::all;
use ready::Reports;
use saved::{Parts, Wait};

/// `restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// Programs that warm up
    #[arg(long, value_enum, value_delimiter = ',', default_value = "python,java,node")]
    pub programs: Vec<Warmed>,
    /// The program criu [default: peers/bin/criu of the build directory, or criu in $PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 20)]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
}

/// A program that warms up before it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Warmed {
    /// Python with 26 imports
    Python,
    /// A JVM with collections, regular expressions, dates
    Java,
    /// Node.js with 24 of its modules
    Node,
}

/// The warm-up time above which a restore is faster than a start.
#[derive(Debug, Serialize)]
struct Pays {
    runtime: String,
    program: &'static str,
    /// The time of a restore until the program is ready, minus the time of a start with nothing to
    /// load, in ms.
    from_ms: f64,
}

impl Experiment for Restore {
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        with_criu(all(common)?, self.criu.as_deref())
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let (mut series, mut parts, mut pays) = (Vec::new(), Vec::new(), Vec::new());
        let first = first(entrants);
        let mut missing = String::new();
        for kind in &self.programs {
            let program = match Program::prepare(*kind, &stand.directory) {
                Err(Error::Out(reason)) => {
                    let _ = writeln!(missing, "not measured: {reason}");
                    continue;
                }
                program => program?,
            };
            let (of_program, of_criu) = self.measure_one(stand, entrants, &program)?;
            let rows = compare(&of_program, first);
            parts.extend(of_criu);
            pays.extend(entrants.iter().filter_map(|entrant| pay(&rows, &program, &entrant.name)));
            series.extend(of_program);
        }
        if series.is_empty() && entrants.iter().all(|entrant| !entrant.is_out()) {
            return Err(Error::Unfit(missing.trim_end().to_owned()));
        }
        let tables = [parts_text(&parts), pays_text(&pays) + &missing];
        Outcome::of_series(&series, first, &tables)?.with("criu", &parts)?.with("pays", &pays)
    }
}

/// Lets all entrants find `criu`, or the criu that is found.
///
/// # Errors
/// There is no criu.
pub(crate) fn with_criu(
    mut entrants: Vec<Entrant>,
    criu: Option<&Path>,
) -> Result<Vec<Entrant>, Error> {
    let environment = environment(criu)?;
    entrants.iter_mut().for_each(|entrant| entrant.environment.clone_from(&environment));
    Ok(entrants)
}

/// Returns the environment in which runtimes find `criu`, or the criu that is found: its directory is first in PATH.
///
/// # Errors
/// There is no criu.
pub(crate) fn environment(criu: Option<&Path>) -> Result<Vec<(String, String)>, Error> {
    let criu = criu.map(Path::to_owned).or_else(|| runtime::known("criu")).ok_or_else(|| {
        unfit!("no criu in $PATH: \"scripts/peers criu\" installs criu; --criu names another path")
    })?;
    let criu = fs::canonicalize(&criu).map_err(Error::at("find criu", &criu))?;
    let own = criu.parent().unwrap_or(Path::new("")).display();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap_or_default());
    Ok(vec![
        ("PATH".to_owned(), path),
        ("DAYFLY_CRIU".to_owned(), criu.to_string_lossy().into_owned()),
    ])
}

impl Restore {
    /// Times one program: in each round, each runtime performs a start, a restore, and a start of a shell.
    fn measure_one(
        &self,
        stand: &Stand,
        entrants: &[Entrant],
        program: &Program,
    ) -> Result<(Vec<Series>, Vec<Parts>), Error> {
        let mut saved = Vec::new();
        for entrant in entrants {
            let save = || Saved::save(stand, entrant, program);
            saved.push(if entrant.is_out() { None } else { entrant.attempt(save())? });
        }
        let rounds = Rounds { warm_up: self.warm_up, timed: self.rounds, ..Rounds::default() };
        let samples = in_turns(entrants, rounds, program.name, |at| {
            let nothing = || Error::Out("nothing was saved".to_owned());
            let saved = saved[at].as_ref().ok_or_else(nothing)?;
            let (_, _, cold) = started(stand, &entrants[at], Some(program))?;
            interrupt::check()?;
            let whole = saved.restore(true);
            saved.container.discard();
            let restored = saved.restore(false);
            saved.settle();
            saved.container.discard();
            let (_, _, bare) = started(stand, &entrants[at], None)?;
            Ok([cold, whole?, restored?, bare])
        })?;
        let steps = program.steps();
        let steps = steps.each_ref().map(String::as_str);
        let series = series_by_step(entrants, &steps, Duration::ZERO, &samples);
        let parts = saved.iter().zip(&samples).filter_map(|(saved, samples)| {
            let ready = samples.iter().map(|[_, _, restored, _]| restored.wall.as_secs_f64() * 1e6);
            saved.as_ref()?.parts(program.name, median(&mut ready.collect::<Vec<_>>()))
        });
        Ok((series, parts.collect()))
    }
}

/// Starts a container of the program, or of a shell, and waits until it is ready.
fn started<'a>(
    stand: &'a Stand,
    entrant: &'a Entrant,
    program: Option<&Program>,
) -> Result<(Container<'a>, Reports, Sample), Error> {
    let reports = Reports::make(stand.new_directory())?;
    let container = Container::changed(stand, entrant, &[], |config| match program {
        Some(program) => program.settle(config, &reports.directory),
        None => program::settle_shell(config, &reports.directory),
    })?;
    let begin = || container.begin_run(Stdio::null(), Stdio::null());
    let learn = |end| container.started_by("run", end).map(drop);
    let sample = reports.time(&container, "run", stand.deadline, begin, learn)?;
    Ok((container, reports, sample))
}

impl Program {
    /// Returns the names of the samples of one round.
    fn steps(&self) -> [String; 4] {
        let of = |what: &str| format!("{}, {what}", self.name);
        [
            of("started until ready"),
            of("restored with all memory until ready"),
            of("restored until ready"),
            of("a shell instead"),
        ]
    }
}

fn median_us(rows: &[Row], step: &str, runtime: &str) -> Option<f64> {
    let mut of = rows.iter().filter(|row| row.step == step && row.runtime == runtime);
    of.next().map(|row| row.wall_us.median)
}

fn pay(rows: &[Row], program: &Program, runtime: &str) -> Option<Pays> {
    let [_, _, restored, bare] = program.steps();
    let from_us = median_us(rows, &restored, runtime)? - median_us(rows, &bare, runtime)?;
    Some(Pays { runtime: runtime.to_owned(), program: program.name, from_ms: from_us / 1e3 })
}

fn parts_text(parts: &[Parts]) -> String {
    let ms = |us: f64| format!("{:.1}", us / 1e3);
    let table = Table::of(
        parts,
        &[
            ("restore", &|part| part.program.to_owned()),
            ("", &|part| part.runtime.clone()),
            ("until ready, ms", &|part| ms(part.ready_us)),
            ("criu's own, ms", &|part| ms(part.criu_us)),
            ("pages", &|part| format!("{:.0}", part.pages)),
        ],
    );
    let mut text = table.left(&[0, 1]).to_string();
    for part in parts {
        for Wait { ms, after } in &part.waits {
            let _ =
                writeln!(text, "{}, {}: {ms:.1} ms after \"{after}\"", part.runtime, part.program);
        }
    }
    text
}

fn pays_text(pays: &[Pays]) -> String {
    let line = |Pays { runtime, program, from_ms }: &Pays| {
        format!(
            "{runtime}, {program}: a restore is faster than a start that warms up for more than {from_ms:.0} ms\n"
        )
    };
    pays.iter().map(line).collect()
}
