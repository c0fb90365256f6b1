//! Every step of create, start, exec and delete fails, or is the last of its process: the error is told, and
//! nothing is left behind.

use crate::net_devices::Pair;
use dayfly_tests::agent::Agent;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::{Case, runtime_path};
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::steps::{self, Step};
use dayfly_tests::{case, leak, wait};
use serde_json::json;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use sys::unotify::Answer;

pub const CASES: &[Case] = &[
    case!(create_and_start_plain).needs(fault_points),
    case!(create_and_start_with_hooks).needs(fault_points),
    case!(create_and_start_with_user_namespace).needs(fault_points),
    case!(create_and_start_with_attributes).needs(fault_points),
    case!(create_and_start_with_things_of_the_host).needs(fault_points),
    case!(create_and_start_with_a_terminal).needs(fault_points),
    case!(create_and_start_in_joined_namespaces).needs(fault_points),
    case!(create_and_start_without_pivot).needs(fault_points),
    case!(create_and_start_without_a_mount_namespace).needs(fault_points),
    case!(modules_that_are_missing).needs(fault_points),
    case!(create_besides_the_plan).needs(fault_points),
    case!(run_plain).needs(fault_points),
    case!(exec).needs(fault_points),
    case!(start_besides_the_plan).needs(fault_points),
    case!(delete).needs(fault_points),
    case!(host_stays_as_it_is).needs(fault_points).alone(),
    case!(every_kind_of_step).needs(fault_points).alone(),
];

/// Walks that were taken to their end, and how many there are: joined namespaces are two, `exec` and `run` one
/// each.
static WALKS: AtomicUsize = AtomicUsize::new(0);
const ALL_WALKS: usize = 13;

pub const KINDS: [&str; 2] = ["fail", "kill"];

/// Whether the runtime has fault points: tests/README.md tells how to build it so.
pub fn fault_points() -> Result<(), String> {
    let probe = Command::new(runtime_path()).arg("list").env("DAYFLY_FAULT", "nowhere").output();
    match probe {
        Ok(probe) if String::from_utf8_lossy(&probe.stderr).contains("no fault point") => Ok(()),
        _ => Err("the runtime was built without the feature `faults`".to_owned()),
    }
}

pub fn faulty(call: Call, place: &str, step: usize, kind: &str) -> Call {
    // Steps must not depend on what else the machine does.
    call.env("DAYFLY_FAULT", &format!("{place}:{step}:{kind}")).env("DAYFLY_WITHOUT", WITHOUT)
}

/// A step that failed says so; one that was killed says nothing about itself.
#[track_caller]
fn assert_told(outcome: &Outcome, kind: &str, fault: &str) {
    assert!(outcome.code() != 0, "{fault}: {outcome}");
    if kind == "fail" {
        // An init that fails while it waits for `start` has nobody to tell; `start` finds it stopped.
        let words = [
            "input/output error",
            "fault",
            "cannot start a container that has stopped",
            "container init was killed before it started",
        ];
        let told = words.iter().any(|word| outcome.stderr.contains(word));
        assert!(told, "{fault}: {outcome}");
    }
}

/// What walks have in common: steps must not depend on what else the machine does.
const WITHOUT: &str = "crowd-check";

/// One way of making containers whose steps are struck, all of them.
struct Walk<'a> {
    c: Container<'a>,
    /// Flags of `create`.
    flags: Vec<String>,
    /// What has to be there before each `create`.
    prepare: Box<dyn Fn() + 'a>,
}

impl<'a> Walk<'a> {
    fn new(bundle: Bundle<'a>) -> Self {
        Self { c: bundle.make(), flags: Vec::new(), prepare: Box::new(|| {}) }
    }

    fn steps(&self) -> Vec<Step> {
        (self.prepare)();
        let mut steps = steps::of(&self.c, WITHOUT);
        // `plan` has no flags of `create`.
        if self.flags.iter().any(|flag| flag == "--console-socket")
            && let Some(at) = steps.iter().position(|step| step.name == "make network")
        {
            let name = "connect console".to_owned();
            steps.insert(at, Step { name, ..steps[at].clone() });
            steps[at + 1..]
                .iter_mut()
                .filter(|step| step.actor == "host")
                .for_each(|step| step.number += 1);
        }
        if self.flags.iter().any(|flag| flag == "--no-pivot") {
            let classic = format!("{WITHOUT},template-namespace");
            steps = steps::of(&self.c, &classic);
            for step in &mut steps {
                if step.name == "pivot root" {
                    step.name = "change root".to_owned();
                }
            }
        }
        steps
    }

