//! The command line.

use dayfly_tests::differ::draw;
use dayfly_tests::differ::view::View;
use serde_json::Value;
use std::ops::Range;
use std::path::PathBuf;

/// What to do, and with which programs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The seeds to run.
    pub seeds: Range<u64>,
    /// Concurrent workers.
    pub jobs: usize,
    /// The runtime under test.
    pub dayfly: PathBuf,
    /// The peer whose behaviour is right.
    pub runc: PathBuf,
    /// The peer that is asked when the two disagree, if there is one.
    pub crun: Option<PathBuf>,
    /// Where results add up.
    pub results: PathBuf,
    /// The table of known differences.
    pub known: PathBuf,
    /// Kinds of differences that are shrunk.
    pub shrink: usize,
    /// Run seeds again that have a result.
    pub again: bool,
    /// Run only the seeds whose case has this in its text, as a row of the table of known differences needs it.
    pub only: String,
    /// Run the runtimes as a user who is not root.
    pub rootless: bool,
    /// Print everything about the seeds.
    pub show: bool,
    /// Print how many pairs of drawn words the seeds have, and run nothing.
    pub pairs: bool,
    /// Run the cases of known faults instead of seeds, with a dayfly that has all of them.
    pub check: bool,
    /// Cases of faults that a dayfly had.
    pub faults: PathBuf,
    /// Be a worker, which gets its seeds from standard input.
    pub worker: bool,
}

impl Options {
    /// Returns the case of a seed.
    #[must_use]
    pub fn case(&self, seed: u64, view: View) -> Value {
        if self.rootless { draw::rootless_case(seed, view) } else { draw::case(seed, view) }
    }
}

/// Returns the options.
///
/// # Errors
/// What is wrong with the command line.
pub fn read() -> Result<Options, String> {
    // Workers have other working directories.
    let variable =
        |name: &str| std::env::var_os(name).and_then(|path| std::path::absolute(path).ok());
    let mut options = Options {
        seeds: 0..500,
        jobs: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
        dayfly: variable("DAYFLY").ok_or("DAYFLY does not name a runtime")?,
        runc: variable("DAYFLY_RUNC").ok_or("DAYFLY_RUNC does not name a runc")?,
        crun: variable("DAYFLY_CRUN").filter(|path| path.exists()),
        results: PathBuf::from("build/differ"),
        known: PathBuf::from("tests/differ/known"),
        shrink: 20,
        again: false,
        only: "*".to_owned(),
        rootless: false,
        show: false,
        pairs: false,
        check: false,
        faults: PathBuf::from("tests/differ/faults"),
        worker: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        let number =
            |text: String| text.parse::<usize>().map_err(|_| format!("{text}: not a number"));
        match word.as_str() {
            "--seeds" => options.seeds = range(&value()?)?,
            "--jobs" => options.jobs = number(value()?)?.clamp(1, 64),
            "--results" => options.results = value()?.into(),
            "--known" => options.known = value()?.into(),
            "--shrink" => options.shrink = number(value()?)?,
            "--only" => options.only = value()?,
            "--rootless" => options.rootless = true,
            "--again" => options.again = true,
            "--show" => options.show = true,
            "--pairs" => options.pairs = true,
            "--check-oracle" => options.check = true,
            "--faults" => options.faults = value()?.into(),
            "--worker" => options.worker = true,
            _ => return Err(format!("{word}: not known")),
        }
    }
    Ok(options)
}

/// `A..B`, or `A` alone.
fn range(text: &str) -> Result<Range<u64>, String> {
    let number =
        |text: &str| text.parse::<u64>().map_err(|_| format!("--seeds {text}: not FROM..TO"));
    match text.split_once("..") {
        Some((from, to)) => Ok(number(from)?..number(to)?),
        None => number(text).map(|one| one..one + 1),
    }
}
