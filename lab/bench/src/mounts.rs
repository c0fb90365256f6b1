//! `mounts`: times the same start with short and long mount tables.
//!
//! The mounts are made in a mount namespace of the experiment's own, invisible to the host.

use crate::options::Mounts;
use crate::race::{Operation, Rounds, Series, race};
use crate::results::{self, compare, judged};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::{Error, view};
use measure::bootstrap::{self, Pairing};
use measure::statistics::Summary;
use report::Table;
use report::count::counted;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The maximum number of passes through the lengths, so that drift over time affects all of them.
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
    // A runtime's first start may add permanent mounts, such as those of dayfly's cache. After this first start, they
    // count as part of the table's length.
    race(stand, entrants, Operation::Run, Rounds { warm_up: 1, timed: 0, pause: Duration::ZERO })?;
    let mut lengths = Length::distinct(&options.mounts, table()?);
    for timed in passes(options.rounds) {
        for length in &mut lengths {
            let host = Host::with_mounts(&stand.state().join(".mounts"), length.least)?;
            let rounds = Rounds { warm_up: 1, timed, pause: Duration::ZERO };
            for more in race(stand, entrants, Operation::Run, rounds)? {
                length.add(more);
            }
            length.most = length.most.max(host.mounts);
        }
    }
    let series: Vec<Series> = lengths.into_iter().flat_map(Length::named).collect();
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

/// Divides `rounds` among at most [`SWEEPS`] passes, none of which is empty.
fn passes(rounds: usize) -> impl Iterator<Item = usize> {
    let passes = SWEEPS.min(rounds);
    (0..passes).map(move |pass| rounds * (pass + 1) / passes - rounds * pass / passes)
}

/// A length of the mount table, and the samples taken with it.
#[derive(Debug, Default)]
struct Length {
    /// The length to which the table is extended.
    least: usize,
    /// The maximum length of the table during the measurement.
    most: usize,
    /// A series for each runtime.
    series: Vec<Series>,
}

impl Length {
    /// Returns the lengths to which a table of `table` mounts can be extended, each once. A length
    /// below `table` becomes `table`, because the table cannot be shortened.
    fn distinct(wanted: &[usize], table: usize) -> Vec<Self> {
        let mut lengths: Vec<Self> = Vec::new();
        for least in wanted.iter().map(|&wanted| wanted.max(table)) {
            if lengths.iter().all(|length| length.least != least) {
                lengths.push(Self { least, ..Self::default() });
            }
        }
        lengths
    }

    /// Appends the samples of another pass.
    fn add(&mut self, more: Series) {
        match self.series.iter_mut().find(|of| of.runtime == more.runtime) {
            Some(of) => of.samples.extend(more.samples),
            None => self.series.push(more),
        }
    }

    /// Returns the series, named by the length. The name contains a range if runtimes made the
    /// table longer during the measurement.
    fn named(self) -> impl Iterator<Item = Series> {
        let step = match self.most > self.least {
            true => format!("run, {} to {}", self.least, counted(self.most, "mount")),
            false => format!("run, {}", counted(self.least, "mount")),
        };
        self.series.into_iter().map(move |of| Series { step: step.clone(), ..of })
    }
}

/// Formats a table of every runtime's time at each length, and its ratio to the same runtime's time at the first
/// length.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Sample;

    #[test]
    fn as_many_rounds_as_asked_for() {
        let of = |rounds| passes(rounds).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(2), [1, 1]);
        assert_eq!(of(4), [1; 4]);
        assert_eq!(of(7), [1, 1, 2, 1, 2]);
        assert_eq!(of(50), [10; 5]);
    }

    fn pass() -> Series {
        Series {
            step: "run".to_owned(),
            pause: Duration::ZERO,
            runtime: "dayfly".to_owned(),
            samples: vec![Sample::default(); 2],
            is_split: false,
        }
    }

    #[test]
    fn a_length_has_one_series() {
        let mut lengths = Length::distinct(&[10, 20, 100], 23);
        assert_eq!(lengths.iter().map(|length| length.least).collect::<Vec<_>>(), [23, 100]);
        for most in [23, 25, 23] {
            lengths[0].add(pass());
            lengths[0].most = lengths[0].most.max(most);
        }
        let series: Vec<Series> = lengths.remove(0).named().collect();
        let told: Vec<_> = series.iter().map(|of| (of.step.as_str(), of.samples.len())).collect();
        assert_eq!(told, [("run, 23 to 25 mounts", 6)]);
        lengths[0].add(pass());
        lengths[0].most = 100;
        assert_eq!(lengths.remove(0).named().next().expect("one").step, "run, 100 mounts");
    }
}
