//! `dayfly bench`: what interrupted and killed experiments leave behind on the host, and the report.

pub mod templates;

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Running};
use dayfly_tests::view::View;
use dayfly_tests::{cgroups, wait};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(interrupted).needs(bench).unlike_runc(),
    // This case runs alone, because any other experiment that starts meanwhile would clean up after the killed one.
    case!(killed).needs(bench).unlike_runc().alone(),
    case!(functions_interrupted).needs(bench).unlike_runc(),
    case!(functions_killed).needs(bench).unlike_runc().alone(),
    case!(flame_sees_the_kernel).needs(perf).unlike_runc().alone(),
    case!(groups_are_given_cpus).needs(bench_and_cgroup).unlike_runc().alone().on(&[View::V1]),
    case!(groups_need_controllers).needs(no_controllers).unlike_runc().on(&[View::V2]),
    case!(report_is_kept).needs(bench).unlike_runc(),
    case!(report_goes_on).needs(bench).unlike_runc().alone(),
    case!(lookups_are_timed).needs(bench).unlike_runc(),
    case!(lengths_of_the_mount_table).needs(bench).unlike_runc(),
    case!(learned_profiles_are_timed).needs(bench).unlike_runc(),
    case!(restores_are_timed).needs(bench_and_criu).unlike_runc(),
];

/// Checks that the program that `dayfly bench` executes is in dayfly's directory.
fn bench() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    beside("dayfly-bench")
}

fn beside(program: &str) -> Result<(), String> {
    let place = dayfly_tests::runner::runtime_path().with_file_name(program);
    if place.exists() { Ok(()) } else { Err(format!("{program} is not beside dayfly")) }
}

fn bench_and_cgroup() -> Result<(), String> {
    bench()?;
    beside("dayfly-host")
}

fn bench_and_criu() -> Result<(), String> {
    bench()?;
    criu::lacking()?;
    match Path::new("/usr/bin/python3").exists() {
        true => Ok(()),
        false => Err("no /usr/bin/python3".to_owned()),
    }
}

/// Checks that cgroup v2 lacks controllers, as in the v2 view of a hybrid host, where they belong to v1.
fn no_controllers() -> Result<(), String> {
    bench()?;
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match all.split_whitespace().any(|name| name == "cpu") {
        true => Err("cgroup2 has the cpu controller here".to_owned()),
        false => Ok(()),
    }
}

fn perf() -> Result<(), String> {
    bench()?;
    match std::process::Command::new("perf").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("perf: {error}")),
    }
}

/// Returns the call of an experiment that starts containers from layers, which are attached on the host one by one. The
/// experiment has too many rounds to finish during the test.
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
    call.env("TMPDIR", bed.dir.to_str().expect("path")).as_group()
}

/// Returns the remains of experiments, found by name: directories, cgroups, and mounts in this
/// namespace.
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

/// Returns the remains of the experiment with this pid.
fn left_of(bed: &Bed, pid: i32) -> Vec<String> {
    let name = format!("dayfly-bench-{pid}");
    let of = |path: &String| path.split(['/', ' ']).any(|part| part == name);
    left(bed).into_iter().filter(of).collect()
}

/// Returns the processes of the experiment `group`: those with the bed's directory in their command line, and those in
/// its process group. The process group is checked as well, because a child shows its parent's command line until it
/// calls execve(2).
fn processes(bed: &Bed, group: i32) -> Vec<String> {
    let place = bed.dir.join("dayfly-bench-").display().to_string();
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let read = |path: &Path, name| fs::read_to_string(path.join(name)).unwrap_or_default();
    let is_in_group = |path: &Path| {
        // The name may contain parentheses. It is followed by the state, the parent and the process group.
        let stat = read(path, "stat");
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        after.split_whitespace().nth(2) == Some(group.to_string().as_str())
    };
    let found = entries.map(|entry| entry.path()).filter_map(|path| {
        let line = read(&path, "cmdline").replace('\0', " ");
        (line.contains(&place) || is_in_group(&path)).then(|| format!("{}: {line}", path.display()))
    });
    found.collect()
}

/// Starts an experiment, and sends it a signal as soon as it makes containers. Returns its pid.
fn end_by(bed: &Bed, signal: Signal) -> i32 {
    let running: Running = layers(bed).spawn();
    let pid = running.pid().as_raw_nonzero().get();
    // Mount points are in memory: in /run, or if that is on a disk, in /dev/shm.
    let store = format!("dayfly-bench-{pid}/store/containers");
    let stores = ["/run", "/dev/shm"].map(|place| Path::new(place).join(&store));
    let has_some = |store: &PathBuf| fs::read_dir(store).is_ok_and(|all| all.count() > 2);
    wait::until_true("containers", || stores.iter().any(has_some));
    assert_eq!(mounts_below(Path::new(&store)), 0, "mounts in the host's table");
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

/// Returns the number of id ranges leased for containers of one experiment.
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
        wait::until_true("the end of all its processes", || processes(bed, pid).is_empty());
    }
}

