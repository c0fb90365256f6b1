//! `dayfly cgroup`: groups created, limited, moved, planned and removed in every view.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::cgroups;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Outcome, Running};
use dayfly_tests::view::View;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

pub const V1: &[View] = &[View::V1, View::Hybrid];
const HYBRID: &[View] = &[View::Hybrid];

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(made_and_removed).needs(tool),
    case!(processes).needs(tool),
    case!(killed_and_frozen).needs(tool),
    case!(watched).needs(tool),
    case!(made_by_libcgroup_s_line).needs(tool),
    case!(unknown_is_not_zero).on(V1).needs(tool),
    case!(unknown_is_not_zero_on_v2).on(&[View::V2]).needs(tool),
    case!(watched_until_told).needs(script),
    case!(watched_while_groups_go).needs(tool),
    case!(nobody_reads).needs(tool),
    case!(either_name).on(V1).needs(tool),
    case!(all_or_nothing).on(V1).needs(tool),
    case!(v2_controllers_of_a_hybrid_host).on(HYBRID).needs(tool),
    case!(get_in_the_grammar_of_set).on(V1).needs(tool),
    case!(refused).needs(tool),
];

/// Checks that the program that `dayfly cgroup` executes is in dayfly's directory.
pub fn tool() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    let runtime = dayfly_tests::runner::runtime_path();
    let beside = runtime.parent().map(|directory| directory.join("dayfly-host"));
    match beside.filter(|path| path.exists()) {
        Some(_) => Ok(()),
        None => Err("dayfly-host is not beside dayfly".to_owned()),
    }
}

/// A group that belongs to the case; dropping it removes the group with its descendants.
pub struct Own<'a> {
    bed: &'a Bed,
    /// The group's name.
    pub name: String,
}

impl<'a> Own<'a> {
    pub fn new(bed: &'a Bed) -> Self {
        let name = cgroups::path_of(&bed.id());
        Self { bed, name: name.trim_start_matches('/').to_owned() }
    }

    /// Returns the name of a child group.
    pub fn child(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    /// Returns the content of a file of the group or its child in a controller's hierarchy, without the final line
    /// break.
    pub fn read(&self, controller: &str, child: &str, file: &str) -> String {
        let path = self.directory(controller, child).join(file);
        let text = fs::read_to_string(&path);
        text.unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim_end().to_owned()
    }

    pub fn directory(&self, controller: &str, child: &str) -> PathBuf {
        cgroups::dir(self.bed.view, controller, &self.name).join(child)
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        let _ = self.bed.call_bare(&["cgroup", "rm", "-r", "--kill", &self.name]).run();
    }
}

pub fn cgroup(bed: &Bed, args: &[&str]) -> Outcome {
    bed.call_bare(&[&["cgroup"], args].concat()).run()
}

/// Starts a process that does nothing.
fn sleeper(bed: &Bed) -> Running {
    bed.program("sleep", &["60"]).spawn()
}

pub fn pid_of(running: &Running) -> String {
    running.pid().as_raw_nonzero().to_string()
}

fn membership(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("process")
}

fn made_and_removed(bed: &Bed) {
    let own = Own::new(bed);
    let (one, two) = (own.child("one"), own.child("one/two"));
    cgroup(bed, &["create", &one, &two]).ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(hierarchy.join(&two).is_dir(), "{}", hierarchy.display());
    }
    let names = cgroup(bed, &["ls", "--names", &own.name]).ok().stdout;
    assert_eq!(names.lines().collect::<Vec<_>>(), [own.name.as_str(), one.as_str(), two.as_str()]);
    let table = cgroup(bed, &["ls", &own.name]).ok().stdout;
    assert!(table.contains("\n  one ") && table.contains("\n    two "), "{table}");
    let json = cgroup(bed, &["ls", "--format", "json", &own.name]).ok().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json[2]["group"], two.as_str());
    cgroup(bed, &["rm", &one]).fails_without_log("has groups below it, such as");
    cgroup(bed, &["rm", "-r", &own.name]).ok();
    for hierarchy in cgroups::hierarchies(bed.view) {
        assert!(!hierarchy.join(&own.name).exists());
    }
    cgroup(bed, &["ls", &own.name]).fails_without_log("there is no group");
}

