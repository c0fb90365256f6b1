//! `templates`: compares containers whose program a template forks with cold, restored and warm containers.
//!
//! | part | what |
//! |---|---|
//! | `function` | a container whose program answers requests |
//! | `provider` | provides containers in one way |
//! | `burst` | several requests in flight |
//! | `fork` | what the mechanism itself costs |
//!
//! - The restored program reports by a file instead of a pipe, at most 1 ms after it goes on.
//! - A forked program shares most pages with its template. So its proportional set size depends on the number of
//!   containers, and is printed beside its private memory. Each way is measured while the other ways have no process.
//!   Other programs of the host may share pages of the same libraries.
//! - A burst does not replace used warm containers. A platform that gives each request a container of its own has to;
//!   `faas --policy warm` includes this.

mod fork;
mod function;
mod provider;

use crate::figures::Sample;
use crate::harness::*;
use crate::held::Held;
use crate::python::{IMPORTS, Python};
use crate::restore::{self, Program, Warmed};
use provider::Provider;

/// `templates`.
#[derive(Debug, Args)]
#[command(mut_arg("profile", |profile| profile.default_value("userns")))]
pub struct Templates {
    /// The figures to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "answer,memory,burst,fork")]
    pub figure: Vec<Question>,
    /// Ways to provide containers; the others are compared with the first
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cold,restored,warm,template")]
    pub ways: Vec<Provision>,
    /// The program criu [default: peers/bin/criu of the build directory, or criu in $PATH]
    #[arg(long, value_name = "PATH")]
    pub criu: Option<PathBuf>,
    /// Number of measured rounds of single answers and forks
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 30)]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// Requests in flight in a burst
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 16)]
    pub width: usize,
    /// Requests of a burst [default: as many as in flight]
    #[arg(long, value_name = "N", value_parser = some)]
    pub count: Option<usize>,
    /// Bursts of each way
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 6)]
    pub bursts: usize,
    /// Memory that a warm-up touches, in MiB, for the figure fork
    #[arg(long, value_name = "MIB,…", value_delimiter = ',', default_value = "0,5,50,200",
        value_parser = clap::value_parser!(u32).range(0..=16_384))]
    pub touched: Vec<u32>,
}

/// A figure of `templates`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Question {
    /// The time until the function answers
    Answer,
    /// The time until a template is ready; for the ways without one, until the function answers
    Ready,
    /// The memory that each way keeps, and the memory of a running container
    Memory,
    /// Answers with several requests in flight
    Burst,
    /// The time of a container with a forked program that ends at once, compared with an executed one
    Fork,
}

/// A way to provide a container whose function answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provision {
    /// A container is started
    Cold,
    /// A container is restored from a checkpoint, by criu
    Restored,
    /// A started container waits for requests, and answers one after the other
    Warm,
    /// A container is started whose program a template forks
    Template,
    /// The same, by a template that was made from disk
    Disk,
}

/// The number of measurements of memory, which varies little.
const MEASUREMENTS: usize = 3;

/// The names of figures of memory. The proportional set size is that of [`Held`].
const IDLE_PSS: &str = "idle: shared pages in parts";
const IDLE_PRIVATE: &str = "idle: private";
const RUNNING_PSS: &str = "a running container: shared pages in parts";
const RUNNING_PRIVATE: &str = "a running container: private";
/// The name of the time in which a template was made, its warm-up included.
const MADE: &str = "a template is made, with its warm-up or from disk";

/// The programs of containers.
pub(crate) struct Programs {
    function: Python,
    touching: Python,
    /// The program that is saved. It reports by a file, because criu cannot restore pipes to this process.
    saved: Program,
}

/// The answers of one way.
#[derive(Debug, Default, Serialize)]
struct Row {
    way: String,
    /// The answers per second of each burst.
    rates: Vec<f64>,
    latencies_us: Vec<f64>,
    /// The reason why there are no results, or no more of them.
    reason: Option<String>,
}

