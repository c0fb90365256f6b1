//! criu's own statistics of a restore.

use proto::messages::criu_stats::{RestoreStatistics, Statistics};
use report::statistics::median;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The file of the statistics in criu's work directory.
const FILE: &str = "stats-restore";
/// The two magic numbers and the length before the message.
const HEADER: usize = 12;

/// Reads the statistics of a restore from criu's work directory.
pub(super) fn read(work: &Path) -> Option<RestoreStatistics> {
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
    /// The part of criu's time until all processes were created, in µs.
    pub forking_us: f64,
    /// The number of pages read from images.
    pub pages: f64,
}

impl Parts {
    pub(super) fn of(
        runtime: &str,
        program: &'static str,
        ready_us: f64,
        all: &[RestoreStatistics],
    ) -> Option<Self> {
        let middle = |figure: fn(&RestoreStatistics) -> f64| {
            median(&mut all.iter().map(figure).collect::<Vec<_>>())
        };
        (!all.is_empty()).then(|| Self {
            runtime: runtime.to_owned(),
            program,
            ready_us,
            criu_us: middle(|one| f64::from(one.restore_time)),
            forking_us: middle(|one| f64::from(one.forking_time)),
            pages: middle(|one| one.pages_restored as f64),
        })
    }
}