fn processes(bed: &Bed) {
    let own = Own::new(bed);
    let one = own.child("one");
    cgroup(bed, &["create", &one]).ok();
    let inside = cgroup(bed, &["exec", "-g", &one, "cat", "/proc/self/cgroup"]).ok().stdout;
    let count = |text: &str| text.matches(&format!(":/{one}\n")).count();
    assert_eq!(count(&inside), cgroups::hierarchies(bed.view).len(), "{inside}");
    cgroup(bed, &["exec", &one, "sh", "-c", "exit 7"]).exits(7);
    cgroup(bed, &["exec", "-g", &one, "/no/such/program"])
        .fails_without_log("exec /no/such/program");
    let sleeper = sleeper(bed);
    let pid = pid_of(&sleeper);
    cgroup(bed, &["classify", "--sticky", "-g", &one, &pid]).ok();
    assert_eq!(count(&membership(&pid)), cgroups::hierarchies(bed.view).len());
    cgroup(bed, &["classify", "-g", &one, "4000000"])
        .fails_without_log("there is no process 4000000");
    cgroup(bed, &["rm", &one]).fails_without_log("--move puts them into the parent");
    cgroup(bed, &["rm", "--move", &one]).ok();
    // On cgroup v2 the parent delegates controllers and accepts no processes itself.
    let parent = if bed.view.has_v1() { own.name.as_str() } else { "" };
    assert!(membership(&pid).contains(&format!(":/{parent}\n")));
    sleeper.signal(rustix::process::Signal::KILL);
    assert!(sleeper.wait().died_of_signal());
    cgroup(bed, &["rm", &own.name]).ok();
}

fn killed_and_frozen(bed: &Bed) {
    let own = Own::new(bed);
    let deep = own.child("a/b");
    cgroup(bed, &["create", &deep]).ok();
    let sleeper = sleeper(bed);
    cgroup(bed, &["classify", &deep, &pid_of(&sleeper)]).ok();
    cgroup(bed, &["freeze", &own.name, "no-such-group"]).fails_without_log("there is no group");
    let state = |key| cgroup(bed, &["get", "-nv", "-r", key, &own.name]).ok().stdout;
    assert_eq!(state("cgroup.freeze"), "0\n", "nothing is done by half");
    cgroup(bed, &["freeze", &own.name]).ok();
    assert_eq!((state("freezer.state"), state("cgroup.freeze")), ("FROZEN\n".into(), "1\n".into()));
    cgroup(bed, &["thaw", &own.name]).ok();
    assert_eq!(state("freezer.state"), "THAWED\n");
    cgroup(bed, &["kill", "--signal", "15", &own.child("a")]).ok();
    assert!(sleeper.wait().died_of_signal());
}

fn watched(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("one")]).ok();
    let csv = bed.dir.join("use.csv");
    let csv_text = csv.to_str().expect("path");
    cgroup(bed, &["record", "-n", "3", "-i", "20ms", "-o", csv_text, &own.name]).ok();
    let csv = fs::read_to_string(&csv).expect("CSV");
    assert_eq!(csv.lines().count(), 1 + 3 * 2, "{csv}");
    let columns = csv.lines().next().expect("heading").split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let table =
        cgroup(bed, &["top", "-n", "2", "-i", "20ms", "-s", "memory", &own.name]).ok().stdout;
    assert_eq!(table.matches("held back").count(), 2, "{table}");
    assert!(table.contains(&own.child("one")), "{table}");
}

