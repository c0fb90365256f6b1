//! `mounts`: times the same start with short and long mount tables.
//!
//! The mounts are made in a mount namespace of the experiment's own, invisible to the host.

use crate::options::Mounts;
use crate::race::{Operation, Rounds, Series, race};
use crate::results::{self, compare, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::{Error, view};
use report::Table;
use report::bootstrap::{self, Pairing};
use report::count::counted;
use report::statistics::Summary;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of passes through the lengths, so that drift over time affects all of them.
const SWEEPS: usize = 5;

/// Runs the experiment: at every length, all entrants take turns.
///
/// # Errors
/// Errors of the harness itself; an interrupt.
pub fn experiment(
    options: &Mounts,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    view::own_mounts()?;
    let mut series: Vec<Series> = Vec::new();
    for _ in 0..SWEEPS {
        for &length in &options.mounts {
            let host = Host::with_mounts(&stand.state().join(".mounts"), length)?;
            let rounds = Rounds {
                warm_up: 1,
                timed: options.rounds.div_ceil(SWEEPS),
                pause: Duration::ZERO,
            };
            let step = format!("run, {}", counted(host.mounts, "mount"));
            for mut more in race(stand, entrants, Operation::Run, rounds)? {
                more.step.clone_from(&step);
                add(&mut series, more);
            }
        }
    }
    let first = entrants.first().map_or("", |entrant| &entrant.name);
    let rows = compare(&series, first);
    let text = [results::times(&rows, first), curves(&series), results::verdicts(&rows, first)];
    Ok(Outcome {
        text: text.join("\n"),
        json: vec![("rows", results::value(&rows)?)],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// Appends the samples of another pass.
fn add(series: &mut Vec<Series>, more: Series) {
    let same = |of: &&mut Series| of.step == more.step && of.runtime == more.runtime;
    match series.iter_mut().find(same) {
        Some(of) => of.samples.extend(more.samples),
        None => series.push(more),
    }
}

/// Draws every runtime's time at each length, relative to the same runtime's time at the first length.
fn curves(series: &[Series]) -> String {
    let mut steps: Vec<&str> = Vec::new();
    let mut runtimes: Vec<&str> = Vec::new();
    for of in series {
        if !steps.contains(&of.step.as_str()) {
            steps.push(&of.step);
        }
        if !runtimes.contains(&of.runtime.as_str()) {
            runtimes.push(&of.runtime);
        }
    }
    let headings: Vec<&str> =
        std::iter::once("own time at the first length = 1").chain(steps.iter().copied()).collect();
    let mut table = Table::new(&headings);
    for runtime in runtimes {
        let own = |step: &str| {
            let of = series.iter().find(|of| of.step == step && of.runtime == runtime);
            of.map(Series::wall_us).unwrap_or_default()
        };
        let base = steps.first().map(|step| own(step)).unwrap_or_default();
        let cells = steps.iter().enumerate().map(|(at, step)| {
            let times = own(step);
            let median = Summary::of(&times).map_or(f64::NAN, |times| times.median) / 1e3;
            match bootstrap::ratio(&times, &base, Pairing::Independent) {
                Some(ratio) if at > 0 => format!("{median:.2} ms = {}", judged(ratio).join(" ")),
                _ => format!("{median:.2} ms"),
            }
        });
        table.row(std::iter::once(runtime.to_owned()).chain(cells).collect());
    }
    table.to_string()
}

/// A mount table with additional mounts, which are unmounted on drop.
struct Host {
    directory: PathBuf,
    /// The length of the mount table.
    mounts: usize,
}

impl Host {
    /// Adds mounts until the mount table has `length` mounts: a tmpfs at `directory`, and bind mounts in it. A longer
    /// table stays as it is.
    fn with_mounts(directory: &Path, length: usize) -> Result<Self, Error> {
        let wanted = length.saturating_sub(table()?);
        fs::create_dir(directory).map_err(Error::at("make", directory))?;
        let mut host = Self { directory: directory.to_owned(), mounts: 0 };
        if wanted > 0 {
            mount("tmpfs", directory, "tmpfs", MountFlags::empty(), None)
                .map_err(Error::errno("mount tmpfs on", directory))?;
            let source = directory.join("source");
            fs::create_dir(&source).map_err(Error::at("make", &source))?;
            for number in 1..wanted {
                let target = directory.join(number.to_string());
                fs::create_dir(&target).map_err(Error::at("make", &target))?;
                mount_bind(&source, &target).map_err(Error::errno("bind to", &target))?;
            }
        }
        host.mounts = table()?;
        Ok(host)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // This also unmounts everything below the directory. The directory need not be a mount point.
        let _ = unmount(&self.directory, UnmountFlags::DETACH);
        if let Err(error) = fs::remove_dir(&self.directory) {
            eprintln!("warning: {} stays: {error}", self.directory.display());
        }
    }
}

/// Returns the length of the mount table.
fn table() -> Result<usize, Error> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read_to_string(path).map_err(Error::at("read", path))?;
    Ok(text.lines().count())
}
