//! `favordynmods`: measures which operations this mount option of cgroup v2 makes cheaper, and which it makes more
//! expensive.
//!
//! The option applies to the whole host, and since Linux 6.18 it stays on until the next boot. So the experiment
//! switches the option only on request (`--switch`). It then uses `dayfly host favordynmods auto`. That command ends
//! with the experiment, even if the experiment is killed, and restores the option.

use crate::harness::*;
use crate::process::Sample;
use crate::runtime;
use host::check::measured::migration::{Listening, Migration};
use host::dynmods::State;
use host::facts::Facts;
use host::layout::Layout;
use std::io::{BufRead, BufReader, Read};

/// `favordynmods`.
#[derive(Debug, Args)]
pub struct FavorDynmods {
    /// Number of measured rounds
    #[arg(long, value_name = "N", value_parser = some, default_value = "30")]
    pub rounds: usize,
    /// Number of rounds before the measured ones
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub warm_up: usize,
    /// Wait this long before every move and start
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60ms")]
    pub pause: Duration,
    /// Turn favordynmods on and off in turns, for the whole host; works before Linux 6.18, on
    /// cgroup v2
    #[arg(long)]
    pub switch: bool,
}

/// The number of repetitions of short operations.
const TIMES: u32 = 500;

/// The names of the operations that are timed besides the starts.
const MOVE: &str = "a move";
const FORKS: &str = "500 forks and exits";
const READS: &str = "500 reads of cgroup.procs";

impl Experiment for FavorDynmods {
    fn measure(&self, stand: &Stand, entrants: &[Entrant]) -> Result<Outcome, Error> {
        let facts = Facts::of(None)?;
        let layout = Layout::of(&facts);
        let state = State::of(&facts, &layout);
        let names: &[&str] = match (self.switch, state.is_on()) {
            (true, true) => {
                bail!("favordynmods is on: turn it off by \"dayfly host favordynmods off\" first");
            }
            (true, false) => &["off", "on"],
            (false, true) => &["on"],
            (false, false) => &["off"],
        };
        // The states take turns, and in each of them the runtimes have a start.
        let states =
            entrants.first().into_iter().flat_map(|any| names.iter().map(|it| any.called(*it)));
        let states: Vec<Entrant> = states.collect();
        let migration = Migration::prepare(&layout, &stand.cgroup.path)?;
        let rounds = Rounds { warm_up: self.warm_up, timed: self.rounds, ..Rounds::default() };
        let goes = in_turns(&states, rounds, "favordynmods", |at| {
            let switch = self.switch && names[at] == "on";
            let _on = switch.then(turn_on).transpose()?;
            sleep(self.pause);
            let mut samples = vec![step(&migration)?, forks()?, reads(&migration)?];
            for entrant in entrants {
                sleep(self.pause);
                let run = || Container::new(stand, entrant, &[])?.run();
                let sample = if entrant.is_out() { None } else { entrant.attempt(run())? };
                samples.push(sample.unwrap_or_default());
            }
            Ok(samples)
        })?;
        let run_by = |entrant: &Entrant| format!("run by {}", entrant.name);
        let steps: Vec<String> = [MOVE, FORKS, READS]
            .map(str::to_owned)
            .into_iter()
            .chain(entrants.iter().map(run_by))
            .collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let mut series = series_by_step(&states, &steps, self.pause, &goes);
        let out = entrants.iter().filter(|entrant| entrant.is_out());
        let out: Vec<String> = out.map(run_by).collect();
        series.retain(|of| !out.contains(&of.step));
        let about = match self.switch {
            true => String::new(),
            false => format!(
                "favordynmods is {} here and is not changed; --switch turns it on and off in turns, if that can be undone\n",
                names[0]
            ),
        };
        Outcome::of_series(&series, names[0], &[about])?.with("switched", &self.switch)
    }
}

/// Turns the option on by `dayfly host favordynmods auto`, which turns it off when it ends.
fn turn_on() -> Result<Listening, Error> {
    let dayfly = runtime::dayfly()?;
    let mut auto = Command::new(&dayfly);
    auto.args(["host", "favordynmods", "auto", "--", "sh", "-c", "echo on; exec cat"]);
    auto.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = auto.spawn().map_err(Error::at("execute", &dayfly))?;
    let mut on = Listening(child);
    let mut line = String::new();
    if let Some(stdout) = on.0.stdout.take() {
        // A buffered reader loses no output, because the command prints only this line.
        BufReader::new(stdout).read_line(&mut line).map_err(Error::at("read from", &dayfly))?;
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

/// Moves the process to the other cgroup.
fn step(migration: &Migration) -> Result<Sample, Error> {
    let us = migration.step().map_err(Error::errno("move to", migration.place()))?;
    Ok(Sample { wall: Duration::from_secs_f64(us / 1e6), ..Sample::default() })
}

/// Reads `cgroup.procs` of one of the two cgroups repeatedly.
fn reads(migration: &Migration) -> Result<Sample, Error> {
    let file = migration.place().join("cgroup.procs");
    timed(|| {
        (0..TIMES).try_for_each(|_| fs::read(&file).map(drop)).map_err(Error::at("read", &file))
    })
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