/// libcgroup's command line with `-g` instead of a GROUP works on v1 and v2.
fn made_by_libcgroup_s_line(bed: &Bed) {
    let own = Own::new(bed);
    let (one, two) = (own.child("one"), own.child("two"));
    // On v2 a group has all controllers.
    let of = |controller: &str, group: &str| match bed.view {
        View::V2 => group.to_owned(),
        _ => format!("{controller}:{group}"),
    };
    let (cpu, memory) = (of("cpu", &one), of("memory", &two));
    cgroup(bed, &["create", "-t", "daemon:daemon", "-g", &cpu, "-g", &memory]).ok();
    for (controller, child) in [("cpu", "one"), ("memory", "two")] {
        let directory = own.directory(controller, child);
        let tasks = if bed.view == View::V2 { "cgroup.procs" } else { "tasks" };
        let owner = |file: &str| {
            let data = fs::metadata(directory.join(file)).expect("stat");
            (data.uid(), data.gid())
        };
        assert_eq!((owner("."), owner(tasks)), ((0, 0), (1, 1)), "{controller}");
    }
    let none = cgroup(bed, &["create", "-t", "daemon:daemon"]).exits(1);
    assert!(none.stderr.contains("<GROUP|-g <CONTROLLERS:GROUP>>"), "{none}");
    let wrong = cgroup(bed, &["create", "-g", "cpux:a"]).exits(1);
    assert!(wrong.stderr.contains("no mounted hierarchy has the controller \"cpux\""), "{wrong}");
}

/// Returns one row of the CSV that `record` prints for `group`, as a map from column names to values.
fn recorded(bed: &Bed, group: &str) -> BTreeMap<String, String> {
    let csv = cgroup(bed, &["record", "-n", "1", group]).ok().stdout;
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let heading = lines.next().expect("heading");
    heading.zip(lines.next().expect("a row")).collect()
}

/// If a group exists in one hierarchy only, the figures from other hierarchies are unknown, not zero.
fn unknown_is_not_zero(bed: &Bed) {
    let own = Own::new(bed);
    for (group, counted, not) in [
        ("memory", ["memory", "memory_peak"], ["cpu_ns", "read"]),
        ("pids", ["tasks", "tasks"], ["memory", "throttled"]),
        ("blkio", ["read", "written"], ["tasks", "throttled_ns"]),
    ] {
        let name = own.child(group);
        cgroup(bed, &["create", &format!("{group}:{name}")]).ok();
        let row = recorded(bed, &name);
        assert!(counted.iter().all(|column| row[*column].parse::<u64>().is_ok()), "{row:?}");
        assert!(not.iter().all(|column| row[*column].is_empty()), "{row:?}");
        let json = cgroup(bed, &["ls", "--format", "json", &name]).ok().stdout;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(counted.iter().all(|column| json[0][column].is_u64()), "{json}");
        assert!(not.iter().all(|column| json[0][column].is_null()), "{json}");
    }
    let name = own.child("memory");
    let table = cgroup(bed, &["top", "-n", "1", "-i", "20ms", &name]).ok().stdout;
    let row = table.lines().find(|line| line.starts_with(&name)).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[1], cells[2]), ("0", "-"), "{table}");
    assert_ne!(cells[4..], ["-", "-"], "{table}");
}

/// If a group's parent does not delegate the memory controller, its memory usage is unknown, not zero.
fn unknown_is_not_zero_on_v2(bed: &Bed) {
    let own = Own::new(bed);
    let name = own.child("one");
    cgroup(bed, &["create", &name]).ok();
    // If v1 has the memory controller, cgroup v2 lacks it from the start.
    let controllers = own.directory("memory", "").join("cgroup.controllers");
    if fs::read_to_string(controllers).expect("controllers").contains("memory") {
        assert!(recorded(bed, &name)["memory"].parse::<u64>().is_ok());
        let control = own.directory("memory", "").join("cgroup.subtree_control");
        fs::write(control, "-memory").expect("take memory away");
    }
    let has = recorded(bed, &name);
    assert!(has["memory"].is_empty() && has["memory_peak"].is_empty(), "{has:?}");
    assert!(has["cpu_ns"].parse::<u64>().is_ok(), "{has:?}");
}

