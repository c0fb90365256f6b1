//! The weight of the programs: their size, and for each command the system calls and user-space instructions of the
//! runtime's own processes. Both are counted one by one. The caches are filled beforehand, as they are for every start
//! but the first.
//!
//! `tests/weight.json` contains the measured weights for each kernel, since other kernels need other calls. A command
//! that is more than [`SLACK`] percent heavier fails. `UPDATE_WEIGHT=1` measures again and writes the file.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::CAPABILITIES;
use dayfly_tests::container::Container;
use dayfly_tests::profile;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::view::View;
use dayfly_tests::{case, shim};
use host::follow::{self, Command, Mode, Report};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(run).on(V2).when(uses_every_fast_path).needs(measured_kernel).unlike_runc(),
    case!(create).on(V2).when(uses_every_fast_path).needs(measured_kernel).unlike_runc(),
    case!(start).on(V2).when(uses_every_fast_path).needs(measured_kernel).unlike_runc(),
    case!(exec).on(V2).when(uses_every_fast_path).needs(measured_kernel).unlike_runc(),
    case!(size).on(V2).needs(measured_size).unlike_runc(),
    case!(delete).on(V2).when(uses_every_fast_path).needs(measured_kernel).unlike_runc(),
];

/// The maximum increase over the measured weight, in percent.
const SLACK: u64 = 3;
/// The number of additional instructions allowed because paths may be longer: each byte of a path is processed.
const PATHS: u64 = 600;
/// The maximum number of measurements of a command, not including the first run, which fills the caches.
const ROUNDS: usize = 5;
/// Counting stops after this many instructions.
const BOUND: u64 = 5_000_000;
const DEADLINE: Duration = Duration::from_secs(240);
/// The key of the programs' sizes in `tests/weight.json`.
const SIZES: &str = "bytes";

fn run(bed: &Bed) {
    weigh(bed, "run", |_| {}, |c| of_bundle("run", c));
}

fn create(bed: &Bed) {
    weigh(bed, "create", |_| {}, |c| of_bundle("create", c));
}

fn start(bed: &Bed) {
    weigh(bed, "start", |c| drop(c.create().ok()), |c| vec!["start".into(), c.id.clone()]);
}

fn exec(bed: &Bed) {
    let prepare = |c: &Container<'_>| drop(c.run_with(&["--detach"]).ok());
    weigh(bed, "exec", prepare, |c| vec!["exec".into(), c.id.clone(), "/bin/true".into()]);
}

fn delete(bed: &Bed) {
    let prepare = |c: &Container<'_>| {
        c.create().ok();
        c.start().ok();
        c.kill("KILL").ok();
        c.wait_status("stopped");
    };
    weigh(bed, "delete", prepare, |c| vec!["delete".into(), c.id.clone()]);
}

/// The sizes of the runtime and the shim, in bytes. Pages of a larger program take longer to map and to read.
fn size(bed: &Bed) {
    let programs = [Some(bed.runtime().to_owned()), shim::program(bed)];
    for program in programs.into_iter().flatten() {
        let name = program.file_name().expect("a name").to_string_lossy();
        let bytes = fs::metadata(&program).unwrap_or_else(|error| panic!("{name}: {error}")).len();
        if updating() {
            update(|table| table[SIZES][std::env::consts::ARCH][&*name] = json!(bytes));
            continue;
        }
        let before = read()[SIZES][std::env::consts::ARCH][&*name].as_u64().unwrap_or(0);
        let sum = Sum { what: "bytes", now: bytes, before, allowed: 0 };
        if let Some(text) = sum.heavier(&name) {
            panic!("{text}; if that is worth it, UPDATE_WEIGHT=1 writes tests/weight.json anew");
        }
    }
}

/// Returns a container as engines typically configure it: with Podman's defaults and seccomp profile. The program exits
/// at once if `command` is `run`, which waits for the program.
pub(crate) fn container<'a>(bed: &'a Bed, command: &str) -> Container<'a> {
    let filter = profile::seccomp(CAPABILITIES);
    let program: &[&str] = if command == "run" { &["/bin/true"] } else { &["/bin/sleep", "1000"] };
    bed.bundle().set("/linux/seccomp", filter).args(program).make()
}

pub(crate) fn of_bundle(verb: &str, container: &Container<'_>) -> Vec<String> {
    let bundle = container.bundle.to_string_lossy().into_owned();
    vec![verb.into(), "--bundle".into(), bundle, container.id.clone()]
}

/// The weight of one command.
struct Weight {
    calls: BTreeMap<String, u64>,
    /// The number of user-space instructions; 0 if they were not counted.
    instructions: u64,
}

impl Weight {
    fn least(self, other: Self) -> Self {
        let sum = |weight: &Self| weight.calls.values().sum::<u64>();
        let instructions = self.instructions.min(other.instructions);
        let calls = if sum(&other) < sum(&self) { other.calls } else { self.calls };
        Self { calls, instructions }
    }
}

