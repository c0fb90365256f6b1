//! `dayfly host`, and the effects of its advice. Commands that would change this host are tested in the guest
//! (scripts/bed guest-favordynmods).

pub mod score;

use dayfly_tests::bed::Bed;
use dayfly_tests::cache::CACHE;
use dayfly_tests::case;
use dayfly_tests::kernel;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

dayfly_tests::subject!(Lab, CASES);

const CASES: &[Case] = &[
    case!(check_shows_everything).needs(tool).unlike_runc().alone(),
    case!(check_as_json).needs(tool).unlike_runc().alone(),
    case!(check_of_another_host).needs(tool).unlike_runc(),
    case!(check_of_no_host).needs(tool).unlike_runc(),
    case!(check_leaves_nothing).needs(tool).unlike_runc().alone(),
    case!(topology_as_numactl_tells_it).needs(numactl).unlike_runc(),
    case!(topology_as_json).needs(tool).unlike_runc(),
    case!(topology_of_no_host).needs(tool).unlike_runc(),
    case!(favordynmods_status).needs(tool).unlike_runc(),
    case!(favordynmods_is_not_for_a_while).needs(favordynmods_stays).unlike_runc(),
    case!(locks_short).needs(tool).unlike_runc().alone(),
    case!(locks_bad_input).needs(tool).unlike_runc(),
    case!(start_cpus_are_left_again).needs(two_cpus).unlike_runc(),
    case!(start_cpus_are_not_the_hooks).needs(two_cpus).unlike_runc(),
    case!(start_cpus_outside_of_the_cpuset).needs(cpuset).unlike_runc(),
    case!(start_cpus_that_are_none).unlike_runc(),
];

/// Checks that the program that `dayfly host` executes is in dayfly's directory.
pub fn tool() -> Result<(), String> {
    let runtime = std::env::var("DAYFLY").unwrap_or_else(|_| "target/release/dayfly".to_owned());
    let tool = Path::new(&runtime).with_file_name("dayfly-host");
    let missing = || format!("no {}: cargo build -p dayfly-host", tool.display());
    tool.exists().then_some(()).ok_or_else(missing)
}

/// Checks that favordynmods can't be turned off again on this kernel: dayfly then does not turn it on.
fn favordynmods_stays() -> Result<(), String> {
    tool()?;
    match kernel::version() {
        found if found >= (6, 18) => Ok(()),
        (major, minor) => Err(format!("Linux {major}.{minor} would turn favordynmods on")),
    }
}

/// Checks for numactl(8), which lists the memory nodes that the process may use.
fn numactl() -> Result<(), String> {
    tool()?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&paths).any(|path| path.join("numactl").exists()) {
        return Err("numactl is not installed".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    let all = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    match allowed.map(str::trim) == Some(all.trim()) {
        true => Ok(()),
        false => Err("this process may not use every memory node".to_owned()),
    }
}

fn two_cpus() -> Result<(), String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (cpus > 1).then_some(()).ok_or_else(|| "one CPU".to_owned())
}

fn cpuset() -> Result<(), String> {
    two_cpus()?;
    let v2 = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let there = Path::new("/sys/fs/cgroup/cpuset/cpuset.cpus").exists()
        || v2.split_whitespace().any(|name| name == "cpuset");
    there.then_some(()).ok_or_else(|| "no cpuset controller".to_owned())
}

fn check(bed: &Bed, arguments: &[&str]) -> (i32, String) {
    let outcome = bed.call_bare(&[&["host", "check"][..], arguments].concat()).run();
    assert_eq!(outcome.stderr, "", "{outcome}");
    (outcome.code(), outcome.stdout)
}

fn json(bed: &Bed, arguments: &[&str]) -> Value {
    let (_, text) = check(bed, &[&["--format", "json"][..], arguments].concat());
    serde_json::from_str(&text).expect("JSON")
}