fn script() -> Result<(), String> {
    tool()?;
    let there = std::path::Path::new("/usr/bin/script").exists();
    there.then_some(()).ok_or_else(|| "no script(1)".to_owned())
}

/// `top` on a terminal of 60 columns and 8 rows is ended by q and by an interrupt, and restores the terminal.
fn watched_until_told(bed: &Bed) {
    let own = Own::new(bed);
    let long = "a-name-that-is-longer-than-all-that-the-terminal-has-room-for-in-one-line";
    let groups: Vec<String> = (0..12).map(|n| own.child(&format!("{n}-{long}"))).collect();
    let create = [&["create"], &groups.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    cgroup(bed, &create).ok();
    let dayfly = bed.runtime().display();
    // Without the trap, some shells exit when their command is interrupted.
    let inside = format!(
        "trap : INT; stty rows 8 cols 60; stty -g; {dayfly} cgroup top -i 20ms {}; echo \"=$?\"; stty -g",
        own.name
    );
    for (end, rest) in [("q", ""), ("s", "; sleep 0.2; printf q"), ("\\003", "")] {
        // Presses the key only after the first output, and then waits for the end of `top`.
        let shown = bed.dir.join("typescript");
        let shown = shown.display();
        let seen = |what: &str| format!("until grep -qs '{what}' {shown}; do sleep 0.01; done");
        let keys = format!(
            "rm -f {shown}; ({}; printf '{end}'{rest}; {}) | script -qfec '{inside}' {shown}",
            seen("by CPU"),
            seen("^=")
        );
        let text = bed.program("sh", &["-c", &keys]).run().ok().stdout.replace('\r', "");
        let (before, shown) = text.split_once("\u{1b}[2J\u{1b}[?25l").expect("a cleared screen");
        let (shown, after) = shown.rsplit_once("\u{1b}[?25h\n").expect("the cursor is back");
        assert_eq!(after, format!("=0\n{before}"), "the terminal is as it was");
        let mut frames: Vec<&str> = shown.split("\u{1b}[H").skip(1).collect();
        assert!(!frames.is_empty(), "{text}");
        // An interrupt may arrive in the middle of a frame, so the last frame is not checked.
        if frames.len() > 1 {
            frames.pop();
        }
        for frame in frames {
            let lines: Vec<String> = frame
                .lines()
                .map(|line| line.replace("\u{1b}[K", "").replace("\u{1b}[J", ""))
                .collect();
            assert!(
                lines.len() == 8 && lines.iter().all(|line| line.chars().count() < 60),
                "{lines:?}"
            );
            assert!(lines[7].starts_with("by "), "{lines:?}");
        }
    }
}

fn watched_while_groups_go(bed: &Bed) {
    let own = Own::new(bed);
    let (one, two) = (own.child("one"), own.child("two"));
    cgroup(bed, &["create", &one, &two]).ok();
    let csv = bed.dir.join("use.csv");
    let file = csv.to_str().expect("path");
    let record = ["cgroup", "record", "-i", "20ms", "-o", file, &one, &two];
    let running = bed.call_bare(&record).spawn();
    let lines = || fs::read_to_string(&csv).unwrap_or_default().matches(&two).count();
    dayfly_tests::wait::until_true("a first look", || lines() > 1);
    cgroup(bed, &["rm", &one]).ok();
    let seen = lines();
    dayfly_tests::wait::until_true("looks at the other one", || lines() > seen + 2);
    running.signal(rustix::process::Signal::INT);
    running.wait().ok();
    let text = fs::read_to_string(&csv).expect("CSV");
    assert!(text.ends_with('\n') && !text.lines().last().expect("a line").contains(&one), "{text}");
}

/// A closed pipe and a full disk must not cause a panic.
fn nobody_reads(bed: &Bed) {
    let dayfly = bed.runtime().display();
    for command in ["ls", "get -a /", "snapshot", "top -n 1 -i 20ms", "record -n 2 -i 20ms"] {
        let call = |to: &str| {
            let line = format!("{{ {dayfly} cgroup {command}; echo \"=$?\" >&2; }} {to}");
            bed.program("sh", &["-c", &line]).run().stderr
        };
        let full = call(">/dev/full");
        assert!(
            full.contains("no space left on device") && full.ends_with("=1\n"),
            "{command}: {full}"
        );
        let closed = call("| true");
        assert!(["=0\n", "=141\n"].contains(&closed.as_str()), "{command}: {closed}");
    }
}

fn either_name(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.name]).ok();
    for (key, value, controller, file, held) in [
        ("memory.max", "64M", "memory", "memory.limit_in_bytes", "67108864"),
        ("memory.swap.max", "1M", "memory", "memory.memsw.limit_in_bytes", "68157440"),
        (
            "memory.memsw.limit_in_bytes",
            "-1",
            "memory",
            "memory.memsw.limit_in_bytes",
            "9223372036854771712",
        ),
        ("memory.low", "1M", "memory", "memory.soft_limit_in_bytes", "1048576"),
        ("cpu.weight", "100", "cpu", "cpu.shares", "1024"),
        ("cpu.shares", "512", "cpu", "cpu.shares", "512"),
        ("cpu.max", "25000 50000", "cpu", "cpu.cfs_quota_us", "25000"),
        ("cpu.max", "max", "cpu", "cpu.cfs_quota_us", "-1"),
        (
            "io.max",
            "254:0 rbps=1048576 wiops=7",
            "blkio",
            "blkio.throttle.read_bps_device",
            "254:0 1048576",
        ),
        ("io.max", "254:0 rbps=max", "blkio", "blkio.throttle.read_bps_device", ""),
        ("pids.max", "9", "pids", "pids.max", "9"),
        ("cpuset.cpus", "0", "cpuset", "cpuset.cpus", "0"),
        ("cgroup.freeze", "0", "freezer", "freezer.state", "THAWED"),
    ] {
        cgroup(bed, &["set", "-r", &format!("{key}={value}"), &own.name]).ok();
        assert_eq!(own.read(controller, "", file), held, "{key}={value}");
    }
    let keys =
        ["-r", "memory.max", "-r", "cpu.weight", "-r", "io.max", "-r", "cpuset.cpus.effective"];
    let values = cgroup(bed, &[&["get", "-nv"], &keys[..], &[&own.name]].concat()).ok().stdout;
    assert_eq!(values, "67108864\n59\n254:0 wiops=7\n0\n");
}

