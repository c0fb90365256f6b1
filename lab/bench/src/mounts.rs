//! `mounts`: times the same start with short and long mount tables.
//!
//! The mounts are made in a mount namespace of the experiment's own, invisible to the host.

use crate::harness::*;
use crate::{steps, view};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

/// `mounts`.
#[derive(Debug, Args)]
pub struct Mounts {
    /// Lengths of the mount table; a table that is already longer is not changed
    #[arg(long, value_delimiter = ',', default_value = "10,100,1000")]
    pub mounts: Vec<usize>,
    /// Rounds at each length, divided among up to five sweeps
    #[arg(long, value_name = "N", value_parser = some, default_value_t = 50)]
    pub rounds: usize,
}

/// The maximum number of passes through the lengths, so that drift over time affects all of them.
const SWEEPS: usize = 5;

impl Experiment for Mounts {
    /// At every length, all entrants take turns.
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        view::own_mounts()?;
        let race = |timed| {
            let rounds = Rounds { warm_up: 1, timed, ..Rounds::default() };
            race(stand, entrants, Operation::Run, rounds, || Ok(()))
        };
        // A runtime's first start may add permanent mounts, such as those of dayfly's cache. After this first start,
        // they count as part of the table's length.
        race(0)?;
        let mut lengths = Length::distinct(&self.mounts, table()?);
        for timed in passes(self.rounds) {
            for length in &mut lengths {
                let host = Host::with_mounts(&stand.state.join(".mounts"), length.least)?;
                race(timed)?.into_iter().for_each(|more| length.add(more));
                length.most = length.most.max(host.mounts);
            }
        }
        let series: Vec<Series> = lengths.into_iter().flat_map(Length::named).collect();
        let growth = steps::of_later_steps(&series);
        let growth = steps::table(&growth, "µs more", "own time at the first length = 1");
        Outcome::of_series(&series, first(entrants), &[growth])
    }
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

    #[test]
    fn as_many_rounds_as_asked_for() {
        let of = |rounds| passes(rounds).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(2), [1, 1]);
        assert_eq!(of(4), [1; 4]);
        assert_eq!(of(7), [1, 1, 2, 1, 2]);
        assert_eq!(of(50), [10; 5]);
    }
}
