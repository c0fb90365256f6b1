//! The measured cost of creating namespaces, executing programs and moving processes between cgroups. Each operation is
//! measured back to back, and at intervals longer than an RCU grace period; the results are medians.

pub mod migration;

use self::migration::Migration;
use super::probe::new_mount;
use super::verdict::{Section, Verdict};
use crate::dynmods::State;
use crate::facts::Facts;
use crate::layout::{Layout, Mode};
use crate::measure::progress::Progress;
use crate::measure::statistics::median;
use report::{Error, interrupt};
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use sys::clone::CloneFlags;
use sys::errand::ask;
use sys::ns::unshare;

/// The namespaces whose creation is always quick; one line summarises them.
const QUICK: [(&str, CloneFlags); 5] = [
    ("pid", CloneFlags::NEWPID),
    ("uts", CloneFlags::NEWUTS),
    ("user", CloneFlags::NEWUSER),
    ("cgroup", CloneFlags::NEWCGROUP),
    ("time", CloneFlags::NEWTIME),
];

/// The operations that are judged alone, each with the time in microseconds from which it is slow.
const LIMITS: [(&str, f64); 5] = [
    ("measured.net", 5000.0),
    ("measured.ipc", 1000.0),
    ("measured.mqueue", 5000.0),
    ("measured.mnt", 2000.0),
    ("measured.spawn", 10_000.0),
];

/// Advice for slow operations.
const NEWER: &str = "a newer kernel, or less load on this one";

/// Measures and judges all costs. Without root, only fork and exec are measured.
///
/// # Errors
/// The user interrupted the measurement.
pub fn section(facts: &Facts, layout: &Layout) -> Result<Section, Error> {
    let migration = Migration::prepare(layout, "");
    let unified = layout.unified.as_deref().map(Path::new);
    let unified = unified.and_then(|top| migration::Group::named("birth", top).ok());
    let mut watch = Stopwatch::default();
    watch.add("net", || made(CloneFlags::NEWNET));
    watch.add("ipc", || made(CloneFlags::NEWIPC));
    watch.add("mqueue", mqueue);
    watch.add("mnt", || made(CloneFlags::NEWNS));
    for (name, kind) in QUICK {
        watch.add(name, move || made(kind));
    }
    watch.add("spawn", spawn);
    watch.add("grace", || whole(|| membarrier(MembarrierCommand::Global)));
    if let Ok(migration) = &migration {
        watch.add("move", || migration.step());
        if migration.has_tasks() {
            watch.add("own_move", || migration.self_step(c"cgroup.procs"));
            watch.add("thread_move", || migration.self_step(c"tasks"));
        }
    }
    if let Some(group) = &unified {
        watch.add("fork", || whole(|| ask(None, || Ok(0))));
        watch.add("birth", || whole(|| ask(Some(group.descriptor()), || Ok(0))));
    }
    let times = watch.run()?;

    let mut verdicts: Vec<Verdict> = LIMITS.map(|(id, most)| judge(id, most, &times)).into();
    verdicts.insert(4, others(&times));
    verdicts.extend(times.get("grace").map(|grace| timed("measured.grace", "time", grace)));
    verdicts.push(moved(facts, layout, times.get("move"), migration.as_ref().err()));
    if let (Some(process), Some(thread)) = (times.get("own_move"), times.get("thread_move")) {
        verdicts.push(moved_itself(process, thread));
    }
    if let (Some(birth), Some(fork)) = (times.get("birth"), times.get("fork")) {
        let (apart, outside) = (format!("{:.0}", birth.apart), format!("{:.0}", fork.apart));
        let verdict = timed("measured.birth", "time", birth);
        verdicts.push(verdict.with("birth", apart).with("fork", outside));
    }
    Ok(Section { title: "measured here", verdicts })
}

/// Times the creation of a namespace in a separate process, which exits afterwards.
fn made(kind: CloneFlags) -> Result<f64, Errno> {
    in_a_process(|| {
        let start = Instant::now();
        unshare(kind)?;
        Ok(start.elapsed())
    })
}

/// Times a detached mount of mqueue in a new IPC namespace.
fn mqueue() -> Result<f64, Errno> {
    in_a_process(|| {
        unshare(CloneFlags::NEWIPC)?;
        let start = Instant::now();
        let mount = new_mount(c"mqueue")?;
        let took = start.elapsed();
        // Closing the mount takes a grace period, which must not be measured.
        drop(mount);
        Ok(took)
    })
}

/// Runs `work` in a process of its own, and returns the time that it reports in microseconds.
fn in_a_process(work: impl FnOnce() -> Result<Duration, Errno>) -> Result<f64, Errno> {
    let nanoseconds = ask(None, || Ok(work()?.as_nanos().try_into().unwrap_or(u32::MAX)))?;
    Ok(f64::from(nanoseconds) / 1e3)
}

