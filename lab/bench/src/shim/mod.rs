//! `shim`: measures the shims between containerd and containers: dayfly's, and containerd's own with each runtime.
//!
//! | part | what |
//! |---|---|
//! | [`minder`] | the entrants |
//! | [`daemon`], [`image`] | the experiment's containerd, and its images |
//! | [`account`] | CPU time without the client |
//! | [`span`] | the time from a shim's start to the end of its delete, by the kernel's process events |
//! | [`client`] | a CRI client in Go |
//! | [`goes`] | performs one measurement of each figure |
//!
//! The CPU time is that of the cgroup that contains containerd, its shims, the runtime, and the container with its
//! program: everything except the client. The cgroup's time comes from the scheduler's clock, and includes removed
//! descendants.

mod account;
mod client;
pub mod daemon;
mod goes;
mod image;
mod minder;
mod span;

pub use minder::entrants;

use crate::Error;
use crate::options::{Measured, Shim};
use crate::race::{Rounds, in_turns};
use crate::results::{self, figures, figures::Figure};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use client::Client;
use daemon::Daemon;
use goes::Bench;
use std::time::Duration;

/// The maximum number of rounds for measurements of memory, which varies little.
const IDLE_ROUNDS: usize = 8;

/// Runs the experiment.
///
/// # Errors
/// No containerd; errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Shim,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let mut figures = Vec::new();
    let mut version = String::new();
    let has = |measured: &Measured| options.figure.contains(measured);
    let plain = [Measured::Run, Measured::Exec, Measured::Idle];
    if plain.iter().any(has) {
        let daemon = Daemon::start(options, stand, entrants, false)?;
        version.clone_from(&daemon.version);
        let mut bench = Bench::new(options, &daemon);
        for measured in plain.into_iter().filter(has) {
            figures.extend(measure(options, &mut bench, entrants, measured)?);
        }
    }
    if options.probes.is_some() || has(&Measured::Pod) || has(&Measured::IdlePod) {
        let daemon = Daemon::start(options, stand, entrants, true)?;
        version.clone_from(&daemon.version);
        let mut bench = Bench::new(options, &daemon);
        bench.client = Some(Client::start(options, stand, &daemon)?);
        for measured in [Measured::Pod, Measured::IdlePod].into_iter().filter(has) {
            figures.extend(measure(options, &mut bench, entrants, measured)?);
        }
        if let Some(pods) = options.probes {
            figures.extend(goes::probes(options, &mut bench, entrants, pods)?);
        }
    }
    // An excluded entrant is not compared with others.
    let first = entrants.iter().find(|entrant| entrant.failure.is_none());
    let first = first.map_or("", |first| &first.name);
    figures::compare(&mut figures, first);
    Ok(Outcome {
        text: format!("containerd: {version}\n\n{}", figures::text(&figures, first)),
        json: vec![
            ("containerd", results::value(&version)?),
            ("figures", results::value(&figures)?),
        ],
        csv: figures::csv(&figures),
        pictures: figures::pictures(&figures),
        ..Outcome::default()
    })
}

/// Runs the rounds of one figure; all entrants take turns.
fn measure(
    options: &Shim,
    bench: &mut Bench<'_>,
    entrants: &mut [Entrant],
    measured: Measured,
) -> Result<Vec<Figure>, Error> {
    let idle = matches!(measured, Measured::Idle | Measured::IdlePod);
    let rounds = Rounds {
        warm_up: options.warm_up,
        timed: if idle { options.rounds.min(IDLE_ROUNDS) } else { options.rounds },
        // Each measurement makes the pause itself.
        pause: Duration::ZERO,
    };
    let racers = entrants.to_vec();
    for (at, entrant) in entrants.iter_mut().enumerate() {
        if entrant.failure.is_none() && measured == Measured::Exec {
            entrant.failure = bench.hold(at, &racers[at])?.err();
        }
    }
    let title = format!("shim, {}", goes::title(measured));
    let samples = in_turns(entrants, rounds, &title, |at| bench.go(measured, at, &racers[at]))?;
    if measured == Measured::Exec {
        bench.let_go();
    }
    Ok(figures::gather(racers.iter().map(|racer| racer.name.as_str()), samples))
}