    fn create(&self) -> Call {
        (self.prepare)();
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        self.c.bundle_call("create", &flags)
    }

    /// Strikes a step in both ways; returns whether it was one after `start`.
    fn strike(&self, step: &Step) -> bool {
        let c = &self.c;
        let mut after_start = false;
        for kind in KINDS {
            let fault = format!("{}:{}:{kind} ({})", step.actor, step.number, step.name);
            let created = faulty(self.create(), step.actor, step.number, kind).run();
            if created.code() != 0 {
                assert_told(&created, kind, &fault);
                assert!(kind == "kill" || names(&created, step), "{fault}: {created}");
            } else {
                // A step of init after it was told to start.
                assert_eq!(step.actor, "init", "{fault} did not strike");
                assert_waits_alone(c, &fault);
                let start = c.start();
                // An init that is killed once it was started cannot be told from a program that is.
                match (kind, start.code()) {
                    ("kill", 0) => c.wait_status("stopped"),
                    _ => assert_told(&start, kind, &fault),
                }
                after_start = true;
            }
            // What failed has cleared up by itself.
            if kind == "kill" || created.code() == 0 {
                c.delete_force().ok();
            }
            c.assert_gone(&fault);
            steps::struck(step, kind);
        }
        after_start
    }

    /// Strikes every step, and then none.
    fn take(&self) {
        let steps = self.steps();
        let of = |actor: &str| steps.iter().filter(|step| step.actor == actor).count();
        assert!(of("host") > 6 && of("init") > 15, "{steps:?}");
        let after_start = steps.iter().filter(|step| self.strike(step)).count();
        assert!(after_start >= 1, "exec is after start");
        // The id is as good as new.
        let c = &self.c;
        self.create().env("DAYFLY_WITHOUT", WITHOUT).run().ok();
        c.start().ok();
        let pid = c.pid();
        wait::until_none("descriptors that the program was not given", || leak::descriptors(pid));
        c.delete_force().ok();
        c.assert_gone("nothing");
        WALKS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a failure names the step that failed, where it is told of by that.
fn names(outcome: &Outcome, step: &Step) -> bool {
    let found = steps::named_by(step.actor, step.number, &outcome.stderr);
    let by_itself = step.actor == "init" && ["run hooks", "exec"].contains(&step.name.as_str());
    by_itself || found.is_some_and(|found| found.name == step.name)
}

/// An init that waits to be started has the socket it listens on, and nothing else.
#[track_caller]
fn assert_waits_alone(c: &Container<'_>, fault: &str) {
    let state = c.state();
    if state["status"] == "created" {
        let pid = state["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("pid");
        // Another one is there for a moment after `state` has asked who waits.
        wait::until_none(&format!("descriptors besides the socket after {fault}"), || {
            let open = leak::descriptors(pid);
            if open.len() <= 1 && open.iter().all(|fd| fd.starts_with("socket:")) {
                return Vec::new();
            }
            open
        });
    }
}

fn create_and_start_plain(bed: &Bed) {
    Walk::new(bed.bundle()).take();
}

fn create_and_start_with_hooks(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    let bundle = bed
        .bundle()
        .set("/hooks/prestart", hook.clone())
        .set("/hooks/createRuntime", hook.clone())
        .set("/hooks/createContainer", hook.clone())
        .set("/hooks/startContainer", hook)
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }));
    Walk::new(bundle).take();
}

fn create_and_start_with_user_namespace(bed: &Bed) {
    let rlimit = json!([{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512 }]);
    Walk::new(crate::userns::mapped(bed).set("/process/rlimits", rlimit)).take();
}