fn weigh(
    bed: &Bed,
    command: &str,
    prepare: fn(&Container<'_>),
    args: fn(&Container<'_>) -> Vec<String>,
) {
    let count = |mode| {
        let container = container(bed, command);
        prepare(&container);
        let report = count(bed, &args(&container), mode);
        assert_eq!(report.end, follow::End::Exited(0), "{command} fails: {report:?}");
        report
    };
    let _cold = count(Mode::Syscalls);
    // Stepping through the creation of a container takes half a minute, so `create` is not stepped.
    let is_stepped = command != "create";
    let once = || {
        let report = count(Mode::Syscalls);
        let calls = report.by_name().into_iter().map(|(name, calls)| (name.to_owned(), calls));
        let calls = calls.collect();
        let instructions = is_stepped.then(|| {
            let report = count(Mode::Instructions { bound: BOUND });
            assert!(report.complete, "{command} takes more than {BOUND} instructions: {report:?}");
            report.instructions()
        });
        Weight { calls, instructions: instructions.unwrap_or_default() }
    };
    let is_enough = |weight: &Weight| !updating() && heavier(command, weight).is_none();
    // The minimum counts, because two signals may arrive one by one or together, and an answer may arrive before or
    // after a timeout of a tenth of a second.
    let mut weight = once();
    for _ in 1..ROUNDS {
        if is_enough(&weight) {
            break;
        }
        weight = weight.least(once());
    }
    if updating() {
        record(command, &weight);
    } else if let Some(text) = heavier(command, &weight) {
        panic!("{text}");
    }
}

fn count(bed: &Bed, args: &[String], mode: Mode) -> Report {
    let command = command_of(bed, args);
    follow::count(&command, mode, DEADLINE).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a command of the runtime whose instructions are reproducible.
pub(crate) fn command_of(bed: &Bed, args: &[String]) -> Command {
    // The environment is fixed, since a program processes each variable.
    let command =
        Command::new(bed.runtime()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.arg("--root").arg(bed.root()).args(args)
}

/// Returns an error message, with the additional calls, if the command has become heavier.
fn heavier(command: &str, weight: &Weight) -> Option<String> {
    let table = read();
    let measured = &table[kernel()][command];
    let named = |name: &str| measured["calls"][name].as_u64().unwrap_or(0);
    let before: BTreeMap<String, u64> =
        serde_json::from_value(measured["calls"].clone()).unwrap_or_default();
    let more: Vec<String> = weight
        .calls
        .iter()
        .filter(|(name, calls)| **calls > named(name))
        .map(|(name, calls)| format!("{name} {calls} instead of {}", named(name)))
        .collect();
    let calls = Sum {
        what: "system calls",
        now: weight.calls.values().sum(),
        before: before.values().sum(),
        allowed: 0,
    };
    let instructions = Sum {
        what: "instructions",
        now: weight.instructions,
        before: measured["instructions"].as_u64().unwrap_or(0),
        allowed: PATHS,
    };
    let heavier: Vec<String> =
        [calls, instructions].iter().filter_map(|sum| sum.heavier(command)).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    let text = format!(
        "{}{more}: {command} has become heavier; if that is worth it, UPDATE_WEIGHT=1 writes \
         tests/weight.json anew",
        heavier.join(", "),
    );
    (!heavier.is_empty()).then_some(text)
}

/// A present count, and the count in the file.
struct Sum {
    what: &'static str,
    now: u64,
    before: u64,
    /// The allowed difference besides [`SLACK`], because of causes outside the program.
    allowed: u64,
}

impl Sum {
    /// Returns an error message if the present count exceeds its ceiling. Prints a note if the count is far below the
    /// ceiling.
    fn heavier(&self, command: &str) -> Option<String> {
        let Self { what, now, before, allowed } = self;
        let ceiling = before + before * SLACK / 100 + allowed;
        if now * 10 < before * 9 {
            println!(
                "{command}: {now} {what} instead of {before}: UPDATE_WEIGHT=1 lowers the ceiling"
            );
        }
        (*now > ceiling).then(|| format!("{command}: {now} {what}, ceiling {ceiling}"))
    }
}

fn updating() -> bool {
    std::env::var_os("UPDATE_WEIGHT").is_some()
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("weight.json")
}

fn read() -> Value {
    let text = fs::read(path()).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_else(|_| json!({}))
}

/// Writes the weight of one command into the file.
fn record(command: &str, weight: &Weight) {
    update(|table| {
        table[kernel()][command] =
            json!({ "calls": weight.calls, "instructions": weight.instructions });
    });
}

/// Changes the file. Several cases do so concurrently.
fn update(change: impl FnOnce(&mut Value)) {
    static FILE: Mutex<()> = Mutex::new(());
    let _guard = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut table = read();
    change(&mut table);
    let mut text = serde_json::to_string_pretty(&table).expect("serialise weights");
    text.push('\n');
    fs::write(path(), text).expect("write weight.json");
}

/// Returns the kernel's version without the patch level, such as `6.18`.
fn kernel() -> String {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

fn measured_kernel() -> Result<(), String> {
    if updating() || read()[kernel()].is_object() {
        return Ok(());
    }
    Err(format!(
        "tests/weight.json has nothing for Linux {}: UPDATE_WEIGHT=1 measures it",
        kernel()
    ))
}

/// The sizes are those of `make build`; a build with fault points contains more.
fn measured_size() -> Result<(), String> {
    if !updating() && !read()[SIZES][std::env::consts::ARCH].is_object() {
        return Err(format!("tests/weight.json has no sizes for {}", std::env::consts::ARCH));
    }
    Ok(())
}
