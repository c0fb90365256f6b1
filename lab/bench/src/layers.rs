//! `layers`: times starts from root filesystems with few and with many layers, in every mode of assembling a root
//! filesystem.
//!
//! dayfly assembles a root filesystem from layers itself. For other runtimes, the experiment mounts the layers on the
//! host, as an engine does.

mod figures;
mod operations;
mod picture;
mod stack;

use crate::Error;
use crate::burst::{self, Load};
use crate::engine::{Image, Mapping};
use crate::options::{Layers, Mode};
use crate::probe::{Health, Probe};
use crate::results;
use crate::runtime::Runtime;
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use measure::progress::Progress;
use report::count::counted;
use report::csv::quoted;
use report::interrupt;
use serde::Serialize;
use stack::Stack;
use std::fmt::Write;
use std::thread;
use std::time::Duration;

/// The environment variable with the path of the store: the directory of images, and of files that containers change
/// (dayfly(8)).
const STORE: &str = "DAYFLY_STORE";

/// A runtime, a way of assembling its root filesystem, and a number of layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Case {
    pub(crate) runtime: String,
    /// The name of the way: one of dayfly's modes, or `overlay` if another runtime's layers are mounted without id
    /// mapping.
    pub(crate) mode: &'static str,
    pub(crate) layers: usize,
}

impl Case {
    /// Returns the names of the runtime and of the way.
    fn way(&self) -> String {
        format!("{}, {}", self.runtime, self.mode)
    }

    fn name(&self) -> String {
        format!("{}, {}", self.way(), counted(self.layers, "layer"))
    }
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

/// Runs the experiment: for each number of starts at a time, all cases take turns round by round.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Layers,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let most = options.layers.iter().copied().max().unwrap_or(1);
    let stack = Stack::make(&stand.directory().join("layers"), most)?;
    let mut racers = Vec::new();
    for &layers in &options.layers {
        let list = stack.list(layers)?;
        for entrant in entrants.iter() {
            let of = |mode| Case { runtime: entrant.name.clone(), mode, layers };
            if entrant.runtime.is_dayfly() {
                for mode in &options.modes {
                    let racer = own(stand, &entrant.runtime, *mode, &list, options.host_ids);
                    racers.push((of(mode.name()), racer));
                }
                continue;
            }
            for (mode, mapping) in ways_of_engines(options) {
                let image = Image::new(stack.directory(), stack.names(layers), mapping)?;
                racers.push((of(mode), Entrant { image: Some(image), ..entrant.clone() }));
            }
        }
    }
    for (case, racer) in &mut racers {
        racer.name = case.name();
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

    for entrant in entrants.iter_mut() {
        let of = || racers.iter().filter(|(case, _)| case.runtime == entrant.name);
        if of().all(|(_, racer)| racer.failure.is_some()) {
            entrant.failure = of().find_map(|(_, racer)| racer.failure.clone());
        }
    }
    let has_peers = entrants.iter().any(|entrant| !entrant.runtime.is_dayfly());
    let note = if has_peers { FOR_PEERS } else { "" };
    Ok(Outcome {
        text: text(&rows, &idle, &counted, &racers, options.count) + note,
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

/// Returns the ways in which layers are mounted on the host for other runtimes: the requested modes that mount layers
/// on the host. If no such mode is requested, `parent` is the only way.
fn ways_of_engines(options: &Layers) -> Vec<(&'static str, Mapping)> {
    if options.host_ids {
        return vec![("overlay", Mapping::None)];
    }
    let mapping = |mode: &Mode| match mode {
        Mode::Parent => Some((mode.name(), Mapping::Parent)),
        Mode::PerLayer => Some((mode.name(), Mapping::PerLayer)),
        Mode::Fd | Mode::Copy => None,
    };
    let ways: Vec<_> = options.modes.iter().filter_map(mapping).collect();
    if ways.is_empty() { vec![(Mode::Parent.name(), Mapping::Parent)] } else { ways }
}

/// The explanation of the other runtimes' figures.
const FOR_PEERS: &str = "Other runtimes take a directory. For them the same layers are mounted as an overlay on the host \
    before run, and unmounted after it, as an engine does: that is in their times. With user namespaces all of them \
    have the same ids; what a container has changed is removed after its time.\n";

/// Makes `layers` layers in the test stand's directory, and returns an entrant for each of `modes`. Each entrant is a
/// copy of the first of `entrants`, which must be a dayfly.
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
    let racer = |&mode: &Mode| Entrant {
        name: format!("{}, {}", mode.name(), counted(layers, "layer")),
        ..own(stand, &first.runtime, mode, &list, false)
    };
    Ok(modes.iter().map(racer).collect())
}

/// Returns dayfly with options for the layers of `list`. The store is in the test stand's directory. So the changes
/// that containers make, and the mounts that killed containers leave, are removed with the test stand.
fn own(stand: &Stand, runtime: &Runtime, mode: Mode, list: &str, host_ids: bool) -> Entrant {
    let mut words = vec!["--layers", list, "--rootfs-mode", mode.name()];
    words.extend(["--userns", if host_ids { "host" } else { "auto" }]);
    let store = stand.directory().join("store").display().to_string();
    Entrant {
        start_options: words.into_iter().map(str::to_owned).collect(),
        environment: vec![(STORE.to_owned(), store)],
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
    let row =
        |(case, _): &(Case, Entrant)| Row { case: case.clone(), width, load: Load::default() };
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
        let reason = row.load.reason.as_deref().unwrap_or_default();
        let (name, width, failed) = (row.case.name(), row.width, row.load.failed);
        let _ = writeln!(text, "{name}, {width} at a time: {failed} failed: {reason}");
    }
    text
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("runtime,mode,layers,width,container,latency_us\n");
    for Row { case, width, load } in rows {
        let (runtime, mode, layers) = (quoted(&case.runtime), case.mode, case.layers);
        for (at, us) in load.latencies_us.iter().enumerate() {
            let _ = writeln!(text, "{runtime},{mode},{layers},{width},{at},{us:.1}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Command, Options};
    use clap::Parser;

    pub(super) fn row(runtime: &str, mode: &'static str, layers: usize, us: &[f64]) -> Row {
        let load = Load { latencies_us: us.to_vec(), rates: vec![1.0], ..Load::default() };
        Row { case: Case { runtime: runtime.to_owned(), mode, layers }, width: 4, load }
    }

    fn ways(words: &[&str]) -> Vec<(&'static str, Mapping)> {
        let line = ["bench", "layers"].iter().chain(words);
        let Command::Layers(options) = Options::try_parse_from(line).expect("options").command
        else {
            panic!("not layers")
        };
        ways_of_engines(&options)
    }

    #[test]
    fn layers_are_mounted_for_peers_as_for_dayfly() {
        let (parent, per_layer) = (("parent", Mapping::Parent), ("per-layer", Mapping::PerLayer));
        assert_eq!(ways(&[]), [parent, per_layer]);
        assert_eq!(ways(&["--modes", "fd,per-layer"]), [per_layer]);
        assert_eq!(ways(&["--modes", "fd"]), [parent]);
        assert_eq!(ways(&["--host-ids"]), [("overlay", Mapping::None)]);
    }

    #[test]
    fn samples_have_their_runtime() {
        let expected = "\
runtime,mode,layers,width,container,latency_us
\"a,b\",parent,50,4,0,1500.0
";
        assert_eq!(csv(&[row("a,b", "parent", 50, &[1500.0])]), expected);
    }
}
