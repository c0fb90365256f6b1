//! `dayfly bench`: what it leaves on the host when it is interrupted, and when it is killed; its report.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Running};
use dayfly_tests::{cgroups, wait};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const CASES: &[Case] = &[
    case!(interrupted).needs(bench).unlike_runc(),
    case!(killed).needs(bench).unlike_runc(),
    case!(report_is_kept).needs(bench).unlike_runc(),
    case!(report_goes_on).needs(bench).unlike_runc(),
];

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

/// A report of these parts, by dayfly alone, in so many rounds.
fn report(bed: &Bed, parts: &str, rounds: &str) -> Call {
    let directory = bed.dir.join("report");
    let paths = [bed.runtime(), &directory].map(|path| path.to_str().expect("path"));
    let call = ["bench", "report", "--quick", "--only", parts, "--rounds", rounds];
    let call = bed.call_bare(&[&call[..], &["--runtime", paths[0], "--output", paths[1]]].concat());
    call.env("TMPDIR", bed.dir.to_str().expect("path")).within(Duration::from_secs(120))
}

fn kept(bed: &Bed, name: &str) -> PathBuf {
    bed.dir.join("report/parts").join(name)
}

/// What is done is on the page, in all three forms, and not done again.
fn report_is_kept(bed: &Bed) {
    let outcome = report(bed, "run-without-seccomp,spaced", "3").run().ok();
    let page = bed.dir.join("report");
    assert_eq!(outcome.stdout.trim(), page.join("index.html").display().to_string());
    let read = |name: &str| fs::read_to_string(page.join(name)).expect(name);
    let (html, markdown) = (read("index.html"), read("report.md"));
    let all: Value = serde_json::from_str(&read("report.json")).expect("JSON");
    let sections = all["sections"].as_array().expect("sections");
    for part in ["run-without-seccomp", "spaced"] {
        let section = sections.iter().find(|section| section["part"] == part).expect(part);
        assert!(section["state"]["done"].is_number(), "{section}");
        let measured = &section["lines"][0]["measured"][0]["value"];
        assert!(measured.as_f64().is_some_and(|ms| ms > 0.0), "{section}");
        let command = section["command"].as_str().expect("command");
        assert!(html.contains(command) && markdown.contains(command), "{command}");
        assert!(section["record"]["kernel"].is_string(), "{section}");
    }
    // Published beside measured, and the experiment's own: every start as a dot, and how they are distributed.
    let dots = read("spaced-2.svg");
    assert!(dots.contains("Each start") && dots.contains("distribution"), "{dots}");
    assert!(html.contains("</svg>") && html.ends_with("</html>\n"), "{html}");
    assert!(markdown.contains("259 ms") && markdown.contains("Not measured yet"), "{markdown}");

    let times = || {
        ["run-without-seccomp.json", "spaced.json"]
            .map(|name| fs::metadata(kept(bed, name)).and_then(|file| file.modified()).expect(name))
    };
    let before = times();
    let outcome = report(bed, "run-without-seccomp,spaced", "3").run().ok();
    assert_eq!(outcome.stderr.matches(": done before\n").count(), 2, "{outcome}");
    assert_eq!(times(), before);
    report(bed, "nothing", "3").run().fails_without_log("no part nothing: --list prints all");
}

/// A report that is ended, and even one that is killed, leaves nothing but what is done, and goes on from there.
fn report_goes_on(bed: &Bed) {
    report(bed, "run-without-seccomp", "3").run().ok();
    for signal in [Signal::TERM, Signal::KILL] {
        let running = report(bed, "spaced", "3000").spawn();
        let begun = || {
            let entries = fs::read_dir(&bed.dir).expect("bed").flatten();
            let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
            names.find(|name| name.starts_with("dayfly-bench-"))
        };
        wait::until_true("an experiment", || begun().is_some());
        let name = begun().expect("experiment");
        running.signal(signal);
        let outcome = running.wait();
        if signal == Signal::TERM {
            assert_eq!(outcome.code(), 1, "{outcome}");
            assert!(outcome.stderr.ends_with("dayfly-bench: interrupted\n"), "{outcome}");
        }
        wait::until_true("the end of all its processes", || processes(bed).is_empty());
        let is_its = |path: &String| path.split(['/', ' ']).any(|part| part == name);
        wait::until_true("nothing left", || !left(bed).iter().any(is_its));
        assert!(!kept(bed, "spaced.json").exists());
    }
    let outcome = report(bed, "run-without-seccomp,spaced", "3").run().ok();
    let [first, second] = ["run-without-seccomp: done before", "spaced: done in "];
    assert!(outcome.stderr.contains(first) && outcome.stderr.contains(second), "{outcome}");
    let entries = fs::read_dir(bed.dir.join("report/parts")).expect("parts").flatten();
    let names: BTreeSet<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let parts = ["run-without-seccomp", "spaced"];
    let expected = parts.iter().flat_map(|part| [format!("{part}.json"), format!("{part}.svg")]);
    assert_eq!(names, expected.collect());
}