fn all_or_nothing(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.child("a"), &own.child("b")]).ok();
    let set = |settings: &[&str]| {
        let mut args = vec!["set"];
        settings.iter().for_each(|setting| args.extend(["-r", setting]));
        let (a, b) = (own.child("a"), own.child("b"));
        args.extend([a.as_str(), b.as_str()]);
        cgroup(bed, &args)
    };
    // The kernel refuses a memory limit above that of memory and swap together. pids.max is written before, and must be
    // restored.
    set(&["memory.limit_in_bytes=64M", "memory.memsw.limit_in_bytes=64M"]).ok();
    set(&["pids.max=7", "memory.limit_in_bytes=128M"]).fails_without_log("memory.limit_in_bytes");
    for group in ["a", "b"] {
        assert_eq!(own.read("pids", group, "pids.max"), "max");
        assert_eq!(own.read("memory", group, "memory.limit_in_bytes"), "67108864");
    }
    // In one command the order does not matter.
    set(&["memory.limit_in_bytes=128M", "memory.memsw.limit_in_bytes=256M"]).ok();
    assert_eq!(own.read("memory", "b", "memory.limit_in_bytes"), "134217728");
    // The kernel does not let a child exceed its parent, so the parent's value is written first, whatever the order in
    // the source.
    cgroup(bed, &["set", "--copy-from", &own.child("a"), &own.child("b")]).ok();
}

