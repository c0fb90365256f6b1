//! The part that all experiments share: it sets up the view, the test stand and the entrants before an experiment, and
//! writes the record and the output afterwards.

use crate::circumstances::Circumstances;
use crate::config::Profile;
use crate::options::{Common, Forms};
use crate::race::asleep;
use crate::results::{self, Out};
use crate::runtime::Runtime;
use crate::stand::{Entrant, Source, Stand};
use crate::{Error, leftover, stand, view};
use measure::chart::{self, Picture};
use report::interrupt;
use serde_json::Value;
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

/// The results of an experiment.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The experiment's tables.
    pub text: String,
    /// The experiment's results by name.
    pub json: Vec<(&'static str, Value)>,
    /// The experiment's samples.
    pub csv: String,
    /// The experiment's pictures.
    pub pictures: Vec<Picture>,
    /// Output that replaces the circumstances and the tables, if there is any.
    pub document: Option<String>,
}

/// Enters the view, sets up the stand, runs `experiment` with `entrants`, and writes the results as `options` request.
/// Nothing is left behind, even after an error or an interrupt.
///
/// # Errors
/// Whatever prevents the experiment.
pub fn run(
    options: &Common,
    mut entrants: Vec<Entrant>,
    experiment: impl FnOnce(&Stand, &mut [Entrant]) -> Result<Outcome, Error>,
) -> Result<(), Error> {
    stand::check_rights()?;
    options.forms.check_directories()?;
    let leftover::Cleared { told, failed } = leftover::clear()?;
    for left in told {
        eprintln!("warning: an experiment was killed: {left}");
    }
    for error in failed {
        eprintln!("warning: an experiment was killed, and left this: {error}");
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
    let source = match &options.bundle {
        Some(bundle) => Source::Bundle(bundle.clone()),
        None => Source::Profile(options.profile),
    };
    let mut stand = Stand::set_up("", &source, options.deadline)?;
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
    let record = Circumstances::take(describe(options), runtimes, stand.state());

    let outcome = if options.bundle.is_none() && options.profile == Profile::Joined {
        in_a_pod(options, &mut stand, &mut entrants, experiment)?
    } else {
        experiment(&stand, &mut entrants)?
    };
    interrupt::check()?;
    write(options, &record, &entrants, outcome)
}

/// Runs the experiment while another container, made by the first entrant, holds the namespaces that the experiment's
/// containers join.
fn in_a_pod(
    options: &Common,
    stand: &mut Stand,
    entrants: &mut [Entrant],
    experiment: impl FnOnce(&Stand, &mut [Entrant]) -> Result<Outcome, Error>,
) -> Result<Outcome, Error> {
    let own = Stand::set_up("-pod", &Source::Profile(Profile::Plain), options.deadline)?;
    let first = entrants.first().cloned();
    let first = first.ok_or_else(|| Error::Unfit("no runtime".to_owned()))?;
    let (pod, result) = asleep(&own, &first)?;
    let pid = match (result, pod.pid()) {
        (Ok(()), Some(pid)) => pid,
        (Err(fault), _) => return Err(Error::Unfit(format!("the pod's first container: {fault}"))),
        (Ok(()), None) => return Err(Error::Unfit("the pod's first container is gone".to_owned())),
    };
    stand.join(pid.as_raw_pid());
    experiment(stand, entrants)
}

fn describe(options: &Common) -> String {
    let what = match &options.bundle {
        Some(bundle) => format!("bundle {}", bundle.display()),
        None => format!("profile {}", options.profile.name()),
    };
    if options.no_device_rules { what + ", no device rules" } else { what }
}

fn write(
    options: &Common,
    record: &Circumstances,
    entrants: &[Entrant],
    outcome: Outcome,
) -> Result<(), Error> {
    let failures = results::failures(entrants);
    // An experiment on the host itself has no entrants.
    let nobody = !entrants.is_empty() && failures.len() == entrants.len();
    tell(&options.forms, record, &failures, nobody, outcome)?;
    match failures.into_iter().next().filter(|_| nobody) {
        Some(Out { runtime, reason }) => {
            Err(Error::Unfit(format!("no runtime got through: {runtime}: {reason}")))
        }
        None => Ok(()),
    }
}

/// Writes an outcome in the requested forms: to the file that `forms` names, or by default to standard output. If
/// `nobody` is true, no entrant has finished, and neither the picture nor the output file is written.
///
/// # Errors
/// A file that can't be written; a picture that can't be drawn.
pub(crate) fn tell(
    forms: &Forms,
    record: &Circumstances,
    failures: &[Out],
    nobody: bool,
    outcome: Outcome,
) -> Result<(), Error> {
    let to_stdout = Path::new("-");
    if let Some(file) = forms.csv.as_deref().filter(|&file| file != to_stdout) {
        fs::write(file, &outcome.csv).map_err(Error::at("write", file))?;
    }
    if let Some(file) = forms.svg.as_deref().filter(|_| !nobody) {
        fs::write(file, chart::draw(&outcome.pictures)?).map_err(Error::at("write", file))?;
    }
    let text = if forms.json {
        results::json(record, failures, outcome.json)
            .map_err(|error| Error::Unfit(format!("JSON: {error}")))?
    } else if forms.csv.as_deref() == Some(to_stdout) {
        outcome.csv
    } else if let Some(document) = outcome.document {
        document
    } else {
        let out = results::failures_text(failures);
        format!("{}\n{}{out}", record.to_text(), outcome.text)
    };
    match forms.output.as_deref().filter(|&file| file != to_stdout) {
        Some(_) if nobody => eprint!("{}", results::failures_text(failures)),
        Some(file) => {
            fs::write(file, format!("{}\n", text.trim_end())).map_err(Error::at("write", file))?;
            eprint!("{}", results::failures_text(failures));
        }
        None => writeln!(stdout(), "{}", text.trim_end()).map_err(Error::at("write", to_stdout))?,
    }
    Ok(())
}
