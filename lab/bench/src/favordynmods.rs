//! `favordynmods`: measures which operations this mount option of cgroup v2 makes cheaper, and which it makes more
//! expensive.
//!
//! The option applies to the whole host, and since Linux 6.18 it stays on until the next boot. So the experiment
//! switches the option only on request (`--switch`). It then uses `dayfly host favordynmods auto`. That command ends
//! with the experiment, even if the experiment is killed, and restores the option.

use crate::container::Container;
use crate::options::FavorDynmods;
use crate::process::{self, Sample};
use crate::race::Series;
use crate::results::{self, compare};
use crate::session::Outcome;
use crate::stand::{Entrant, Stand};
use crate::{Error, accounting};
use measure::progress::Progress;
use report::interrupt;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The number of repetitions of short operations.
const TIMES: u32 = 500;

/// The names of the operations that are timed besides the starts.
const MOVE: &str = "a move";
const FORKS: &str = "500 forks and exits";
const READS: &str = "500 reads of cgroup.procs";

/// The timeout of `dayfly host`.
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs the experiment.
///
/// # Errors
/// Errors of the harness itself; a host where the option can't be switched on and off, if that is requested; an
/// interrupt.
pub fn experiment(
    options: &FavorDynmods,
    stand: &Stand,
    entrants: &mut [Entrant],
) -> Result<Outcome, Error> {
    let host = Host::look()?;
    let states: &[&str] = match options.switch {
        true if host.is_on => {
            let reason =
                "favordynmods is on: turn it off by \"dayfly host favordynmods off\" first";
            return Err(Error::Unfit(reason.to_owned()));
        }
        true => &["off", "on"],
        false if host.is_on => &["on"],
        false => &["off"],
    };
    let pause = options.pause;
    let ground = Ground::make(stand)?;
    let racers = entrants.to_vec();
    let steps: Vec<String> = [MOVE, FORKS, READS]
        .into_iter()
        .map(str::to_owned)
        .chain(racers.iter().map(|racer| format!("run by {}", racer.name)))
        .collect();
    // Indexed by state, then by step.
    let mut samples = vec![vec![Vec::<Sample>::new(); steps.len()]; states.len()];
    let mut progress = Progress::new();
    let all = options.rounds + options.warm_up;
    for round in 0..all {
        progress.tell("favordynmods", round, all);
        for turn in 0..states.len() {
            let at = (round + turn) % states.len();
            interrupt::check()?;
            let _on = (options.switch && states[at] == "on").then(|| host.turn_on()).transpose()?;
            let mut keep = |step: usize, sample: Sample| {
                if round >= options.warm_up {
                    samples[at][step].push(sample);
                }
            };
            sleep(pause);
            keep(0, ground.step()?);
            keep(1, forks()?);
            keep(2, ground.reads()?);
            for (place, entrant) in entrants.iter_mut().enumerate() {
                if entrant.failure.is_some() {
                    continue;
                }
                sleep(pause);
                match Container::new(stand, &racers[place], &[])?.run() {
                    Ok(sample) => keep(3 + place, sample),
                    Err(fault) => {
                        interrupt::check()?;
                        entrant.failure = Some(fault.to_string());
                    }
                }
            }
        }
    }
    drop(progress);
    let mut series = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let is_out = at.checked_sub(3).is_some_and(|entrant| entrants[entrant].failure.is_some());
        for (state, samples) in states.iter().zip(&samples).filter(|_| !is_out) {
            series.push(Series {
                step: step.clone(),
                pause,
                runtime: (*state).to_owned(),
                samples: samples[at].clone(),
                is_split: accounting::is_split(),
            });
        }
    }
    let rows = compare(&series, states[0]);
    let about = match options.switch {
        true => String::new(),
        false => format!(
            "favordynmods is {} here and is not changed; --switch turns it on and off in turns, if that can be undone\n",
            states[0]
        ),
    };
    Ok(Outcome {
        text: [about, results::times(&rows, states[0]), results::verdicts(&rows, states[0])]
            .join("\n"),
        json: vec![("rows", results::value(&rows)?), ("switched", options.switch.into())],
        csv: results::csv(&series),
        pictures: results::pictures(&rows),
        ..Outcome::default()
    })
}

