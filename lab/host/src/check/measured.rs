//! The measured cost of creating namespaces, executing programs and moving processes between cgroups. Each operation is
//! measured back to back, and at intervals longer than an RCU grace period; the results are medians.

mod migration;
mod stopwatch;

use self::migration::Migration;
use self::stopwatch::{Stopwatch, Times};
use super::verdict::Level::{Good, Note, Warning};
use super::verdict::{Level, Section, Verdict};
use crate::dynmods::State;
use crate::facts::Facts;
use crate::layout::{Layout, Mode};
use report::Error;
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::thread::{MembarrierCommand, membarrier};
use std::process::{Command, Stdio};
use std::time::Instant;
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

/// Measures and judges all costs. Without root, only fork and exec are measured.
///
/// # Errors
/// The user interrupted the measurement.
pub fn section(facts: &Facts, layout: &Layout) -> Result<Section, Error> {
    let migration = Migration::prepare(layout);
    let unified = layout.unified.as_deref().and_then(migration::Group::make);
    let mut watch = Stopwatch::default();
    watch.add("net", || made(CloneFlags::NEWNET));
    watch.add("ipc", || made(CloneFlags::NEWIPC));
    watch.add("mqueue", mqueue);
    watch.add("mnt", || made(CloneFlags::NEWNS));
    for (name, kind) in QUICK {
        watch.add(name, move || made(kind));
    }
    watch.add("spawn", spawn);
    watch.add("grace", grace_period);
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
    let of = |name: &str| times.iter().find(|(other, _)| *other == name).map(|(_, times)| times);

    let mut verdicts = vec![
        judge(
            ("measured.net", "network namespace"),
            of("net"),
            5000.0,
            "created in parallel with init's work; 47 700 µs in all on Linux 4.5",
        ),
        judge(
            ("measured.ipc", "IPC namespace"),
            of("ipc"),
            1000.0,
            "10 900 µs before Linux 5.9: it waited for RCU",
        ),
        judge(
            ("measured.mqueue", "mount of mqueue"),
            of("mqueue"),
            5000.0,
            "16 800 µs before Linux 4.16",
        ),
        judge(
            ("measured.mnt", "mount namespace"),
            of("mnt"),
            2000.0,
            "this host's table, copied; dayfly copies one mount",
        ),
        others(&times),
        judge(
            ("measured.spawn", "fork and exec"),
            of("spawn"),
            10_000.0,
            "every command of a container's life cycle takes this time",
        ),
    ];
    if let Some(grace) = of("grace") {
        let about = ("measured.grace", "RCU grace period");
        let why = "a move between cgroups may wait for it";
        verdicts.push(figures(Verdict::new(about, Good, grace.text(), why), grace));
    }
    verdicts.push(moved(facts, layout, of("move"), migration.as_ref().err()));
    if let (Some(process), Some(thread)) = (of("own_move"), of("thread_move")) {
        verdicts.push(moved_itself(process, thread));
    }
    if let (Some(birth), Some(fork)) = (of("birth"), of("fork")) {
        let about = ("measured.birth", "birth in a cgroup");
        let fact = format!("{:.0} µs apart, {:.0} outside one", birth.apart, fork.apart);
        let why = "no move, no wait for a grace period";
        verdicts.push(figures(Verdict::new(about, Good, fact, why), birth));
    }
    Ok(Section { title: "measured here", verdicts })
}

/// Times the creation of a namespace in a separate process, which exits afterwards.
fn made(kind: CloneFlags) -> Result<f64, Errno> {
    let nanoseconds = ask(None, || {
        let start = Instant::now();
        unshare(kind)?;
        Ok(elapsed(start))
    })?;
    Ok(f64::from(nanoseconds) / 1e3)
}

/// Times a detached mount of mqueue in a new IPC namespace.
fn mqueue() -> Result<f64, Errno> {
    let nanoseconds = ask(None, || {
        unshare(CloneFlags::NEWIPC)?;
        let start = Instant::now();
        let fs = fsopen(c"mqueue", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&fs)?;
        let mount = fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let nanoseconds = elapsed(start);
        // Closing the mount takes a grace period, which must not be measured.
        drop(mount);
        Ok(nanoseconds)
    })?;
    Ok(f64::from(nanoseconds) / 1e3)
}