fn all(report: &Value) -> Vec<Value> {
    let sections = report["sections"].as_array().expect("sections");
    sections.iter().flat_map(|it| it["verdicts"].as_array().expect("verdicts").clone()).collect()
}

fn check_shows_everything(bed: &Bed) {
    let (code, text) = check(bed, &[]);
    for title in ["kernel", "cgroups", "mounts", "machine", "settings", "limits", "measured here"] {
        assert!(text.lines().any(|line| line == title), "{title}: {text}");
    }
    for name in [
        "way into the cgroup",
        "layers of an image",
        "id-mapped mounts",
        "shield of the runtime",
        "identity of a process",
        "end of a cgroup",
        "statmount",
        "cgroup mode",
        "favordynmods",
        "mount table",
        "layers × containers",
        "containerd",
        "memory nodes",
        "hardware threads",
        "level 3 caches",
        "RCU",
        "seccomp JIT",
        "security modules",
        "ranges of ids",
        "processes",
        "inotify",
        "network namespace",
        "IPC namespace",
        "mount of mqueue",
        "fork and exec",
        "move between cgroups",
    ] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 132), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains("as they should be") && last.ends_with("broken"), "{last}");
    // The exit status is 1 if something can be improved, which is always so unless the cgroups are v2 only. It is never
    // 2 (something is broken) on a machine that runs the suite.
    let improvable = text.lines().any(|line| line.starts_with(" ! "));
    assert_eq!(code, i32::from(improvable), "{text}");
}

fn check_as_json(bed: &Bed) {
    let report = json(bed, &[]);
    let verdicts = all(&report);
    let ids: BTreeSet<&str> = verdicts.iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(ids.len(), verdicts.len(), "an id twice");
    for verdict in &verdicts {
        let level = verdict["level"].as_str().expect("level");
        assert!(["good", "note", "warning", "error"].contains(&level), "{verdict}");
        for text in ["name", "fact", "why"] {
            assert!(!verdict[text].as_str().expect(text).is_empty(), "{verdict}");
        }
        // Every improvement comes with instructions.
        let advised = !verdict["fix"].as_array().expect("fix").is_empty();
        assert!(advised || !["warning", "error"].contains(&level), "{verdict}");
    }
    let of = |id: &str| verdicts.iter().find(|it| it["id"] == id).expect("a verdict");
    for id in ["net", "ipc", "mqueue", "mnt", "spawn", "move"] {
        let data = &of(&format!("measured.{id}"))["data"];
        for figure in ["apart_us", "in_a_row_us"] {
            assert!(data[figure].as_f64().is_some_and(|time| time > 0.0), "{id}: {data}");
        }
        assert!(data["rounds"].as_u64().is_some_and(|rounds| rounds > 5), "{id}: {data}");
    }
    // The check measures how long a start takes to enter its cgroup on v1 through `tasks`, and how long it would take
    // through `cgroup.procs`.
    let own = verdicts.iter().find(|it| it["id"] == "measured.thread_move");
    assert_eq!(own.is_some(), bed.view.has_v1());
    for figure in ["apart_us", "procs_apart_us"] {
        let figure = own.map(|own| own["data"][figure].as_f64());
        assert!(figure.is_none_or(|time| time.is_some_and(|time| time > 0.0)), "{own:?}");
    }
    assert_eq!(of("cgroup.mode")["data"]["mode"], bed.view.name());
}

fn check_of_another_host(bed: &Bed) {
    let root = bed.dir.join("sysroot");
    for (file, text) in [
        ("proc/sys/kernel/osrelease", "5.10.0\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("proc/sys/user/max_net_namespaces", "0\n"),
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("parent")).expect("make");
        fs::write(path, text).expect("write");
    }
    let root = root.to_str().expect("path");
    let (code, text) = check(bed, &["--sysroot", root]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("too old: dayfly cannot start containers here"), "{text}");
    assert!(!text.contains("measured here"), "{text}");
    let report = json(bed, &["--sysroot", root]);
    assert_eq!((&report["verdict"], &report["release"]), (&json!("error"), &json!("5.10.0")));
}