fn create_and_start_with_attributes(bed: &Bed) {
    let bundle = bed
        .bundle()
        .set("/process/scheduler", json!({ "policy": "SCHED_BATCH" }))
        .set("/process/ioPriority", json!({ "class": "IOPRIO_CLASS_BE", "priority": 6 }))
        .set("/process/oomScoreAdj", json!(77))
        .set("/process/noNewPrivileges", json!(true))
        .set("/process/user", json!({ "uid": 1000, "gid": 1000, "umask": 63 }))
        .set("/linux/personality", json!({ "domain": "LINUX" }))
        .set("/linux/memoryPolicy", json!({ "mode": "MPOL_DEFAULT" }))
        .set("/linux/sysctl", json!({ "net.ipv4.ip_forward": "1", "kernel.msgmax": "4096" }))
        .set(
            "/linux/devices",
            json!([{ "path": "/dev/extra", "type": "c", "major": 1, "minor": 3 }]),
        )
        .set("/domainname", json!("domain"))
        .set("/process/cwd", json!("/work"))
        .set("/root/readonly", json!(true));
    Walk::new(bundle).take();
}

/// Id-mapped mounts, network devices of the host, an agent for system calls, clocks of its own.
fn create_and_start_with_things_of_the_host(bed: &Bed) {
    let agent = Agent::new(&bed.dir, |_| Answer::Continue);
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 1000 }]);
    let source = bed.dir.join("source");
    std::fs::create_dir(&source).expect("make");
    let device = RefCell::new(None::<Pair>);
    let name = format!("{}x", bed.id());
    let bundle = bed
        .bundle()
        .push("/linux/namespaces", json!({ "type": "time" }))
        .set("/linux/timeOffsets", json!({ "boottime": { "secs": 7 } }))
        .set("/linux/netDevices", json!({ &name: { "name": "inside" } }))
        .set("/linux/seccomp", crate::listener::profile(agent.path(), &["mkdir"]))
        .push(
            "/mounts",
            json!({ "destination": "/mnt", "type": "bind", "source": source,
                "options": ["bind", "idmap"], "uidMappings": map, "gidMappings": map }),
        );
    let mut walk = Walk::new(bundle);
    let prepare = || {
        let mut device = device.borrow_mut();
        if !device.as_ref().is_some_and(Pair::is_on_the_host) {
            // The old one is gone with its namespace, or about to go.
            drop(device.take());
            let peer = format!("{}p", &name);
            *device = Some(wait::until("a network device", || Pair::named(&name, &peer).ok()));
        }
    };
    walk.prepare = Box::new(prepare);
    walk.take();
}

fn create_and_start_with_a_terminal(bed: &Bed) {
    let path = bed.dir.join("console.sock");
    let listener = UnixListener::bind(&path).expect("bind");
    // Whoever connects is heard out, a while.
    std::thread::spawn(move || {
        let mut heard = VecDeque::new();
        for connection in listener.incoming().flatten() {
            heard.push_back(connection);
            if heard.len() > 8 {
                heard.pop_front();
            }
        }
    });
    let mut walk = Walk::new(bed.bundle().set("/process/terminal", json!(true)));
    walk.flags = vec!["--console-socket".to_owned(), path.to_string_lossy().into_owned()];
    walk.take();
}

fn create_and_start_in_joined_namespaces(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let mut bundle = bed.bundle();
    for (kind, file) in [("pid", "pid"), ("network", "net"), ("ipc", "ipc"), ("uts", "uts")] {
        bundle = bundle.join_namespace(kind, &format!("/proc/{}/ns/{file}", first.pid()));
    }
    Walk::new(bundle).take();
    let first = crate::userns::mapped(bed).make().detached();
    let user = format!("/proc/{}/ns/user", first.pid());
    Walk::new(
        crate::userns::mapped(bed)
            .join_namespace("user", &user)
            .unset("/linux/uidMappings")
            .unset("/linux/gidMappings"),
    )
    .take();
}

fn create_and_start_without_pivot(bed: &Bed) {
    let mut walk = Walk::new(bed.bundle());
    walk.flags = vec!["--no-pivot".to_owned()];
    walk.take();
}

fn create_and_start_without_a_mount_namespace(bed: &Bed) {
    let bundle = bed.bundle().without_namespace("mount").mount("tmpfs", "tmpfs", "/mnt", &["ro"]);
    Walk::new(bundle.unset("/linux/maskedPaths").unset("/linux/readonlyPaths")).take();
}

