//! The part that all experiments share: it sets up the view, the test stand and the entrants before an experiment, and
//! writes the record and the output afterwards.

pub use crate::outcome::Outcome;

use crate::arguments::{Common, Driver, Format, Forms};
use crate::base::*;
use crate::circumstances::Circumstances;
use crate::config::Profile;
use crate::container::Container;
use crate::figures::Figures;
use crate::race::{Series, asleep};
use crate::results::{self, Out, compare};
use crate::runtime::{self, Runtime};
use crate::stand::{Entrant, Source, Stand};
use crate::{leftover, stand, view};
use host::measure::chart;
use std::io::{Write, stdout};

impl Outcome {
    /// Returns the outcome of a race: the times, `more` tables, and the comparison with the entrant `first`.
    ///
    /// # Errors
    /// A value that JSON can't represent.
    pub fn of_series(series: &[Series], first: &str, more: &[String]) -> Result<Self, Error> {
        let rows = compare(series, first);
        let mut figures = Figures::default();
        for of in series {
            let name = results::title(&of.step, of.pause.as_secs_f64() * 1e3);
            figures.rounds(name, "ms", &of.runtime, of.wall_us().iter().map(|us| us / 1e3));
        }
        figures.compare(first);
        let mut tables = vec![figures.tables(first)];
        tables.extend(results::resources(&rows));
        tables.extend_from_slice(more);
        tables.push(figures.verdicts(first));
        let outcome = Self {
            text: tables.join("\n"),
            csv: results::csv(series),
            pictures: results::pictures(&rows),
            ..Self::default()
        };
        outcome.with("rows", &rows)
    }

    /// Adds the text, the samples and the pictures of another outcome whose CSV has the same columns.
    pub fn and(mut self, other: Self) -> Self {
        self.text += &other.text;
        self.csv.extend(other.csv.split_inclusive('\n').skip(1));
        self.pictures.extend(other.pictures);
        self
    }

    /// Adds a result to the JSON.
    ///
    /// # Errors
    /// A value that JSON can't represent.
    pub fn with(mut self, name: &'static str, result: &impl Serialize) -> Result<Self, Error> {
        self.json.push((name, results::value(result)?));
        Ok(self)
    }
}

/// The command line of an experiment.
#[derive(Debug, Args)]
pub struct With<E: Args> {
    /// The options of all experiments.
    #[command(flatten)]
    pub common: Common,
    /// The options of this one.
    #[command(flatten)]
    pub experiment: E,
}

/// An experiment: its arguments, who takes part, and the measurement.
pub trait Experiment: Args {
    /// Settles the options, and changes what has to be different before the stand is set up, such as the view of
    /// cgroups.
    ///
    /// # Errors
    /// Options that do not suit this host.
    fn prepare(&mut self, _: &mut Common) -> Result<(), Error> {
        Ok(())
    }

    /// Returns who takes part: all runtimes, unless the experiment says otherwise.
    ///
    /// # Errors
    /// A runtime is missing.
    fn entrants(&self, common: &Common) -> Result<Vec<Entrant>, Error> {
        all(common)
    }

    /// Measures.
    ///
    /// # Errors
    /// Errors of the harness itself; an interrupt.
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error>;
}

/// Returns the runtimes that the options name, or else those that are found.
///
/// # Errors
/// A runtime is missing.
pub fn all(options: &Common) -> Result<Vec<Entrant>, Error> {
    Ok(runtime::find(&options.runtimes)?.into_iter().map(Entrant::new).collect())
}

/// Returns the first runtime that the options name, or else this installation's dayfly.
///
/// # Errors
/// The runtime is missing.
pub fn own(options: &Common) -> Result<Runtime, Error> {
    match options.runtimes.first() {
        Some(argument) => Runtime::from_argument(argument),
        None => Ok(runtime::find(&[])?.swap_remove(0)),
    }
}