fn check_of_no_host(bed: &Bed) {
    for (arguments, status, text) in [
        (&["--sysroot", "/nowhere"][..], 2, "open /nowhere: no such file or directory"),
        (&["--sysroot", "/dev"], 2, "/dev/proc/sys/kernel/osrelease: no such file"),
        (&["--format", "yaml"], 1, "invalid value 'yaml'"),
        (&["now"], 1, "unexpected argument"),
    ] {
        let call = bed.call_bare(&[&["host", "check"][..], arguments].concat());
        let outcome = call.run().exits(status);
        assert!(outcome.stderr.contains(text) && outcome.stdout.is_empty(), "{outcome}");
    }
    let outcome = bed.call_bare(&["host", "cheque"]).run().exits(1);
    assert!(outcome.stderr.contains("unrecognized subcommand"), "{outcome}");
}

fn check_leaves_nothing(bed: &Bed) {
    // Other runtimes of this host may change the cache meanwhile.
    let mounts = || {
        let all = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        all.lines().filter(|line| !line.contains(CACHE)).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = mounts();
    // Makes a cgroup like that of a killed check, named by a pid that no process can have.
    let unified = match bed.view {
        View::V2 => Some("/sys/fs/cgroup"),
        View::Hybrid => Some("/sys/fs/cgroup/unified"),
        View::V1 => None,
    };
    if let Some(top) = unified {
        fs::create_dir(Path::new(top).join("dayfly-birth-99999999")).expect("mkdir");
    }
    let _ = check(bed, &[]);
    assert_eq!(mounts(), before);
    let tops = fs::read_dir("/sys/fs/cgroup").expect("cgroups").flatten().map(|it| it.path());
    for top in tops.chain(["/sys/fs/cgroup".into()]).filter(|top| top.is_dir()) {
        let names = fs::read_dir(&top).expect("cgroup").flatten().map(|it| it.file_name());
        let left: Vec<_> = names
            .filter(|name| {
                let name = name.to_string_lossy();
                ["dayfly-here-", "dayfly-there-", "dayfly-birth-"]
                    .iter()
                    .any(|start| name.starts_with(start))
            })
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", top.display());
    }
}

fn topology_as_numactl_tells_it(bed: &Bed) {
    let numactl = bed.program("numactl", &["--hardware"]).run().ok().stdout;
    let own = bed.call_bare(&["host", "topology"]).run().ok().stdout;
    // Free memory changes all the time, so the test only checks that it is printed.
    let lines = |text: &str| -> Vec<String> {
        let fixed = |line: &str| match line.split_once(" free: ") {
            Some((node, free)) if free.ends_with(" MB") => format!("{node} free"),
            _ => line.to_owned(),
        };
        text.lines().map(fixed).collect()
    };
    let (numactl, own) = (lines(&numactl), lines(&own));
    assert!(numactl.len() > 4, "{numactl:?}");
    assert_eq!(own.get(..numactl.len()), Some(&*numactl), "{own:?}");
    assert_eq!(own.get(numactl.len()).map(String::as_str), Some(""), "{own:?}");
}

fn topology_as_json(bed: &Bed) {
    let file = bed.dir.join("topology.json");
    let file = file.to_str().expect("path");
    let call = ["host", "topology", "--format", "json", "--output", file];
    assert_eq!(bed.call_bare(&call).run().ok().stdout, "");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(file).expect("JSON")).expect("JSON");
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
    assert_eq!(report["cpus"]["online"], online.trim());
    for part in ["nodes", "sockets"] {
        assert!(report[part].as_array().is_some_and(|all| !all.is_empty()), "{part}: {report}");
    }
}