/// What a module would have to be there for is refused before; that refusal can fail, too.
fn modules_that_are_missing(bed: &Bed) {
    let walk = Walk::new(bed.bundle().set("/process/apparmorProfile", json!("p")));
    for step in walk.steps().iter().filter(|step| step.name == "require module") {
        walk.strike(step);
    }
    WALKS.fetch_add(1, Ordering::Relaxed);
}

/// Kinds of steps that this host has no use for.
const NOT_HERE: &[(&str, &str, &str)] = &[
    ("host", "release scope", "systemd is not at work: systemd:: in the guest"),
    ("host", "enter resctrl group", "no resctrl file system"),
    ("init", "label keys", "no SELinux"),
    ("init", "label process", "no SELinux"),
    ("init", "apply apparmor profile", "no AppArmor"),
];

/// Kinds of steps that these walks do not meet, and where they are made to fail instead, if anywhere.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("host", "map layers", LAYERS),
    ("host", "open layers", LAYERS),
    ("host", "make upper", LAYERS),
    ("host", "assemble rootfs", LAYERS),
    ("host", "detach layers", LAYERS),
    ("host", "copy layers", LAYERS),
    ("host", "map own id", UNPRIVILEGED),
    ("host", "map ids through newuidmap", UNPRIVILEGED),
    ("host", "take on oom score", UNPRIVILEGED),
    ("init", "clone tree", UNPRIVILEGED),
    ("init", "clone device", UNPRIVILEGED),
    ("init", "undumpable", UNPRIVILEGED),
    ("host", "open root", "no walk yet: exec where the mount namespace is the host's"),
];
const LAYERS: &str = "rootfs::every_step_fails_or_is_the_last";
const UNPRIVILEGED: &str = "no walk yet: callers without privileges";

/// Comes after all walks: no kind of step was left out.
fn every_kind_of_step(_: &Bed) {
    let walks = WALKS.load(Ordering::Relaxed);
    if walks < ALL_WALKS {
        println!("every_kind_of_step: {walks} of {ALL_WALKS} walks were taken, nothing to tell");
        return;
    }
    for (actor, name, reason) in NOT_HERE {
        println!("never struck on this host: {actor} {name}: {reason}");
    }
    for (actor, name, place) in ELSEWHERE {
        println!("not struck by these walks: {actor} {name}: {place}");
    }
    let here = |kind: &(&str, String)| {
        let mut others = NOT_HERE.iter().chain(ELSEWHERE);
        !others.any(|(actor, name, _)| *actor == kind.0 && *name == kind.1)
    };
    for kind in KINDS {
        let missing: Vec<_> = steps::missing(kind).into_iter().filter(here).collect();
        assert!(missing.is_empty(), "{kind}: no walk has these kinds of steps: {missing:?}");
    }
}

/// Mount table, /run, pinned programs: the same after every fault.
fn host_stays_as_it_is(bed: &Bed) {
    let rules = json!([
        { "allow": false, "access": "rwm" },
        { "allow": true, "type": "c", "major": 1, "minor": 5, "access": "r" },
    ]);
    let bundle = bed
        .bundle()
        .set("/linux/resources/devices", rules)
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_LOG" }))
        .mount("bind", "/etc", "/mnt", &["rbind"]);
    let walk = Walk::new(bundle);
    // What a host keeps between starts is there from the first one on.
    let c = &walk.c;
    c.create().ok();
    c.delete().ok();
    let host = Host::look();
    let unchanged = |fault: &str| wait::until_none(&format!("left by {fault}"), || host.changes());
    for step in walk.steps() {
        walk.strike(&step);
        unchanged(&step.name);
    }
    for kind in KINDS {
        walk_through("command", kind, |step, fault| {
            let created = faulty(c.bundle_call("create", &[]), "command", step, kind).run();
            c.delete_force().ok();
            c.assert_gone(fault);
            unchanged(fault);
            created
        });
    }
}

/// Takes the steps of `place` one after the other, until the command runs whole; returns how many there
/// are.
pub fn walk_through(place: &str, kind: &str, mut run: impl FnMut(usize, &str) -> Outcome) -> usize {
    for step in 0..200 {
        let fault = format!("{place}:{step}:{kind}");
        let outcome = run(step, &fault);
        if outcome.code() == 0 {
            return step;
        }
        assert_told(&outcome, kind, &fault);
    }
    panic!("{place}: no end of steps");
}