/// After SIGKILL, mounts disappear with the mount namespace of the experiment's processes; `bench gc` finds and removes
/// the rest by name.
fn killed(bed: &Bed) {
    let pid = end_by(bed, Signal::KILL);
    wait::until_true("the end of all its processes", || processes(bed, pid).is_empty());
    let found = left_of(bed, pid);
    assert!(!found.is_empty(), "nothing to clear");
    assert!(found.iter().all(|one| one.starts_with('/')), "a mount: {found:?}");
    // The mounts in the experiment's own namespaces are not visible here, but other namespaces may contain copies of
    // them. This case imitates such copies, stacked and with a space in their path.
    let stand = bed.dir.join(format!("dayfly-bench-{pid}"));
    for place in [stand.join("with a space"), stand.join("with a space/below")] {
        fs::create_dir(&place).expect("mkdir");
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).expect("mount");
    }
    let gc = bed.call_bare(&["bench", "gc"]).env("TMPDIR", bed.dir.to_str().expect("path"));
    let outcome = gc.run().ok();
    let told = outcome.lines().into_iter().find(|line| line.contains(&format!("-{pid}: ")));
    assert!(
        told.is_some_and(|line| line.contains(" cgroup") && line.contains(", 2 mounts and ")),
        "{outcome}"
    );
    assert_eq!(left_of(bed, pid), Vec::<String>::new());
    bed.call_bare(&["gc"]).run().ok();
    assert_eq!(ranges(pid), 0);
}

/// A flame graph contains the kernel's functions, and the experiment leaves nothing behind.
fn flame_sees_the_kernel(bed: &Bed) {
    let picture = bed.dir.join("flame.svg");
    let paths = [bed.runtime(), &picture].map(|path| path.to_str().expect("path"));
    let [runtime, svg] = paths;
    let line =
        ["bench", "flame", "--count", "240", "--runtime", runtime, "--svg", svg, "--csv", "-"];
    let call = bed.call_bare(&line).env("TMPDIR", bed.dir.to_str().expect("path"));
    let outcome = call.within(Duration::from_secs(120)).run().ok();
    let stacks: Vec<&str> = outcome.lines();
    assert_eq!(stacks[0], "runtime,stack,samples");
    for function in ["do_syscall_64", "clone", "page_fault"] {
        assert!(stacks.iter().any(|line| line.contains(function)), "{function}: {outcome}");
    }
    assert!(!stacks.iter().any(|line| line.contains(",dayfly-bench;")), "{outcome}");
    let picture = fs::read_to_string(picture).expect("picture");
    assert!(picture.contains("240 containers, 16 in flight"));
    assert!(left(bed).iter().all(|path| !path.contains(&bed.dir.display().to_string())));
}

/// The throughput of instances depends on the CPUs of their groups, and the groups are removed
/// afterwards.
fn groups_are_given_cpus(bed: &Bed) {
    let temporary = bed.dir.to_str().expect("path");
    let line =
        ["bench", "groups", "--use", "scaling,rogue", "--phase", "1s", "--memory", "8", "--json"];
    let call = bed.call_bare(&line).env("TMPDIR", temporary).within(Duration::from_secs(120));
    let outcome = call.run().ok();
    let shown: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let rows = shown["rows"].as_array().expect("rows");
    let rate = |of: &str, place: usize, instance: &str| {
        let mut rows = rows.iter().filter(|row| row["use"] == of && row["instance"] == instance);
        let rates = rows.nth(place).expect("state")["rates"].as_array().expect("rates").clone();
        let sum: f64 = rates.iter().map(|rate| rate.as_f64().expect("rate")).sum();
        // A throttled instance may have no whole interval in the second.
        sum / rates.len().max(1) as f64
    };
    let (quarter, whole) = (rate("scaling", 0, "instance"), rate("scaling", 3, "instance"));
    assert!(quarter > 0.0 && whole > quarter * 1.5, "{quarter} on a quarter, {whole} on all");
    let (free, limited) = (rate("rogue", 0, "rogue"), rate("rogue", 1, "rogue"));
    assert!(limited < free, "{free} free, {limited} limited");
    let left = left(bed);
    assert!(left.iter().all(|path| !path.contains(temporary)), "{left:?}");
}