fn topology_of_no_host(bed: &Bed) {
    for (arguments, code, text) in [
        (&["--sysroot", "/nowhere"][..], 1, "open /nowhere: no such file or directory"),
        (&["--sysroot", "/dev"], 1, "/dev/proc/sys/kernel/osrelease: no such file"),
        (&["--output", "/proc/x"], 1, "write /proc/x: no such file or directory"),
        (&["--format", "yaml"], 1, "invalid value 'yaml'"),
        (&["0"], 1, "unexpected argument"),
    ] {
        let call = bed.call_bare(&[&["host", "topology"][..], arguments].concat());
        let outcome = call.run().exits(code);
        assert!(outcome.stderr.contains(text) && outcome.stdout.is_empty(), "{outcome}");
    }
}

fn favordynmods_status(bed: &Bed) {
    let text = bed.call_bare(&["host", "favordynmods", "status"]).run().ok().stdout;
    for line in ["favordynmods", "kernel", "root of cgroup2", "boot parameter", "at boot"] {
        assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
    }
    let call = ["host", "favordynmods", "status", "--format", "json"];
    let status: Value =
        serde_json::from_str(&bed.call_bare(&call).run().ok().stdout).expect("JSON");
    assert_eq!(status["cgroups"], bed.view.name());
    assert!(["on", "off"].contains(&status["favordynmods"].as_str().expect("state")), "{status}");
}

/// Turning favordynmods on temporarily requires a kernel that can turn it off again.
fn favordynmods_is_not_for_a_while(bed: &Bed) {
    let made = bed.dir.join("made");
    let touch = ["host", "favordynmods", "auto", "--", "touch", made.to_str().expect("path")];
    let outcome = bed.call_bare(&touch).run().exits(1);
    assert!(outcome.stderr.contains("until the next boot once it is on"), "{outcome}");
    assert!(!made.exists(), "the command ran");
    let outcome = bed.call_bare(&touch[..3]).run().exits(1);
    assert!(outcome.stderr.contains("COMMAND"), "{outcome}");
}

fn locks_short(bed: &Bed) {
    let svg = bed.dir.join("locks.svg");
    let file = svg.to_str().expect("path");
    let call = ["host", "locks", "--time", "10", "--svg", file];
    let text = bed.call_bare(&call).run().ok().stdout;
    // The advised number is that of the CPUs or less: it depends on the machine.
    let width = text.contains("→ keep ") || text.contains("→ have at most ");
    assert!(text.contains("all CPUs") && width && text.contains("→ start from "), "{text}");
    let picture = fs::read_to_string(&svg).expect("picture");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("a turn at one lock") && picture.contains("a mount and its unmount"));
    let call = ["host", "locks", "--time", "10", "--work", "lock", "--format", "json"];
    let report: Value =
        serde_json::from_str(&bed.call_bare(&call).run().ok().stdout).expect("JSON");
    for curve in report["curves"].as_array().expect("curves") {
        assert_eq!(curve["work"], "lock");
        for point in curve["points"].as_array().expect("points") {
            assert!(point["turn_us"].as_f64().is_some_and(|time| time > 0.0), "{report}");
        }
    }
    assert!(report["advice"][0]["starts"].as_u64().is_some_and(|starts| starts > 0), "{report}");
}

fn locks_bad_input(bed: &Bed) {
    for (arguments, text) in [
        (&["--time", "0"][..], "a time from 5ms to 60s"),
        (&["--work", "sleep"], "invalid value 'sleep'"),
    ] {
        let outcome = bed.call_bare(&[&["host", "locks"][..], arguments].concat()).run().exits(1);
        assert!(outcome.stderr.contains(text), "{outcome}");
    }
    let outcome =
        bed.call_bare(&["host", "locks", "--time", "5", "--work", "lock", "--svg", "/proc/x"]);
    let outcome = outcome.run().exits(1);
    assert!(outcome.stderr.contains("write /proc/x: no such file or directory"), "{outcome}");
}

