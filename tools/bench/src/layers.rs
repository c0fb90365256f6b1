//! `layers`: times starts from root filesystems with few and with many layers, in every mode of
//! assembling them.

mod figures;
mod operations;
mod picture;
mod stack;

use crate::Error;
use crate::burst::{self, Load};
use crate::options::{Layers, Mode};
use crate::probe::{Health, Probe};
use crate::results;
use crate::runtime::Runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use report::count::counted;
use report::interrupt;
use report::progress::Progress;
use serde::Serialize;
use stack::Stack;
use std::fmt::Write;
use std::thread;
use std::time::Duration;

/// The variable that names the store (dayfly(8)).
const STORE: &str = "DAYFLY_STORE";

/// A way of assembling the root filesystem, and a number of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    pub(crate) layers: usize,
}

/// The results of a case with one number of starts at a time.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) case: Case,
    pub(crate) width: usize,
    #[serde(flatten)]
    pub(crate) load: Load,
}

/// Runs the experiment: for each number of starts at a time, all ways and numbers of layers take turns round by round.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Layers,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let Some(first) = entrants.first_mut() else { return Ok(Outcome::default()) };
    let most = options.layers.iter().copied().max().unwrap_or(1);
    let stack = Stack::make(&stand.directory().join("layers"), most)?;
    // With a store in the test stand's directory, containers' changes and the mounts of killed containers stay within
    // the experiment.
    let store = stand.directory().join("store").display().to_string();
    let mut racers = Vec::new();
    for &layers in &options.layers {
        let list = stack.list(layers)?;
        for &mode in &options.modes {
            let case = Case { mode, layers };
            let mut racer = entrant(&first.runtime, case, &list, options.host_ids);
            racer.environment.push((STORE.to_owned(), store.clone()));
            racers.push((case, racer));
        }
    }
    for (_, racer) in &mut racers {
        burst::warm_up(stand, std::slice::from_mut(racer))?;
    }
    let counted = operations::count(stand, &racers)?;
    let idle = Probe::watch(|| thread::sleep(Duration::from_secs(1))).1;
    let mut progress = Progress::new();
    let mut rows = Vec::new();
    for &width in &options.width {
        rows.extend(at_width(options, stand, &mut racers, width, &mut progress)?);
    }
    drop(progress);

    if racers.iter().all(|(_, racer)| racer.failure.is_some()) {
        first.failure = racers.first().and_then(|(_, racer)| racer.failure.clone());
    }
    Ok(Outcome {
        text: text(&rows, &idle, &counted, &racers, options.count),
        json: vec![
            ("idle", results::value(&idle)?),
            ("mount_operations", results::value(&counted)?),
            ("rows", results::value(&rows)?),
        ],
        csv: csv(&rows),
        pictures: picture::draw(&rows),
        ..Outcome::default()
    })
}

/// Makes the layers in the test stand's directory, and returns an entrant for each way and number of layers. Each
/// entrant is a copy of the first of `entrants`, which must be a dayfly.
///
/// # Errors
/// Those of making layers.
pub(crate) fn racers(
    stand: &Stand,
    entrants: &[Entrant],
    layers: usize,
    modes: &[Mode],
) -> Result<Vec<Entrant>, Error> {
    let Some(first) = entrants.first() else { return Ok(Vec::new()) };
    let list = Stack::make(&stand.directory().join("layers"), layers)?.list(layers)?;
    let store = stand.directory().join("store").display().to_string();
    let racer = |&mode: &Mode| {
        let mut racer = entrant(&first.runtime, Case { mode, layers }, &list, false);
        racer.environment.push((STORE.to_owned(), store.clone()));
        racer
    };
    Ok(modes.iter().map(racer).collect())
}

/// Returns dayfly with options for the layers of `list`.
fn entrant(runtime: &Runtime, case: Case, list: &str, host_ids: bool) -> Entrant {
    let mut words = vec!["--layers", list, "--rootfs-mode", case.mode.name()];
    words.extend(["--userns", if host_ids { "host" } else { "auto" }]);
    Entrant {
        name: format!("{}, {}", case.mode.name(), counted(case.layers, "layer")),
        start_options: words.into_iter().map(str::to_owned).collect(),
        ..Entrant::new(runtime.clone())
    }
}

fn at_width(
    options: &Layers,
    stand: &Stand,
    racers: &mut [(Case, Entrant)],
    width: usize,
    progress: &mut Progress,
) -> Result<Vec<Row>, Error> {
    let row = |&(case, _): &(Case, Entrant)| Row { case, width, load: Load::default() };
    let mut rows: Vec<Row> = racers.iter().map(row).collect();
    let count = options.count.max(width);
    for round in 0..options.rounds {
        progress.tell(&format!("layers, {width} at a time"), round, options.rounds);
        for place in 0..racers.len() {
            let at = (round + place) % racers.len();
            let (_, racer) = &mut racers[at];
            if racer.failure.is_none() {
                let load = &mut rows[at].load;
                burst::burst(stand, racer, width, count, load)?;
                if load.failed > count * options.rounds / 2 {
                    racer.failure.clone_from(&load.reason);
                }
            }
            interrupt::check()?;
        }
    }
    rows.retain(|row| !row.load.is_empty());
    Ok(rows)
}

fn text(
    rows: &[Row],
    idle: &Health,
    counted: &[operations::Counted],
    racers: &[(Case, Entrant)],
    count: usize,
) -> String {
    let mut text = figures::latencies(rows, count);
    text += &figures::health(rows, idle);
    text += &operations::text(counted);
    for (_, racer) in racers {
        if let Some(reason) = &racer.failure {
            let _ = writeln!(text, "{} is out: {reason}", racer.name);
        }
    }
    for row in rows.iter().filter(|row| row.load.failed > 0) {
        let Case { mode, layers } = row.case;
        let reason = row.load.reason.as_deref().unwrap_or_default();
        let failed = row.load.failed;
        let _ = writeln!(
            text,
            "{}, {}, {} at a time: {failed} failed: {reason}",
            mode.name(),
            report::count::counted(layers, "layer"),
            row.width
        );
    }
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("mode,layers,width,container,latency_us\n");
    for Row { case, width, load } in rows {
        for (at, us) in load.latencies_us.iter().enumerate() {
            let _ = writeln!(text, "{},{},{width},{at},{us:.1}", case.mode.name(), case.layers);
        }
    }
    text
}