fn create_besides_the_plan(bed: &Bed) {
    let c = bed.bundle().make();
    for kind in KINDS {
        let steps = walk_through("command", kind, |step, fault| {
            let created = faulty(c.bundle_call("create", &[]), "command", step, kind).run();
            if kind == "kill" || created.code() == 0 {
                c.delete_force().ok();
            }
            c.assert_gone(fault);
            created
        });
        assert!(steps >= 5, "{steps}");
    }
}

fn run_plain(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).set("/process/oomScoreAdj", json!(77)).make();
    for place in ["host", "init"] {
        let mut named = Vec::new();
        for kind in KINDS {
            let steps = walk_through(place, kind, |step, fault| {
                let outcome = faulty(c.bundle_call("run", &[]), place, step, kind).run();
                if kind == "kill" {
                    c.delete_force().ok();
                }
                c.assert_gone(fault);
                note(&mut named, place, step, kind, &outcome);
                outcome
            });
            assert!(steps > 6, "{place}: {steps}");
        }
    }
    WALKS.fetch_add(1, Ordering::Relaxed);
}

/// Notes what was struck where only the error tells what it was: it comes before the kill.
fn note(
    named: &mut Vec<Option<Step>>,
    place: &'static str,
    number: usize,
    kind: &'static str,
    outcome: &Outcome,
) {
    if outcome.code() == 0 {
        return;
    }
    if kind == "fail" {
        named.push(steps::named_by(place, number, &outcome.stderr));
    }
    if let Some(Some(step)) = named.get(number) {
        steps::struck(step, kind);
    }
}

fn exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let processes = || leak::processes(std::slice::from_ref(&c.id)).len();
    let file = bed.dir.join("process.json");
    let process = json!({ "args": ["/bin/true"], "cwd": "/", "user": { "uid": 0, "gid": 0 },
        "execCPUAffinity": { "initial": "0", "final": "0" } });
    std::fs::write(&file, process.to_string()).expect("write");
    let flags = ["--process", file.to_str().expect("path")];
    let open = leak::descriptors(c.pid());
    for place in ["host", "init", "command"] {
        let mut named = Vec::new();
        for kind in KINDS {
            let steps = walk_through(place, kind, |step, fault| {
                let outcome = faulty(c.id_call("exec", &flags, &[]), place, step, kind).run();
                wait::until_true(&format!("no process to be left by {fault}"), || processes() == 1);
                assert_eq!(c.status(), "running", "{fault}");
                assert_eq!(leak::descriptors(c.pid()), open, "{fault}");
                note(&mut named, place, step, kind, &outcome);
                outcome
            });
            assert!(steps > if place == "command" { 0 } else { 6 }, "{place}: {steps}");
        }
    }
    c.exec(&["true"]).ok();
    WALKS.fetch_add(1, Ordering::Relaxed);
}

fn start_besides_the_plan(bed: &Bed) {
    for kind in KINDS {
        let steps = walk_through("command", kind, |step, fault| {
            let c = bed.bundle().make();
            c.create().ok();
            let outcome = faulty(c.id_call("start", &[], &[]), "command", step, kind).run();
            let status = c.status();
            assert!(status == "created" || status == "running", "{fault}: {status}");
            if status == "created" {
                c.start().ok();
            }
            c.delete_force().ok();
            c.assert_gone(fault);
            outcome
        });
        assert!(steps >= 3, "{steps}");
    }
}

fn delete(bed: &Bed) {
    for kind in KINDS {
        for force in [false, true] {
            let flags: &[&str] = if force { &["--force"] } else { &[] };
            let steps = walk_through("command", kind, |step, fault| {
                let c = bed.bundle().make();
                c.create().ok();
                if force {
                    c.start().ok();
                }
                let outcome = faulty(c.id_call("delete", flags, &[]), "command", step, kind).run();
                c.delete_force().ok();
                c.assert_gone(fault);
                outcome
            });
            assert!(steps >= 4, "{steps}");
        }
    }
}
