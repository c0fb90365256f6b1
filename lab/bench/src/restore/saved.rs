//! A container that is saved once, and restored any number of times.

use super::program::Program;
use super::ready::Reports;
use super::started;
use super::statistics::{self, Parts};
use crate::harness::*;
use crate::process::Sample;
use proto::messages::criu_stats::RestoreStatistics;
use std::cell::RefCell;
use std::fs;

/// A saved container of a program.
pub(crate) struct Saved<'a> {
    /// The container, which exists only after [`Self::restore`].
    pub(crate) container: Container<'a>,
    reports: Reports,
    images: PathBuf,
    work: PathBuf,
    deadline: Duration,
    runtime: String,
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
        let (images, work) = (stand.new_directory(), stand.new_directory());
        fs::create_dir(&work).map_err(Error::at("make", &work))?;
        container.checkpoint(&images)?;
        container.discard();
        let (runtime, statistics) = (racer.name.clone(), RefCell::default());
        let deadline = stand.deadline;
        Ok(Self { container, reports, images, work, deadline, runtime, statistics })
    }

    /// Restores the container, and waits until its program is ready. The container stays.
    ///
    /// # Errors
    /// Errors of the harness itself; the runtime's.
    pub(crate) fn restore(&self) -> Result<Sample, Error> {
        let begin = || self.container.begin_restore(&self.images, &self.work);
        let learn = |end| self.container.restored(end);
        let sample = self.reports.time(&self.container, "restore", self.deadline, begin, learn);
        self.statistics.borrow_mut().extend(statistics::read(&self.work));
        sample
    }

    /// Kills the restored program, and removes the container. Unlike [`Container::discard`], any thread may do this.
    ///
    /// # Errors
    /// The runtime's failure.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        self.container.kill()?;
        self.container.exit()?;
        self.container.delete().map(drop)
    }

    /// Returns criu's part of the restores until the program was ready; `None` without statistics.
    pub(super) fn parts(&self, program: &'static str, ready_us: f64) -> Option<Parts> {
        let waits = statistics::waits(&self.work);
        Parts::of(&self.runtime, program, ready_us, &self.statistics.borrow(), waits)
    }
}