/// On a host without controllers, the error names the missing controllers and a remedy.
fn groups_need_controllers(bed: &Bed) {
    let outcome = bed.call_bare(&["bench", "groups", "--view", "v2"]).run().exits(1);
    assert!(outcome.stderr.contains("there is no controller cpu for groups here"), "{outcome}");
}

/// Returns the call of a replay that takes longer than any test. Some of its containers serve, some are idle, and some
/// end.
fn functions(bed: &Bed) -> Call {
    let runtime = bed.runtime().to_str().expect("path");
    let words = ["bench", "faas", "--runtime", runtime, "--policy", "histogram", "--keep", "2s"];
    let more = ["--function", "40ms/200ms", "--function", "700ms/10ms", "--duration", "600s"];
    let call = bed.call_bare(&[&words[..], &more].concat());
    call.env("TMPDIR", bed.dir.to_str().expect("path")).as_group()
}

/// Sends a signal to a replay that has containers; returns the replay's pid and standard error.
fn end_functions_by(bed: &Bed, signal: Signal) -> (i32, String) {
    let running: Running = functions(bed).spawn();
    let pid = running.pid().as_raw_nonzero().get();
    wait::until_true("containers", || in_cgroups(pid) >= 4);
    running.signal(signal);
    (pid, running.wait().stderr)
}

/// Returns the number of processes in the cgroups of one experiment.
fn in_cgroups(pid: i32) -> usize {
    let name = format!("/dayfly-bench-{pid}/");
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cgroup")).ok());
    texts.filter(|text| text.contains(&name)).count()
}

/// After an interrupt no container is left, whether it was serving, idle, starting or ending.
fn functions_interrupted(bed: &Bed) {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let (pid, stderr) = end_functions_by(bed, signal);
        // The experiment may first have cleaned up after another test's experiment.
        let own = stderr.lines().filter(|line| !line.contains("an experiment was killed: "));
        assert_eq!(own.collect::<Vec<_>>(), ["error: interrupted"], "{signal:?}");
        assert_eq!(left_of(bed, pid), Vec::<String>::new(), "{signal:?}");
        assert_eq!(in_cgroups(pid), 0, "{signal:?}");
        wait::until_true("the end of all its processes", || processes(bed, pid).is_empty());
    }
}

/// After SIGKILL of the replay, its containers exit by themselves, because no more invocations
/// arrive. `bench gc` finds the remains of the replay by name, and removes them.
fn functions_killed(bed: &Bed) {
    let (pid, _) = end_functions_by(bed, Signal::KILL);
    wait::until_true("the end of all containers", || in_cgroups(pid) == 0);
    wait::until_true("the end of all its processes", || processes(bed, pid).is_empty());
    assert!(!left_of(bed, pid).is_empty(), "nothing to clear");
    let gc = bed.call_bare(&["bench", "gc"]).env("TMPDIR", bed.dir.to_str().expect("path"));
    let outcome = gc.run().ok();
    assert!(outcome.stdout.contains(&format!("-{pid}: ")), "{outcome}");
    assert_eq!(left_of(bed, pid), Vec::<String>::new());
}

/// Returns the call that writes a report with these parts in `rounds` rounds, with dayfly as the only runtime.
fn report(bed: &Bed, parts: &str, rounds: &str) -> Call {
    let directory = bed.dir.join("report");
    let paths = [bed.runtime(), &directory].map(|path| path.to_str().expect("path"));
    let call = ["bench", "report", "--quick", "--only", parts, "--rounds", rounds];
    let call = bed.call_bare(&[&call[..], &["--runtime", paths[0], "--output", paths[1]]].concat());
    let call = call.env("TMPDIR", bed.dir.to_str().expect("path")).as_group();
    call.within(Duration::from_secs(120))
}

fn kept(bed: &Bed, name: &str) -> PathBuf {
    bed.dir.join("report/parts").join(name)
}

/// A finished part appears on the page, in all three formats, and the next report does not run it again.
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
    // The page shows the published and the measured figures, and a verdict on them.
    let bars = read("spaced-1.svg");
    assert!(bars.contains("spaced: published, and here"), "{bars}");
    assert!(markdown.contains("**Not to be shown here**: it was not measured."), "{markdown}");
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