fn v2_controllers_of_a_hybrid_host(bed: &Bed) {
    let own = Own::new(bed);
    let controllers = fs::read_to_string("/sys/fs/cgroup/unified/cgroup.controllers").expect("v2");
    if !controllers.contains("hugetlb") {
        return;
    }
    cgroup(bed, &["create", &own.child("a")]).ok();
    cgroup(bed, &["set", "-r", "hugetlb.2MB.limit_in_bytes=4M", &own.child("a")]).ok();
    let value = cgroup(bed, &["get", "-nv", "-r", "hugetlb.2MB.max", &own.child("a")]).ok().stdout;
    assert_eq!(value, "4194304\n");
}

/// The names of files follow the group, as in `set`. An argument that has the form of a file's name is a group if it
/// comes first, or if there is a group of that name.
fn get_in_the_grammar_of_set(bed: &Bed) {
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.name]).ok();
    cgroup(bed, &["set", &own.name, "pids.max=50"]).ok();
    let shown = cgroup(bed, &["get", &own.name, "pids.max"]).ok().stdout;
    assert_eq!(shown, format!("{}:\npids.max: 50\n\n", own.name));
    let as_option = cgroup(bed, &["get", "-r", "pids.max", &own.name]).ok().stdout;
    assert_eq!(shown, as_option);
    let text = "no controller has a file \"pids.mxa\"; did you mean pids.max?";
    cgroup(bed, &["get", &own.name, "pids.mxa"]).fails_without_log(text);
    cgroup(bed, &["get", "pids.peak"]).fails_without_log("there is no group \"pids.peak\"");
    // An argument that has the form of a file's name is a group if there is a group of that name.
    let odd = Own { bed, name: format!("pids.{}", bed.id()) };
    let get = || cgroup(bed, &["get", "-r", "pids.max", &own.name, &odd.name]);
    get().fails_without_log("no controller has a file");
    cgroup(bed, &["create", &odd.name]).ok();
    assert_eq!(get().ok().stdout, format!("{shown}{}:\npids.max: max\n\n", odd.name));
    let outcome = cgroup(bed, &["get", &own.name, "other"]);
    let outcome = outcome.fails_without_log("there is no group \"other\"");
    assert_eq!(outcome.stdout, "", "told before any value");
    let text = "there is no group and no file \"memry.max\"; did you mean memory.max?";
    cgroup(bed, &["get", &own.name, "memry.max"]).fails_without_log(text);
}

fn refused(bed: &Bed) {
    cgroup(bed, &["create", "../x"]).exits(1);
    cgroup(bed, &["create", "bogus:x"])
        .fails_without_log("no mounted hierarchy has the controller \"bogus\"");
    cgroup(bed, &["rm", "/"]).fails_without_log("the root");
    cgroup(bed, &["get", "-r", "nonsense.key", "/"]).fails_without_log("no controller has a file");
    cgroup(bed, &["apply", "/no/such/plan.toml"]).fails_without_log("open /no/such/plan.toml");
    cgroup(bed, &["set", "-r", "novalue", "x"]).exits(1);
    let own = Own::new(bed);
    cgroup(bed, &["create", &own.name]).ok();
    let set = |setting: &str| cgroup(bed, &["set", "-r", setting, &own.name]);
    if bed.view.has_v1() {
        set("memory.max=").fails_without_log("memory.max: \"\" is not a size");
        set("cpu.weight=50000").fails_without_log("cpu.weight: from 1 to 10000, not 50000");
        cgroup(bed, &["classify", "-g", &own.name, "2"]).fails_without_log("threads of the kernel");
    }
}