/// Runs an experiment: enters the view, sets up the stand, measures, and writes the results as the options request.
/// Nothing is left behind, even after an error or an interrupt.
///
/// # Errors
/// Whatever prevents the experiment.
pub fn run(with: With<impl Experiment>) -> Result<(), Error> {
    let With { common: mut options, mut experiment } = with;
    experiment.prepare(&mut options)?;
    let entrants = experiment.entrants(&options)?;
    stand::check_rights()?;
    options.forms.check_directories()?;
    for left in leftover::clear()? {
        match left {
            Ok(told) => eprintln!("warning: an experiment was killed: {told}"),
            Err(error) => eprintln!("warning: an experiment was killed, and left this: {error}"),
        }
    }
    // The experiment's mounts vanish with its last process, even if that process is killed.
    if let Err(error) = view::own_mounts() {
        eprintln!(
            "warning: {error}: mounts are made in the host's table; if this command is killed, \
             \"dayfly bench gc\" and \"dayfly gc\" remove them"
        );
    }
    if let Some(view) = options.view {
        view.enter()?;
    }
    if view::View::current() == view::View::Hybrid
        && entrants.iter().any(|entrant| entrant.runtime.version.starts_with("crun"))
    {
        eprintln!("warning: crun refuses hybrid cgroups: --view v2 or --view v1 lets it take part");
    }
    let source = match &options.bundle {
        Some(bundle) => Source::Bundle(bundle.clone()),
        None => Source::Profile(options.profile),
    };
    let mut stand = Stand::set_up("", source, options.deadline)?;
    stand.slice = (options.driver == Driver::Systemd).then(|| options.slice.clone());
    if options.no_device_rules {
        stand.drop_device_rules();
    }
    if !options.program.is_empty() {
        stand.run_instead(&options.program);
    }
    let mut runtimes: Vec<Runtime> = Vec::new();
    for entrant in &entrants {
        if runtimes.iter().all(|runtime| runtime.path != entrant.runtime.path) {
            runtimes.push(entrant.runtime.clone());
        }
    }
    let record = Circumstances::take(describe(&options), runtimes, &stand.state);

    // The first container of the pod, if any: it holds the namespaces that the experiment's containers join.
    let is_joined = options.bundle.is_none() && options.profile == Profile::Joined;
    let plain = || Source::Profile(Profile::Plain);
    let pod = is_joined.then(|| Stand::set_up("-pod", plain(), options.deadline)).transpose()?;
    let held = pod.as_ref().zip(entrants.first());
    let held = held.map(|(pod, first)| asleep(pod, first)).transpose()?;
    if let Some(pid) = held.as_ref().and_then(Container::pid) {
        stand.join(pid.as_raw_pid());
    }

    let outcome = experiment.measure(&stand, &entrants)?;
    interrupt::check()?;
    tell(&options.forms, &record, &results::failures(&entrants), entrants.len(), outcome)
}

fn describe(options: &Common) -> String {
    let what = match &options.bundle {
        Some(bundle) => format!("bundle {}", bundle.display()),
        None => format!("profile {}", options.profile.name()),
    };
    let what = match options.driver {
        Driver::Cgroupfs => what,
        Driver::Systemd => format!("{what}, scopes of systemd in {}", options.slice),
    };
    if options.no_device_rules { what + ", no device rules" } else { what }
}

/// Writes the outcome of an experiment with this many entrants in the requested forms. An experiment on the host itself
/// has none.
///
/// # Errors
/// A file that can't be written; a picture that can't be drawn; nobody got through.
pub(crate) fn tell(
    forms: &Forms,
    record: &Circumstances,
    failures: &[Out],
    entrants: usize,
    outcome: Outcome,
) -> Result<(), Error> {
    let nobody = entrants > 0 && failures.len() == entrants;
    let to_stdout = Path::new("-");
    if let Some(file) = forms.csv.as_deref().filter(|&file| file != to_stdout) {
        fs::write(file, &outcome.csv).map_err(Error::at("write", file))?;
    }
    if let Some(file) = forms.svg.as_deref().filter(|_| !nobody) {
        fs::write(file, chart::draw(&outcome.pictures)).map_err(Error::at("write", file))?;
    }
    let out = results::failures_text(failures);
    let text = match outcome.document {
        _ if forms.is_json() => results::json(record, failures, outcome.json)
            .map_err(|error| unfit!("JSON: {error}"))?,
        _ if forms.csv.as_deref() == Some(to_stdout) => outcome.csv,
        Some(document) => document,
        None if forms.format == Format::Csv => outcome.csv,
        None => format!("{}\n{}{out}", record.to_text(), outcome.text),
    };
    match forms.output.as_deref().filter(|&file| file != to_stdout) {
        Some(_) if nobody => eprint!("{out}"),
        Some(file) => {
            fs::write(file, format!("{}\n", text.trim_end())).map_err(Error::at("write", file))?;
            eprint!("{out}");
        }
        None => writeln!(stdout(), "{}", text.trim_end()).map_err(Error::at("write", to_stdout))?,
    }
    match failures.first().filter(|_| nobody) {
        Some(Out { runtime, reason }) => Err(unfit!("no runtime got through: {runtime}: {reason}")),
        None => Ok(()),
    }
}
