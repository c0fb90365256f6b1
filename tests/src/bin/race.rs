//! Races runtimes: `run` of a container that ends at once, interleaved.
//!
//! `dayfly-race [--rounds N] [--plain] NAME=PATH…`
//!
//! Every round runs each runtime once, in an order that turns by one from
//! round to round, so that whatever disturbs the machine disturbs all alike.
//! `--plain` leaves out the seccomp profile. The first runtime named is 1.00.
//! One that fails is listed with what it said.

use dayfly_tests::runtime::wait_within;
use dayfly_tests::{bundle, profile, rootfs};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

struct Entrant {
    name: String,
    program: PathBuf,
    times: Vec<Duration>,
    failure: Option<String>,
}

fn main() -> ExitCode {
    match race(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("dayfly-race: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn race(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let mut rounds = 15;
    let mut plain = false;
    let mut entrants = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                rounds = number.ok_or("--rounds needs a number")?;
            }
            "--plain" => plain = true,
            _ => {
                let (name, path) =
                    argument.split_once('=').ok_or("usage: [--rounds N] [--plain] NAME=PATH…")?;
                entrants.push(Entrant {
                    name: name.to_owned(),
                    program: path.into(),
                    times: Vec::new(),
                    failure: None,
                });
            }
        }
    }
    if entrants.is_empty() {
        return Err("no runtime named".to_owned());
    }
    let dir = std::env::temp_dir().join(format!("dayfly-race-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("make {}: {error}", dir.display()))?;
    let result = prepare(&dir, plain).map(|()| run_rounds(&dir, rounds, &mut entrants));
    let _ = fs::remove_dir_all(&dir);
    result?;
    print(&entrants, rounds, plain);
    Ok(())
}

/// One bundle for all: Podman's defaults as of specification 1.0.2, which
/// Debian's crun accepts, and without device rules, whose eBPF program it
/// can't load where raising limits is not allowed.
fn prepare(dir: &Path, plain: bool) -> Result<(), String> {
    rootfs::busybox()?;
    rootfs::make(&dir.join("bundle/rootfs"), dir);
    let mut config = bundle::base();
    config["process"]["args"] = json!(["/bin/true"]);
    config["linux"]["cgroupsPath"] = json!(format!("/dayfly-race-{}", std::process::id()));
    if !plain {
        config["linux"]["seccomp"] =
            profile::seccomp(Path::new(profile::PATH), bundle::CAPABILITIES)?;
    }
    fs::write(dir.join("bundle/config.json"), config.to_string())
        .map_err(|error| format!("write config.json: {error}"))
}

fn run_rounds(dir: &Path, rounds: usize, entrants: &mut [Entrant]) {
    // One round beforehand: page cache, and whatever a runtime caches itself.
    for entrant in entrants.iter_mut() {
        entrant.failure = run_once(dir, entrant).err();
    }
    for round in 0..rounds {
        for place in 0..entrants.len() {
            let at = (round + place) % entrants.len();
            let entrant = &mut entrants[at];
            if entrant.failure.is_some() {
                continue;
            }
            match run_once(dir, entrant) {
                Ok(time) => entrant.times.push(time),
                Err(reason) => entrant.failure = Some(reason),
            }
        }
    }
}

fn run_once(dir: &Path, entrant: &Entrant) -> Result<Duration, String> {
    let errors = dir.join("stderr");
    let mut command = Command::new(&entrant.program);
    command
        .arg("--root")
        .arg(dir.join(&entrant.name))
        .args(["run", "--bundle"])
        .arg(dir.join("bundle"))
        .arg(format!("race-{}", std::process::id()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).map_err(|error| error.to_string())?);
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let status = wait_within(&mut child, Duration::from_secs(20));
    let time = start.elapsed();
    match status {
        Some(status) if status.success() => Ok(time),
        Some(status) => {
            let text = fs::read_to_string(&errors).unwrap_or_default();
            Err(format!("{status}: {}", text.lines().last().unwrap_or("says nothing")))
        }
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err("no end after 20 s".to_owned())
        }
    }
}

/// The value below which `percent` of `times` are.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len().saturating_sub(1) * percent + 50) / 100;
    times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
}

fn print(entrants: &[Entrant], rounds: usize, plain: bool) {
    let profile = if plain { "no seccomp" } else { "default seccomp profile" };
    println!(
        "run of busybox true to its end, {profile}, {rounds} interleaved rounds, milliseconds:\n"
    );
    println!("{:<16} {:>8} {:>8} {:>8} {:>8}", "runtime", "median", "p10", "p90", "ratio");
    let mut first = None;
    for entrant in entrants {
        if let Some(reason) = &entrant.failure {
            println!("{:<16} failed: {reason}", entrant.name);
            continue;
        }
        let mut times = entrant.times.clone();
        let median = percentile(&mut times, 50);
        let base = *first.get_or_insert(median);
        let (p10, p90) = (percentile(&mut times, 10), percentile(&mut times, 90));
        println!("{:<16} {median:>8.2} {p10:>8.2} {p90:>8.2} {:>8.2}", entrant.name, median / base);
    }
    println!();
}