fn elapsed(start: Instant) -> u32 {
    start.elapsed().as_nanos().try_into().unwrap_or(u32::MAX)
}

fn spawn() -> Result<f64, Errno> {
    let mut program = Command::new("/bin/true");
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    whole(|| program.status().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

fn grace_period() -> Result<f64, Errno> {
    whole(|| membarrier(MembarrierCommand::Global))
}

/// Returns the duration of `work`.
fn whole<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<f64, Errno> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Compares the times of an operation with their limits.
fn judge(
    about: (&'static str, &'static str),
    times: Option<&Times>,
    most: f64,
    why: &str,
) -> Verdict {
    let Some(times) = times else {
        return Verdict::new(about, Note, "not measured", "refused here: requires root");
    };
    let level = if times.apart > most { Warning } else { Good };
    let verdict = Verdict::new(about, level, times.text(), why);
    figures(verdict, times).fix_if(level == Warning, "a newer kernel, or less load on this one")
}

fn figures(verdict: Verdict, times: &Times) -> Verdict {
    verdict
        .figure("apart_us", times.apart)
        .figure("in_a_row_us", times.in_a_row)
        .figure("rounds", times.rounds)
}

fn others(times: &[(&'static str, Times)]) -> Verdict {
    let about = ("measured.others", "other namespaces");
    let of = |name: &str| times.iter().find(|(other, _)| *other == name).map(|(_, times)| times);
    let known: Vec<(&str, &Times)> =
        QUICK.iter().filter_map(|(name, _)| Some((*name, of(name)?))).collect();
    if known.is_empty() {
        return judge(about, None, 0.0, "");
    }
    let list: Vec<String> =
        known.iter().map(|(name, times)| format!("{name} {:.0}", times.apart)).collect();
    let slow = known.iter().any(|(_, times)| times.apart > 2000.0);
    let level: Level = if slow { Warning } else { Good };
    let fact = format!("{} µs", list.join(", "));
    let verdict = Verdict::new(about, level, fact, "together less than a network namespace")
        .fix_if(slow, "a newer kernel, or less load on this one");
    known
        .iter()
        .fold(verdict, |verdict, (name, times)| verdict.figure(&format!("{name}_us"), times.apart))
}

/// Judges the time that it takes to move a process between two cgroups.
fn moved(
    facts: &Facts,
    layout: &Layout,
    times: Option<&Times>,
    refused: Option<&Error>,
) -> Verdict {
    let about = ("measured.move", "move between cgroups");
    let Some(times) = times else {
        let why = refused.map_or_else(|| "it was refused here".to_owned(), ToString::to_string);
        return Verdict::new(about, Note, "not measured", why);
    };
    let waits = times.apart > 1000.0 && times.apart > 3.0 * times.in_a_row;
    let favoured = State::of(facts, layout).is_on();
    let (level, why) = match (waits, layout.mode()) {
        (false, _) => (Good, "no wait for a grace period"),
        (true, Mode::V2) => (Note, "waits for a grace period; dayfly moves no process, others do"),
        (true, _) => (Note, "waits for a grace period; dayfly's starts don't"),
    };
    let fix = match layout.mode() {
        Mode::V2 => "dayfly host favordynmods on, for other runtimes",
        _ => "boot with cgroup_favordynmods=true",
    };
    figures(Verdict::new(about, level, times.text(), why), times).fix_if(waits && !favoured, fix)
}

/// Judges the two ways in which a single-threaded process can move itself on v1: through `cgroup.procs`, or through
/// `tasks`, as dayfly's init does.
fn moved_itself(process: &Times, thread: &Times) -> Verdict {
    let about = ("measured.thread_move", "move of a start, v1");
    let fact = format!("{:.0} µs apart, {:.0} by cgroup.procs", thread.apart, process.apart);
    let verdict = match thread.apart > 1000.0 && thread.apart * 2.0 > process.apart {
        false => {
            Verdict::new(about, Good, fact, "one thread, by tasks: no wait for a grace period")
        }
        true => Verdict::new(about, Warning, fact, "waits, which Linux 5.5 and newer should not")
            .fix("less load on this host"),
    };
    figures(verdict, thread)
        .figure("procs_apart_us", process.apart)
        .figure("procs_in_a_row_us", process.in_a_row)
}
