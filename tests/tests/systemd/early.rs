//! Scopes whose directory exists before systemd has the scope: the program of `run` does not wait for systemd.

use super::{V2, controllers, left_in_slice, limited, scope, systemd};
use dayfly_tests::bed::Bed;
use dayfly_tests::killed::Killed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, steps, wait};
use rustix::process::Signal;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(the_program_begins_first).needs(systemd).on(V2).unlike_runc(),
    case!(who_waits_for_the_job).needs(systemd).on(V2).unlike_runc(),
    case!(limits_at_the_first_instruction).needs(controllers).on(V2),
    case!(nothing_is_left_of_many).needs(systemd).on(V2).alone(),
    case!(one_name_again_and_again).needs(systemd).on(V2).alone(),
    case!(a_failed_unit_makes_way).needs(systemd).on(V2),
    case!(killed_runs).needs(systemd).on(V2).unlike_runc(),
    case!(refused_by_systemd).needs(systemd).on(V2),
    case!(beside_reloads).needs(systemd).on(V2).alone(),
    case!(beside_reexecution).needs(systemd).on(V2).unlike_runc().alone(),
    case!(siblings_end).needs(controllers).on(V2),
];

/// Asserts that a `run --detach` traced to this file has awaited the end of systemd's job after its acceptance.
#[track_caller]
pub fn assert_awaited_in_order(trace: &Path) {
    let trace = fs::read_to_string(trace).expect("trace");
    let at = |step: &str| trace.find(step).unwrap_or_else(|| panic!("no {step:?} in {trace}"));
    let awaited = |state: &str| at(&format!(r#""name":"await scope","object":"{state}""#));
    assert!(awaited("accepted") < awaited("started"), "{trace}");
}

/// The program begins once systemd has accepted the scope; its job is awaited afterwards.
fn the_program_begins_first(bed: &Bed) {
    let c = scope(bed, bed.bundle().sh("echo begun; sleep 1000"), "system.slice");
    let trace = bed.dir.join("trace.jsonl");
    let args = ["--detach", "--trace", trace.to_str().expect("path")];
    c.call("run", &args).ok();
    assert_awaited_in_order(&trace);
    assert_eq!((c.show("ActiveState"), c.show("SubState")), ("active".into(), "running".into()));
    assert_eq!(c.read("cgroup.procs"), c.container.pid().to_string());
    c.delete();
}

/// A program that may be able to write its cgroup begins after the job, which would undo its changes; so do hooks.
fn who_waits_for_the_job(bed: &Bed) {
    let awaited = |bundle, flags: &[&str]| {
        let c = scope(bed, bundle, "system.slice");
        let steps = steps::of(&c.container, &[&["--systemd-cgroup", "plan"], flags].concat(), "");
        let at = |name: &str| steps.iter().position(|step| step.name == name);
        assert!(at("enter cgroup") < at("clone") || at("clone").is_none(), "{steps:?}");
        let waits = steps.iter().filter(|step| step.name == "await scope");
        waits.map(|step| step.object.clone()).collect::<Vec<_>>().join(", ")
    };
    let run = ["--run"];
    let started = "started";
    assert_eq!(awaited(bed.bundle(), &run), "accepted");
    assert_eq!(awaited(bed.bundle(), &[]), "accepted");
    let admin = json!(["CAP_SYS_ADMIN"]);
    assert_eq!(awaited(bed.bundle().set("/process/capabilities/bounding", admin), &run), started);
    let writable = json!({ "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup" });
    assert_eq!(awaited(bed.bundle().push("/mounts", writable), &run), started);
    let sys =
        json!({ "destination": "/host", "type": "bind", "source": "/sys", "options": ["rbind"] });
    assert_eq!(awaited(bed.bundle().push("/mounts", sys), &run), started);
    assert_eq!(awaited(bed.bundle().without_namespace("pid"), &run), started);
    let hook = json!({ "path": "/bin/true" });
    assert_eq!(awaited(bed.bundle().push("/hooks/createRuntime", hook.clone()), &run), started);
    assert_eq!(awaited(bed.bundle().push("/hooks/createContainer", hook), &run), "");
}

/// The program's first command reads the limits; afterwards they are the same, and so are systemd's.
fn limits_at_the_first_instruction(bed: &Bed) {
    let resources = json!({
        "memory": { "limit": 67_108_864, "reservation": 16_777_216 },
        "pids": { "limit": 50 },
        "cpu": { "shares": 2048, "quota": 20_000, "period": 100_000 },
        "unified": { "memory.high": "50331648" },
    });
    let files = ["memory.max", "memory.low", "memory.high", "pids.max", "cpu.max", "cpu.weight"];
    let at = format!("cd /sys/fs/cgroup && cat {}", files.join(" "));
    let wanted = "67108864\n16777216\n50331648\n50\n20000 100000\n174\n";
    for _ in 0..20 {
        let c = scope(bed, limited(bed, resources.clone()).sh(&at), "system.slice");
        let said = c.call("run", &[]).ok().stdout;
        assert_eq!(said, wanted);
    }
    let script = format!("{at}; sleep 1000");
    let c = scope(bed, limited(bed, resources).sh(&script), "system.slice").detached();
    let after: String = files.iter().map(|file| c.read(file) + "\n").collect();
    assert_eq!(after, wanted);
    assert_eq!((c.show("MemoryMax"), c.show("TasksMax")), ("67108864".into(), "50".into()));
    c.delete();
}

/// Returns the number of rounds: with `DAYFLY_MANY`, that of a host after thousands of starts.
fn rounds(usual: usize, many: usize) -> usize {
    if env::var_os("DAYFLY_MANY").is_some() { many } else { usual }
}

/// What systemd says of the host: its state, the units that failed, and its own warnings, except one of new versions
/// about each stopped unit where there is no controller `pids`.
fn said_of_the_host() -> Vec<String> {
    let commands = [
        "systemctl is-system-running",
        "systemctl list-units --failed --no-legend --plain",
        "journalctl --quiet --no-pager --output cat --priority warning _PID=1 | grep -v 'read pids.max'",
    ];
    let say = |command: &str| {
        let said = Command::new("sh").args(["-c", command]).output().expect("sh").stdout;
        String::from_utf8_lossy(&said).into_owned()
    };
    commands.map(say).to_vec()
}

/// Asserts that `work` leaves neither units nor cgroups, and that systemd says of the host what it said before.
fn leaves_nothing(work: impl FnOnce()) {
    let before = said_of_the_host();
    work();
    wait::until_none("units and cgroups", || left_in_slice("test-"));
    assert_eq!(said_of_the_host(), before);
}

/// Programs that end before the job does.
fn nothing_is_left_of_many(bed: &Bed) {
    let c = scope(bed, bed.bundle().args(&["/bin/true"]), "system.slice");
    leaves_nothing(|| {
        for round in 0..rounds(100, 10_000) {
            let id = format!("{}-{round}", c.container.id);
            let path = json!(format!("system.slice:test:{id}"));
            let other = bed.bundle().args(&["/bin/true"]).set("/linux/cgroupsPath", path);
            let other = other.make_as(&id);
            other.scope_call("run", &[]).run().ok();
            let _ = fs::remove_dir_all(&other.bundle);
        }
        for _ in 0..rounds(20, 1000) {
            c.call("create", &[]).ok();
            c.container.delete_force().ok();
        }
    });
}

fn one_name_again_and_again(bed: &Bed) {
    let c = scope(bed, bed.bundle().args(&["/bin/true"]), "system.slice");
    let path = json!(format!("system.slice:test:{}", c.container.id));
    let other = bed.bundle().args(&["/bin/true"]).set("/linux/cgroupsPath", path).make();
    leaves_nothing(|| {
        for _ in 0..rounds(40, 1000) {
            c.call("run", &[]).ok();
            c.call("run", &[]).ok();
            other.scope_call("run", &[]).run().ok();
        }
    });
}

/// A unit that failed earlier, and has no cgroup any more.
fn a_failed_unit_makes_way(bed: &Bed) {
    let c = scope(bed, bed.bundle().args(&["/bin/true"]), "system.slice");
    let property = "-pRuntimeMaxSec=1ms";
    let args = ["--scope", "--quiet", property, "--unit", &c.unit, "sleep", "1000"];
    let _ = Command::new("systemd-run").args(args).status().expect("systemd-run");
    wait::until_true("the unit to fail", || c.show("ActiveState") == "failed");
    c.call("run", &[]).ok();
    c.is_gone();
}

/// A `run` that is killed at any moment.
fn killed_runs(bed: &Bed) {
    for round in 0..40 {
        let c = scope(bed, bed.bundle().args(&["/bin/sleep", "1000"]), "system.slice");
        let bundle = c.container.bundle.to_string_lossy();
        let args = ["--systemd-cgroup", "run", "--bundle", &bundle, &c.container.id];
        let running = bed.call(&args).spawn();
        std::thread::sleep(Duration::from_micros(round * 600));
        running.signal(Signal::KILL);
        let _ = running.wait();
        c.container.delete_force().ok();
        c.is_gone();
    }
}

/// systemd's own words, and nothing is left.
fn refused_by_systemd(bed: &Bed) {
    let annotations = json!({ "org.systemd.property.NoSuchThing": "true" });
    let c = scope(bed, bed.bundle().set("/annotations", annotations), "system.slice");
    for verb in ["run", "create"] {
        c.call(verb, &[]).fails("Cannot set property NoSuchThing, or unknown property.");
        assert!(!c.container.exists());
        c.is_gone();
    }
}

/// Runs containers while a command that concerns systemd as a whole is repeated.
fn beside(bed: &Bed, command: &str, runs: usize) {
    let script = format!("while :; do systemctl {command}; sleep 0.2; done");
    let loops = Killed(Command::new("sh").args(["-c", &script]).spawn().expect("sh"));
    let c = scope(bed, bed.bundle().args(&["/bin/true"]), "system.slice");
    for round in 0..runs {
        let outcome = c.call("run", &[]);
        assert_eq!(outcome.code(), 0, "round {round}: {outcome}");
    }
    let c = scope(bed, bed.bundle(), "system.slice").detached();
    drop(loops);
    wait::until_true("systemd", || c.show("ActiveState") == "active");
    c.delete();
    wait::until_none("units and cgroups", || left_in_slice("test-"));
}

fn beside_reloads(bed: &Bed) {
    beside(bed, "daemon-reload", rounds(60, 1000));
}

fn beside_reexecution(bed: &Bed) {
    beside(bed, "daemon-reexec", rounds(30, 200));
}

/// systemd takes controllers away from a slice when the last scope that needs them ends. A scope that is about to be
/// made there keeps its limits.
fn siblings_end(bed: &Bed) {
    let at = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max";
    let limits = json!({ "memory": { "limit": 67_108_864 }, "pids": { "limit": 50 } });
    let keeper = ["--scope", "--quiet", "--slice", "dftest.slice", "sleep", "1000"];
    let _keeper = Killed(Command::new("systemd-run").args(keeper).spawn().expect("systemd-run"));
    wait::until_true("the slice", || fs::metadata("/sys/fs/cgroup/dftest.slice").is_ok());
    let sibling =
        "while :; do systemd-run --scope --quiet --slice dftest.slice -p Delegate=yes true; done";
    let _siblings = Killed(Command::new("sh").args(["-c", sibling]).spawn().expect("sh"));
    for _ in 0..rounds(30, 1000) {
        let c = scope(bed, limited(bed, limits.clone()).sh(at), "dftest.slice");
        assert_eq!(c.call("run", &[]).ok().stdout, "67108864\n50\n");
    }
}