const CPUS: &str = "grep Cpus_allowed_list: /proc/self/status";

/// Returns the last CPU on which this process may run, and the list of all of them.
fn own_cpus() -> (String, String) {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let all = line.expect("CPUs").trim().to_owned();
    let last = all.rsplit([',', '-']).next().expect("a CPU").to_owned();
    (last, all)
}

fn start_cpus_are_left_again(bed: &Bed) {
    let (one, all) = own_cpus();
    let expected = format!("Cpus_allowed_list:\t{all}\n");
    let c = bed.bundle().sh(CPUS).make();
    assert_eq!(c.run_with(&["--start-cpus", &one]).ok().stdout, expected);
    // Words select CPUs, as with --pin.
    for words in ["cores:1", "spread:1,no-smt"] {
        let c = bed.bundle().sh(CPUS).make();
        let _ = c.run_with(&["--start-cpus", words]).ok();
    }
    // The trace shows when the program was allowed to use all CPUs again.
    let c = bed.bundle().sh(CPUS).make();
    let trace = bed.dir.join("trace.jsonl");
    let file = trace.to_str().expect("path");
    assert_eq!(c.run_with(&["--start-cpus", &one, "--trace", file]).ok().stdout, expected);
    let trace = fs::read_to_string(&trace).expect("trace");
    assert!(trace.contains("run on every cpu"), "{trace}");
    // With `create`, init has got all CPUs back before it waits for `start`.
    let c = bed.bundle().sh(CPUS).make();
    c.create_with(&["--start-cpus", &one]).ok();
    let status = fs::read_to_string(format!("/proc/{}/status", c.pid())).expect("status");
    assert!(status.contains(&expected), "{status}");
}

fn start_cpus_are_not_the_hooks(bed: &Bed) {
    let (one, all) = own_cpus();
    let hook = |file: &str| {
        let script = format!("{CPUS} > {}", bed.dir.join(file).display());
        json!([{ "path": "/bin/sh", "args": ["sh", "-c", script] }])
    };
    let c = bed
        .bundle()
        .set("/hooks/createRuntime", hook("runtime"))
        .set("/hooks/poststart", hook("poststart"))
        .set("/hooks/poststop", hook("poststop"))
        .args(&["/bin/true"])
        .make();
    c.run_with(&["--start-cpus", &one]).ok();
    for file in ["runtime", "poststart", "poststop"] {
        let cpus = fs::read_to_string(bed.dir.join(file)).expect(file);
        assert_eq!(cpus, format!("Cpus_allowed_list:\t{all}\n"), "{file}");
    }
}

fn start_cpus_outside_of_the_cpuset(bed: &Bed) {
    for (start, run) in [("0", "1"), ("1", "0")] {
        let c = bed.bundle().set("/linux/resources/cpu/cpus", json!(run)).sh(CPUS).make();
        let outcome = c.run_with(&["--start-cpus", start]).ok();
        assert_eq!(outcome.stdout, format!("Cpus_allowed_list:\t{run}\n"));
    }
}

fn start_cpus_that_are_none(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    let refused = |list: &str, text: &str| {
        let _ = c.run_with(&["--start-cpus", list]).fails(text);
        assert!(!c.exists());
    };
    refused("1023", "--start-cpus 1023: none of these CPUs is online and allowed here");
    // The existing CPUs are used. No machine for these tests has CPU 1023.
    let outcome = c.run_with(&["--start-cpus", "0-1023"]).ok();
    assert!(outcome.stderr.contains("--start-cpus 0-1023: "), "{outcome}");
    assert!(outcome.stderr.contains("1023: these are not online or not allowed here"), "{outcome}");
    refused("3-1", "invalid value \"3-1\" for --start-cpus");
    refused("node:63", "--start-cpus nodes:63: there is no memory node 63");
    refused("fast", "--start-cpus fast: ");
}