/// This host, queried and changed by `dayfly host favordynmods`.
struct Host {
    dayfly: PathBuf,
    is_on: bool,
}

/// Keeps the option on until dropped. The command that has turned the option on turns it off at the end of its standard
/// input. The input also ends when this process exits.
struct On(Child);

impl Drop for On {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Host {
    fn look() -> Result<Self, Error> {
        let dayfly = report::program::dayfly();
        let dayfly =
            dayfly.ok_or_else(|| Error::Unfit("no dayfly beside this program".to_owned()))?;
        let mut status = Command::new(&dayfly);
        status.args(["host", "favordynmods", "status", "--format", "json"]).stdin(Stdio::null());
        let text = process::read(&mut status, DEADLINE).map_err(|failure| {
            Error::Unfit(format!("dayfly host favordynmods status: {failure}"))
        })?;
        let status: Value = serde_json::from_str(&text)
            .map_err(|error| Error::Unfit(format!("dayfly host favordynmods status: {error}")))?;
        Ok(Self { dayfly, is_on: status["favordynmods"] == "on" })
    }

    fn turn_on(&self) -> Result<On, Error> {
        let mut auto = Command::new(&self.dayfly);
        auto.args(["host", "favordynmods", "auto", "--", "sh", "-c", "echo on; exec cat"]);
        auto.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = auto.spawn().map_err(Error::at("execute", &self.dayfly))?;
        let mut on = On(child);
        let mut line = String::new();
        if let Some(stdout) = on.0.stdout.take() {
            // A buffered reader loses no output, because the command prints only this line.
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(Error::at("read from", &self.dayfly))?;
        }
        if line == "on\n" {
            return Ok(on);
        }
        let mut said = String::new();
        if let Some(mut stderr) = on.0.stderr.take() {
            let _ = stderr.read_to_string(&mut said);
        }
        Err(Error::Unfit(said.trim().trim_start_matches("error: ").to_owned()))
    }
}

/// Two cgroups, and a process that is moved between them.
struct Ground {
    traveller: Child,
    /// The two cgroup.procs files.
    places: [File; 2],
    /// The index in `places` of the next destination.
    next: std::cell::Cell<bool>,
    read: PathBuf,
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(self.traveller.stdin.take());
        let _ = self.traveller.wait();
    }
}

impl Ground {
    fn make(stand: &Stand) -> Result<Self, Error> {
        let open = |name: &str| {
            let procs = stand.make_cgroup(name)?.join("cgroup.procs");
            let file =
                File::options().write(true).open(&procs).map_err(Error::at("open", &procs))?;
            Ok::<_, Error>((file, procs))
        };
        let (here, read) = open("here")?;
        let (there, _) = open("there")?;
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::null());
        let traveller = cat.spawn().map_err(Error::at("execute", Path::new("cat")))?;
        Ok(Self { traveller, places: [here, there], next: false.into(), read })
    }

    /// Moves the process to the other cgroup.
    fn step(&self) -> Result<Sample, Error> {
        let to = &self.places[usize::from(self.next.replace(!self.next.get()))];
        let pid = self.traveller.id().to_string();
        let moved = || to.write_all_at(pid.as_bytes(), 0);
        timed(|| moved().map_err(Error::at("write", &self.read)))
    }

    /// Reads `cgroup.procs` of one of the two cgroups repeatedly.
    fn reads(&self) -> Result<Sample, Error> {
        timed(|| {
            (0..TIMES)
                .try_for_each(|_| fs::read(&self.read).map(drop))
                .map_err(Error::at("read", &self.read))
        })
    }
}

/// Forks processes that exit at once, one after the other.
fn forks() -> Result<Sample, Error> {
    let this = Path::new("this process");
    timed(|| {
        (0..TIMES)
            .try_for_each(|_| sys::errand::ask(None, || Ok(0)).map(drop))
            .map_err(Error::errno("fork", this))
    })
}

fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<Sample, Error> {
    let start = Instant::now();
    work()?;
    Ok(Sample { wall: start.elapsed(), ..Sample::default() })
}