impl Experiment for Templates {
    /// Returns an entrant for each way, with the reason if a way is not possible on this host.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        let runtime = own(common)?;
        if !runtime.is_dayfly() {
            bail!("{} has no templates: only dayfly has", runtime.name);
        }
        let entrant = |way: &Provision| {
            let mut of = Entrant::new(runtime.clone()).called(way.name());
            if matches!(way, Provision::Restored | Provision::Disk) {
                match restore::environment(self.criu.as_deref()) {
                    Ok(environment) => of.environment = environment,
                    Err(error) => of.leave(error.to_string()),
                }
            }
            of
        };
        Ok(self.ways.iter().map(entrant).collect())
    }

    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let programs = Programs::prepare(stand)?;
        let asks = |question| self.figure.contains(&question);
        let rounds = |timed| Rounds { timed, ..Rounds::default() };
        let mut providers: Vec<Provider<'_>> = self
            .ways
            .iter()
            .zip(entrants)
            .map(|(way, entrant)| Provider::new(*way, stand, entrant, &programs))
            .collect();
        let mut figures = Figures::default();
        let mut memory = Vec::new();
        if asks(Question::Memory) {
            let measured = in_turns(entrants, rounds(MEASUREMENTS), "templates, memory", |at| {
                providers[at].measure()
            })?;
            figures.add(entrants, measured);
            memory = entrants.iter().map(|entrant| memory_of(&figures, entrant)).collect();
        }
        let at_a_time = if asks(Question::Burst) { self.width } else { 1 };
        if [Question::Answer, Question::Ready, Question::Burst].into_iter().any(asks) {
            in_turns(entrants, rounds(1), "templates, containers made in advance", |at| {
                providers[at].prepare(at_a_time)
            })?;
        }
        let mut answers = Vec::new();
        if asks(Question::Answer) {
            let rounds = Rounds { warm_up: self.warm_up, ..rounds(self.rounds) };
            let measured =
                in_turns(entrants, rounds, "templates, answers", |at| providers[at].answer())?;
            for (entrant, times) in entrants.iter().zip(measured) {
                let us = times.into_iter().map(|time| time.as_secs_f64() * 1e6).collect();
                let row = Row::of(entrant, Vec::new(), us);
                figures.rounds("until the function answers", "ms", &row.way, row.ms());
                answers.push(row);
            }
        }
        if asks(Question::Ready) {
            let rounds = Rounds { warm_up: self.warm_up, ..rounds(self.rounds) };
            let measured =
                in_turns(entrants, rounds, "templates, ready", |at| providers[at].ready())?;
            for (entrant, times) in entrants.iter().zip(measured) {
                let ms = times.into_iter().map(|time| time.as_secs_f64() * 1e3);
                figures.rounds("until a template is ready", "ms", &entrant.name, ms);
            }
        }
        let mut bursts = Vec::new();
        if asks(Question::Burst) {
            let count = self.count.unwrap_or(self.width);
            let measured = in_turns(entrants, rounds(self.bursts), "templates, bursts", |at| {
                provider::burst(&mut providers[at], self.width, count)
            })?;
            let what = format!("{} of {count} in flight", counted(self.width, "request"));
            for (entrant, all) in entrants.iter().zip(measured) {
                let (rates, us): (_, Vec<_>) = all.into_iter().unzip();
                let row = Row::of(entrant, rates, us.concat());
                figures.rounds(what.clone(), "answers/s", &row.way, row.rates.iter().copied());
                figures.singles(format!("{what}: an answer"), "ms", &row.way, row.ms());
                bursts.push(row);
            }
        }
        drop(providers);
        let mut outcome = figures.whole_outcome(first(entrants))?;
        if !answers.is_empty() {
            let samples = answers.iter().map(|row| (row.way.as_str(), row.latencies_us.as_slice()));
            outcome.pictures.push(results::distribution("Until the function answers", samples));
        }
        let mut forks = Vec::new();
        if asks(Question::Fork)
            && let Some(entrant) = entrants.first()
        {
            let (of_forks, rows) = fork::measure(self, stand, entrant, &programs)?;
            (outcome, forks) = (outcome.and(of_forks), rows);
        }
        let outcome = outcome.with("answers", &answers)?.with("memory", &memory)?;
        outcome.with("bursts", &bursts)?.with("forks", &forks)
    }
}

/// Names the memory of containers, in KiB: while there is no request, and of the processes of a running container.
fn memory(idle: Held, running: Held) -> Sample {
    let figures = [
        (IDLE_PSS, idle.pss_kib),
        (IDLE_PRIVATE, idle.private_kib),
        (RUNNING_PSS, running.pss_kib),
        (RUNNING_PRIVATE, running.private_kib),
    ];
    figures.map(|(name, kib)| (name.to_owned(), "MiB", kib / 1024.0)).to_vec()
}

/// Returns the memory of one way as medians in KiB, or the reason why it is not known.
fn memory_of(figures: &Figures, entrant: &Entrant) -> Value {
    let median = |name| figures.median(name, &entrant.name);
    let kib = |name| median(name).map(|mib| mib * 1024.0);
    json!({
        "way": entrant.name,
        "idle_pss_kib": kib(IDLE_PSS),
        "idle_private_kib": kib(IDLE_PRIVATE),
        "running_pss_kib": kib(RUNNING_PSS),
        "running_private_kib": kib(RUNNING_PRIVATE),
        "made_ms": median(MADE),
        "reason": entrant.failure(),
    })
}

impl Programs {
    fn prepare(stand: &Stand) -> Result<Self, Error> {
        let function = format!("{IMPORTS}{}", function::PROGRAM);
        Ok(Self {
            function: Python::prepare(stand.new_directory(), &function)?,
            touching: Python::prepare(stand.new_directory(), fork::PROGRAM)?,
            saved: Program::prepare(Warmed::Python, &stand.directory)?,
        })
    }
}

impl Row {
    fn of(entrant: &Entrant, rates: Vec<f64>, latencies_us: Vec<f64>) -> Self {
        let reason = entrant.failure().map(str::to_owned);
        Self { way: entrant.name.clone(), rates, latencies_us, reason }
    }

    fn ms(&self) -> impl Iterator<Item = f64> {
        self.latencies_us.iter().map(|us| us / 1e3)
    }
}
