//! A container that is saved once, and restored any number of times; and criu's own statistics of that.

use super::program::Program;
use super::ready::Reports;
use super::*;
use proto::messages::criu_stats::{RestoreStatistics, Statistics};
use std::cell::RefCell;

/// The directories of a checkpoint.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) images: PathBuf,
    /// The directory of criu's logs and statistics.
    pub(crate) work: PathBuf,
}

impl Images {
    /// Makes the directory `work`.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub(crate) fn new(stand: &Stand) -> Result<Self, Error> {
        let (images, work) = (stand.new_directory(), stand.new_directory());
        fs::create_dir(&work).map_err(Error::at("make", &work))?;
        Ok(Self { images, work })
    }

    /// Waits until dayfly has recorded which pages of the images the program accesses.
    pub(crate) fn await_record(&self) {
        let since = Instant::now();
        let record = self.images.join("touched");
        let is_made = || fs::metadata(&record).is_ok_and(|record| record.len() > 0);
        while !is_made() && since.elapsed() < RECORDED {
            std::thread::sleep(RECORDED / 20);
        }
    }
}

/// A saved container of a program.
pub(crate) struct Saved<'a> {
    /// The container, which exists only after [`Self::restore`].
    pub(crate) container: Container<'a>,
    reports: Reports,
    images: Images,
    deadline: Duration,
    runtime: String,
    /// Whether the runtime is dayfly.
    is_own: bool,
    statistics: RefCell<Vec<RestoreStatistics>>,
}

impl<'a> Saved<'a> {
    /// Starts a container of the program, and saves the container as soon as the program is ready.
    ///
    /// # Errors
    /// Errors of the harness itself; the runtime's.
    pub(crate) fn save(
        stand: &'a Stand,
        racer: &'a Entrant,
        program: &Program,
    ) -> Result<Self, Error> {
        let (container, reports, _) = started(stand, racer, Some(program))?;
        let images = Images::new(stand)?;
        container.checkpoint(&images.images)?;
        container.discard();
        let (runtime, statistics) = (racer.name.clone(), RefCell::default());
        let (deadline, is_own) = (stand.deadline, racer.runtime.is_dayfly());
        Ok(Self { container, reports, images, deadline, runtime, is_own, statistics })
    }

    /// Restores the container, and waits until its program is ready. The container stays. With `eagerly`, all memory is
    /// loaded first, which other runtimes than dayfly always do.
    ///
    /// # Errors
    /// Errors of the harness itself; the runtime's.
    pub(crate) fn restore(&self, eagerly: bool) -> Result<Sample, Error> {
        let Images { images, work } = &self.images;
        let begin = || self.container.begin_restore((images, work), eagerly, None);
        let learn = |end| self.container.started_by("restore", end).map(drop);
        let sample = self.reports.time(&self.container, "restore", self.deadline, begin, learn);
        if !eagerly {
            self.statistics.borrow_mut().extend(read_statistics(work));
        }
        sample
    }

    /// Waits until dayfly has recorded which pages the program accesses, one second after the first restore.
    pub(super) fn settle(&self) {
        if self.is_own {
            self.images.await_record();
        }
    }

    /// Kills the restored program, and removes the container. Unlike [`Container::discard`], any thread may do this.
    ///
    /// # Errors
    /// The runtime's failure.
    pub(crate) fn end(&self) -> Result<(), Error> {
        self.container.kill()?;
        self.container.exit()?;
        self.container.delete().map(drop)
    }

    /// Returns criu's part of the restores until the program was ready; `None` without statistics.
    pub(super) fn parts(&self, program: &'static str, ready_us: f64) -> Option<Parts> {
        let all = self.statistics.borrow();
        let middle = |figure: fn(&RestoreStatistics) -> f64| {
            median(&mut all.iter().map(figure).collect::<Vec<_>>())
        };
        (!all.is_empty()).then(|| Parts {
            runtime: self.runtime.clone(),
            program,
            ready_us,
            criu_us: middle(|one| f64::from(one.restore_time)),
            pages: middle(|one| one.pages_restored as f64),
            waits: read_waits(&self.images.work),
        })
    }
}

/// The longest time until the accessed pages are recorded. There is no record of a program with little memory.
const RECORDED: Duration = Duration::from_secs(2);
/// The file of the statistics in criu's work directory.
const FILE: &str = "stats-restore";
/// criu's log in the work directory; dayfly and runc give it this name.
const LOG: &str = "restore.log";
/// The number of waits that are shown.
const WAITS: usize = 3;
/// The size of the header before the message: two magic numbers, and the length of the message.
const HEADER: usize = 12;

/// Reads the statistics of a restore from criu's work directory.
fn read_statistics(work: &Path) -> Option<RestoreStatistics> {
    let bytes = fs::read(work.join(FILE)).ok()?;
    Statistics::decode(bytes.get(HEADER..)?).ok()?.restore
}

/// The medians of a runtime's restores of one program.
#[derive(Debug, Serialize)]
pub(super) struct Parts {
    pub runtime: String,
    pub program: &'static str,
    /// The time until the program was ready, in µs.
    pub ready_us: f64,
    /// criu's own time, in µs.
    pub criu_us: f64,
    /// The number of pages read from images.
    pub pages: f64,
    /// The longest waits of the last restore.
    pub waits: Vec<Wait>,
}

/// A time in which criu logged nothing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Wait {
    pub ms: f64,
    /// The message after which criu waited.
    pub after: String,
}

/// Finds the longest waits in criu's log of a restore, the longest first. criu logs the time in seconds in parentheses
/// at the beginning of each line.
fn read_waits(work: &Path) -> Vec<Wait> {
    let log = fs::read(work.join(LOG)).unwrap_or_default();
    longest(&String::from_utf8_lossy(&log))
}

fn longest(log: &str) -> Vec<Wait> {
    let entry = |line: &str| {
        let (seconds, message) = line.strip_prefix('(')?.split_once(')')?;
        Some((seconds.trim().parse::<f64>().ok()?, message.trim().to_owned()))
    };
    let entries: Vec<(f64, String)> = log.lines().filter_map(entry).collect();
    let mut waits: Vec<Wait> = entries
        .windows(2)
        .map(|pair| Wait { ms: (pair[1].0 - pair[0].0) * 1e3, after: pair[0].1.clone() })
        .collect();
    waits.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    waits.truncate(WAITS);
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_waits_come_first() {
        let log =
            "(00.000100) one\n(00.001100)      1: two\nnot a line of criu\n(00.004100) three\n";
        let waits = longest(log);
        assert_eq!(waits.len(), 2);
        assert_eq!(waits[0].after, "1: two");
        assert!((waits[0].ms - 3.0).abs() < 1e-6 && (waits[1].ms - 1.0).abs() < 1e-6);
        assert!(longest("").is_empty());
    }
}