/// An interrupted or killed report keeps its finished parts, and the next report continues from there.
fn report_goes_on(bed: &Bed) {
    report(bed, "run-without-seccomp", "3").run().ok();
    for signal in [Signal::TERM, Signal::KILL] {
        let running = report(bed, "spaced", "3000").spawn();
        let pid = running.pid().as_raw_nonzero().get();
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
            assert!(outcome.stderr.ends_with("error: interrupted\n"), "{outcome}");
        }
        wait::until_true("the end of all its processes", || processes(bed, pid).is_empty());
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

/// Returns the JSON output of `bench`.
fn measured(bed: &Bed, words: &[&str]) -> Value {
    let call = bed.call_bare(&[&["bench"][..], words, &["--json"]].concat());
    let call = call.env("TMPDIR", bed.dir.to_str().expect("path"));
    let outcome = call.within(Duration::from_secs(120)).run().ok();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// dayfly's own table is always timed; libseccomp's is timed if the program that queries it was built.
fn lookups_are_timed(bed: &Bed) {
    let result = measured(bed, &["lookups", "--count", "2", "--rounds", "2"]);
    let rows = result["rows"].as_array().expect("rows");
    for row in rows {
        assert_eq!(row["wall_s"].as_array().map(Vec::len), Some(2), "{row}");
        assert!(row["names"].as_u64().is_some_and(|names| names > 300), "{row}");
    }
    let ways: BTreeSet<&str> = rows.iter().filter_map(|row| row["by"].as_str()).collect();
    assert!(ways.contains("dayfly") && ways.contains("one name after the other"), "{ways:?}");
    let asked = dayfly_tests::runner::runtime_path().with_file_name("dayfly-libseccomp").exists();
    assert_eq!(ways.iter().any(|way| way.starts_with("libseccomp ")), asked, "{ways:?}");
    assert_eq!(result["failures"].as_array().map(Vec::len), Some(usize::from(!asked)));
}

/// Each length of the mount table has one row, with as many rounds as asked for. A table cannot be
/// made shorter, so all requested lengths below the table's present length share one row.
fn lengths_of_the_mount_table(bed: &Bed) {
    let runtime = bed.runtime().to_str().expect("path");
    let long = fs::read_to_string("/proc/self/mountinfo").expect("mounts").lines().count() + 100;
    let lengths = format!("1,2,{long}");
    let words = ["mounts", "--runtime", runtime, "--mounts", &lengths, "--rounds", "7"];
    let result = measured(bed, &words);
    let rows = result["rows"].as_array().expect("rows");
    let steps: Vec<_> = rows.iter().map(|row| row["step"].as_str().expect("step")).collect();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!(steps[1], format!("run, {long} mounts"));
    for row in rows {
        assert_eq!(row["rounds_us"].as_array().map(Vec::len), Some(7), "{row}");
    }
}

fn learned_profiles_are_timed(bed: &Bed) {
    let runtime = bed.runtime().to_str().expect("path");
    let words =
        ["learned", "--runtime", runtime, "--rounds", "1", "--warm-up", "0", "--pause", "0"];
    let result = measured(bed, &words);
    assert_eq!(result["failures"], Value::Array(Vec::new()), "{result:#}");
    let steps: Vec<_> =
        result["rows"].as_array().expect("rows").iter().map(|row| &row["step"]).collect();
    assert_eq!(steps, ["run", "run with the learned profile", "run without seccomp"]);
    let instructions = |profile: usize| result["profiles"][profile]["instructions"].as_u64();
    assert!(instructions(1) < instructions(0), "{}", result["profiles"]);
    let left = fs::read_dir(&bed.dir).expect("list").flatten();
    let names = left.map(|entry| entry.file_name().to_string_lossy().into_owned());
    assert_eq!(names.filter(|name| name.starts_with("dayfly-profile-")).count(), 0);
}

fn restores_are_timed(bed: &Bed) {
    let (runtime, criu) = (bed.runtime().to_str().expect("path"), criu::program());
    let words = ["restore", "--runtime", runtime, "--criu", &criu, "--programs", "python"];
    let rounds = ["--rounds", "2", "--warm-up", "0"];
    let mapped = measured(bed, &[&words[..], &rounds, &["--profile", "userns"]].concat());
    assert_eq!(mapped["failures"], Value::Array(Vec::new()), "{mapped:#}");
    let result = measured(bed, &[&words[..], &rounds].concat());
    assert_eq!(result["failures"], Value::Array(Vec::new()), "{result:#}");
    let steps: Vec<_> =
        result["rows"].as_array().expect("rows").iter().map(|row| &row["step"]).collect();
    let expected = [
        "Python, started until ready",
        "Python, restored with all memory until ready",
        "Python, restored until ready",
        "Python, a shell instead",
    ];
    assert_eq!(steps, expected);
    let of_criu = &result["criu"][0];
    assert!(of_criu["criu_us"].as_f64() < of_criu["ready_us"].as_f64(), "{of_criu}");
    assert!(of_criu["pages"].as_f64() > Some(100.0), "{of_criu}");
    assert!(result["pays"][0]["from_ms"].as_f64() > Some(1.0), "{}", result["pays"]);
}
