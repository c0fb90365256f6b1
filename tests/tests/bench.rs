//! `dayfly bench`: what it leaves on the host when it is interrupted, and when it is killed.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Running};
use dayfly_tests::{cgroups, wait};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub const CASES: &[Case] =
    &[case!(interrupted).needs(bench).unlike_runc(), case!(killed).needs(bench).unlike_runc()];

/// The program behind `dayfly bench`, which lies beside dayfly.
fn bench() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let beside = dayfly_tests::runner::runtime_path().with_file_name("dayfly-bench");
    if beside.exists() { Ok(()) } else { Err("dayfly-bench is not beside dayfly".to_owned()) }
}

/// Starts from layers that are attached on the host one by one, more than will come to an end.
fn layers(bed: &Bed) -> Call {
    let runtime = bed.runtime().to_str().expect("path");
    let call = bed.call_bare(&[
        "bench",
        "layers",
        "--runtime",
        runtime,
        "--layers",
        "30",
        "--modes",
        "per-layer",
        "--width",
        "6",
        "--count",
        "60",
        "--rounds",
        "500",
    ]);
    call.env("TMPDIR", bed.dir.to_str().expect("path"))
}

/// What experiments make, by their names: directories, cgroups, mounts in this namespace.
fn left(bed: &Bed) -> BTreeSet<String> {
    let mut tops = cgroups::hierarchies(bed.view);
    tops.extend([bed.dir.clone(), "/run".into(), "/dev/shm".into()]);
    let entries = tops.iter().flat_map(fs::read_dir).flatten().flatten();
    let paths = entries.map(|entry| entry.path().display().to_string());
    let mut left: BTreeSet<String> = paths.filter(|path| path.contains("/dayfly-bench-")).collect();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    left.extend(mounts.lines().filter(|line| line.contains("dayfly-bench-")).map(str::to_owned));
    left
}

/// Those of one experiment.
fn left_of(bed: &Bed, pid: i32) -> Vec<String> {
    let name = format!("dayfly-bench-{pid}");
    let of = |path: &String| path.split(['/', ' ']).any(|part| part == name);
    left(bed).into_iter().filter(of).collect()
}

/// The processes whose command line has the bed's directory, but for those of others.
fn processes(bed: &Bed) -> Vec<String> {
    let place = bed.dir.join("dayfly-bench-").display().to_string();
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.contains(&place)).collect()
}

/// Runs until containers are being made, and ends it by a signal.
fn end_by(bed: &Bed, signal: Signal) -> i32 {
    let running: Running = layers(bed).spawn();
    let pid = running.pid().as_raw_nonzero().get();
    let store = bed.dir.join(format!("dayfly-bench-{pid}/store/containers"));
    wait::until_true("containers", || fs::read_dir(&store).is_ok_and(|all| all.count() > 2));
    assert_eq!(mounts_below(&store), 0, "mounts in the host's table");
    running.signal(signal);
    let outcome = running.wait();
    assert!(!outcome.stderr.contains(" stays"), "{outcome}");
    pid
}

fn mounts_below(place: &Path) -> usize {
    let place = place.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    mounts.lines().filter(|line| line.contains(&place)).count()
}

/// The ranges of ids that are taken for containers of one experiment.
fn ranges(pid: i32) -> usize {
    let entries = fs::read_dir("/run/dayfly-ids").into_iter().flatten().flatten();
    let owners = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    owners.filter(|owner| owner.display().to_string().contains(&format!("-{pid}/"))).count()
}

fn interrupted(bed: &Bed) {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let pid = end_by(bed, signal);
        assert_eq!(left_of(bed, pid), Vec::<String>::new(), "{signal:?}");
        assert_eq!(ranges(pid), 0, "{signal:?}");
        wait::until_true("the end of all its processes", || processes(bed).is_empty());
    }
}

/// Mounts are in a namespace that goes with the processes; the rest is found by its name.
fn killed(bed: &Bed) {
    let pid = end_by(bed, Signal::KILL);
    wait::until_true("the end of all its processes", || processes(bed).is_empty());
    let found = left_of(bed, pid);
    assert!(!found.is_empty(), "nothing to clear");
    assert!(found.iter().all(|one| one.starts_with('/')), "a mount: {found:?}");
    // What the experiment hides from the host others may show it: mounts on each other, and of any name.
    let stand = bed.dir.join(format!("dayfly-bench-{pid}"));
    for place in [stand.join("with a space"), stand.join("with a space/below")] {
        fs::create_dir(&place).expect("mkdir");
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).expect("mount");
    }
    let gc = bed.call_bare(&["bench", "gc"]).env("TMPDIR", bed.dir.to_str().expect("path"));
    let outcome = gc.run().ok();
    let told = outcome.lines().into_iter().find(|line| line.contains(&format!("-{pid}: ")));
    assert!(told.is_some_and(|line| line.contains(" cgroups, 2 mounts and ")), "{outcome}");
    assert_eq!(left_of(bed, pid), Vec::<String>::new());
    bed.call_bare(&["gc"]).run().ok();
    assert_eq!(ranges(pid), 0);
}