fn spawn() -> Result<f64, Errno> {
    let mut program = Command::new("/bin/true");
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    whole(|| program.status().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

/// Returns the duration of `work`.
fn whole<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<f64, Errno> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Compares the times of an operation with their limit.
fn judge(id: &'static str, most: f64, times: &All) -> Verdict {
    let name = id.trim_start_matches("measured.");
    times.get(name).map_or_else(
        || Verdict::of(id, "unmeasured"),
        |times| timed(id, "time", times).warn_if(times.apart > most, NEWER),
    )
}

/// Returns a verdict with the times of an operation.
fn timed(id: &'static str, case: &str, times: &Times) -> Verdict {
    let Times { apart, in_a_row, runs } = times;
    Verdict::of(id, case)
        .with("times", format!("{apart:.0} µs apart, {in_a_row:.0} in a row"))
        .figure("apart_us", *apart)
        .figure("in_a_row_us", *in_a_row)
        .figure("rounds", runs[0].len())
        .figure("apart_runs_us", runs[0].clone())
        .figure("in_a_row_runs_us", runs[1].clone())
}

fn others(times: &All) -> Verdict {
    let known = QUICK.iter().filter_map(|(name, _)| Some((*name, times.get(name)?.apart)));
    let known: Vec<(&str, f64)> = known.collect();
    if known.is_empty() {
        return Verdict::of("measured.others", "unmeasured");
    }
    let list: Vec<String> =
        known.iter().map(|(name, apart)| format!("{name} {apart:.0}")).collect();
    let verdict = Verdict::of("measured.others", "times")
        .with("list", list.join(", "))
        .warn_if(known.iter().any(|(_, apart)| *apart > 2000.0), NEWER);
    let figure = |verdict: Verdict, (name, apart)| verdict.figure(&format!("{name}_us"), apart);
    known.into_iter().fold(verdict, figure)
}

/// Judges the time that it takes to move a process between two cgroups.
fn moved(
    facts: &Facts,
    layout: &Layout,
    times: Option<&Times>,
    refused: Option<&Error>,
) -> Verdict {
    let Some(times) = times else {
        let reason = refused.map_or_else(|| "it was refused here".to_owned(), ToString::to_string);
        return Verdict::of("measured.move", "refused").with("reason", reason);
    };
    let waits = times.apart > 1000.0 && times.apart > 3.0 * times.in_a_row;
    let (case, fix) = match (waits, layout.mode()) {
        (false, _) => ("quick", ""),
        (true, Mode::V2) => ("waits", "dayfly host favordynmods on, for other runtimes"),
        (true, _) => ("waits_v1", "dayfly host favordynmods on"),
    };
    timed("measured.move", case, times).fix_if(waits && !State::of(facts, layout).is_on(), fix)
}

/// Judges the two ways in which a single-threaded process can move itself on v1: through `cgroup.procs`, or through
/// `tasks`, as dayfly's init does.
fn moved_itself(process: &Times, thread: &Times) -> Verdict {
    let waits = thread.apart > 1000.0 && thread.apart * 2.0 > process.apart;
    timed("measured.thread_move", if waits { "waits" } else { "quick" }, thread)
        .with("thread", format!("{:.0}", thread.apart))
        .with("process", format!("{:.0}", process.apart))
        .figure("procs_apart_us", process.apart)
        .figure("procs_in_a_row_us", process.in_a_row)
}

/// The number of rounds in which each operation runs once, with a pause before and after it.
const APART: usize = 11;
/// The pause between two operations. The operations take turns, so the same one runs again only after many pauses,
/// which together are longer than any grace period.
const REST: Duration = Duration::from_millis(20);
/// The number of back-to-back repetitions of an operation.
const IN_A_ROW: usize = 21;

/// The durations of an operation, in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// The median with pauses between the runs.
    pub apart: f64,
    /// The median of back-to-back runs.
    pub in_a_row: f64,
    /// All runs, with pauses and without.
    pub runs: [Vec<f64>; 2],
}

/// The times of all operations, by name.
pub type All = BTreeMap<&'static str, Times>;

/// An operation that returns its duration in microseconds.
type Operation<'a> = Box<dyn FnMut() -> Result<f64, Errno> + 'a>;

/// The operations to time.
#[derive(Default)]
pub struct Stopwatch<'a> {
    operations: Vec<(&'static str, Operation<'a>)>,
}

impl<'a> Stopwatch<'a> {
    /// Adds an operation. An operation whose first run fails is omitted.
    pub fn add(&mut self, name: &'static str, operation: impl FnMut() -> Result<f64, Errno> + 'a) {
        self.operations.push((name, Box::new(operation)));
    }

    /// Times all operations.
    ///
    /// # Errors
    /// Interrupted by SIGINT or SIGTERM.
    pub fn run(mut self) -> Result<All, Error> {
        self.operations.retain_mut(|(_, operation)| operation().is_ok());
        let mut apart: Vec<Vec<f64>> = vec![Vec::new(); self.operations.len()];
        let mut progress = Progress::new();
        for round in 0..APART {
            progress.tell("measuring", round, APART);
            for ((_, operation), times) in self.operations.iter_mut().zip(&mut apart) {
                sleep(REST);
                interrupt::check()?;
                times.extend(operation());
            }
        }
        drop(progress);
        let mut all = All::new();
        for ((name, operation), apart) in self.operations.iter_mut().zip(apart) {
            interrupt::check()?;
            let row: Vec<f64> = (0..IN_A_ROW).filter_map(|_| operation().ok()).collect();
            let [apart_us, in_a_row] = [&apart, &row].map(|runs| median(&mut runs.clone()));
            all.insert(name, Times { apart: apart_us, in_a_row, runs: [apart, row] });
        }
        Ok(all)
    }
}
