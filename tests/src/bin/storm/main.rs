//! A storm: hundreds of concurrent containers of several kinds, whose commands are killed at random moments.
//! Afterwards, the host must be as it was before.
//!
//!     storm [--seconds N] [--jobs N]
//!
//! The environment variables are the suite's: `DAYFLY`, `DAYFLY_VIEW`, `DAYFLY_SEED`, `DAYFLY_TALLY`. Exits with status
//! 1 if anything is left behind, or if a command that was not killed has failed or hung.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a number that is cut fails the test"
)]

mod cycle;
mod host;
mod kinds;
mod tally;

use cycle::Worker;
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::{lacking, runtime_path};
use dayfly_tests::seed::Seed;
use dayfly_tests::view::View;
use host::Host;
use kinds::Kinds;
use std::fs;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tally::Tally;

/// The time after which a dying process counts as stuck.
const PATIENCE: Duration = Duration::from_secs(30);

struct Options {
    seconds: u64,
    jobs: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options { seconds: 600, jobs: 200 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u64>().ok());
        let number = value.ok_or_else(|| format!("{word}: a number is missing"));
        match word.as_str() {
            "--seconds" => options.seconds = number?,
            "--jobs" => options.jobs = number?.clamp(1, 2000) as usize,
            _ => return Err(format!("{word}: not known; storm [--seconds N] [--jobs N]")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let (options, view) = match options().and_then(|options| Ok((options, View::current()?))) {
        Ok(both) => both,
        Err(reason) => {
            eprintln!("storm: {reason}");
            return ExitCode::from(2);
        }
    };
    let runtime = runtime_path();
    if let Some(reason) = lacking(&runtime) {
        eprintln!("storm: skipped: {reason}");
        count("0 0 1");
        return ExitCode::from(77);
    }
    // The name marks our processes, cgroups and mounts; our own command line does not contain it.
    let name = format!("dayfly-storm-{}", std::process::id());
    let shared = std::env::temp_dir().join(&name);
    fs::create_dir(&shared).expect("make the storm's directory");
    let bed = Bed::new(view, &runtime, &shared);
    let failures = storm(&bed, &name, &options);
    for failure in &failures {
        println!("  {failure}");
    }
    let _ = fs::remove_dir_all(&shared);
    if failures.is_empty() {
        println!("storm, {}: passed, nothing is left", view.name());
        count("1 0 0");
        return ExitCode::SUCCESS;
    }
    println!("storm, {}: FAILED", view.name());
    count("0 1 0");
    ExitCode::FAILURE
}

/// Runs the storm; returns the failures.
fn storm(bed: &Bed, name: &str, options: &Options) -> Vec<String> {
    let mut seed = Seed::new("storm");
    let kinds = Kinds::new(bed, name);
    let tally = Tally::default();
    let mut calm = Worker::new(bed, &kinds, &tally, seed.part(), options.jobs);
    // Fills the runtime's cache on the host, and measures how long commands take.
    for kind in kinds.all() {
        calm.quiet_cycles(kind);
    }
    let host = Host::look(bed, &kinds, name);
    let seeds: Vec<Seed> = (0..options.jobs).map(|_| seed.part()).collect();
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    std::thread::scope(|scope| {
        for (number, seed) in seeds.into_iter().enumerate() {
            let (kinds, tally) = (&kinds, &tally);
            scope.spawn(move || {
                let mut worker = Worker::new(bed, kinds, tally, seed, number);
                while Instant::now() < end && !tally.is_over() {
                    worker.cycle();
                }
            });
        }
    });
    println!("storm, {}, {} s: {tally}", bed.view.name(), begun.elapsed().as_secs());
    let mut failures = tally.failures();
    let waited = Instant::now();
    let mut changes = host.changes(bed, &kinds, name);
    while !changes.is_empty() && waited.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
        changes = host.changes(bed, &kinds, name);
    }
    failures.append(&mut changes);
    host::remove_parents(bed.view, name);
    failures
}

/// Appends a line to the tally of all tests.
fn count(line: &str) {
    let Some(path) = std::env::var_os("DAYFLY_TALLY") else { return };
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    let _ = file.and_then(|mut file| writeln!(file, "{line}"));
}
