//! The systemd cgroup driver for an unprivileged user: scopes of the user's own systemd instance.
//!
//! The user's systemd is a real one, in a cgroup of the suite's; the machine need not be run by systemd.

use crate::systemd::early::assert_awaited_in_order;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::user::{User, can_be, can_be_managed};
use dayfly_tests::view::View;
use dayfly_tests::{case, wait};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const V1: &[View] = &[View::V1, View::Hybrid];
const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(life).needs(can_be_managed).on(V2),
    case!(begins_before_systemds_job).needs(can_be_managed).on(V2).unlike_runc(),
    case!(default_unit).needs(can_be_managed).on(V2).unlike_runc(),
    case!(in_a_user_namespace).needs(can_be_managed).on(V2),
    case!(without_a_namespace_of_cgroups).needs(can_be_managed).on(V2),
    case!(bus_of_the_environment).needs(can_be_managed).on(V2),
    case!(annotations).needs(can_be_managed).on(V2).unlike_runc(),
    case!(limits_and_update).needs(limits_can_be).on(V2),
    case!(missing_controller).needs(can_be_managed).on(V2).unlike_runc(),
    case!(failed_start).needs(can_be_managed).on(V2).unlike_runc(),
    case!(unit_in_use).needs(can_be_managed).on(V2).unlike_runc(),
    case!(killed_starts).needs(can_be_managed).on(V2).unlike_runc(),
    case!(end_of_the_users_systemd).needs(can_be_managed).on(V2).unlike_runc(),
    case!(no_bus).needs(can_be_managed).on(V2).unlike_runc(),
    case!(nobody_on_the_bus).needs(can_be_managed).on(V2).unlike_runc(),
    case!(cgroup_v1).needs(can_be_managed).on(V1).unlike_runc(),
    case!(other_hosts).needs(can_be).unlike_runc(),
];

fn limits_can_be() -> Result<(), String> {
    can_be_managed()?;
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match controllers.split_whitespace().any(|name| name == "pids") {
        true => Ok(()),
        false => Err("no pids controller in cgroup v2: scripts/bed guest-suite".to_owned()),
    }
}

/// A container in a scope of the user's systemd.
struct Scope<'a> {
    container: Container<'a>,
    user: &'a User,
    unit: String,
}

fn scope<'a>(user: &'a User, bundle: Bundle<'a>) -> Scope<'a> {
    let id = user.bed.id();
    let path = json!(format!("user.slice:test:{id}"));
    let container = bundle.set("/linux/cgroupsPath", path).make_as(&id);
    Scope { container, user, unit: format!("test-{id}.scope") }
}

impl Scope<'_> {
    fn call(&self, verb: &str, flags: &[&str]) -> Outcome {
        self.call_with("", verb, flags)
    }

    /// Runs a command with the environment variables `with` added.
    fn call_with(&self, with: &str, verb: &str, flags: &[&str]) -> Outcome {
        self.container.scope_call(verb, flags).env("WITH", with).run()
    }

    #[track_caller]
    fn detached(self) -> Self {
        self.call("run", &["--detach"]).ok();
        self
    }

    fn directory(&self) -> PathBuf {
        self.user.manager().join("user.slice").join(&self.unit)
    }

    #[track_caller]
    fn read(&self, file: &str) -> String {
        let path = self.directory().join(file);
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) => panic!("read {}: {error}", path.display()),
        }
    }

    /// Returns a property of the unit, as the user's systemd reports it.
    fn show(&self, property: &str) -> String {
        let mut systemctl = Command::new(self.user.bed.runtime());
        systemctl.env("PROGRAM", "systemctl");
        systemctl.args(["--user", "show", "--value", "-p", property, &self.unit]);
        let output = systemctl.output().expect("systemctl");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[track_caller]
    fn delete(&self) {
        self.container.delete_force().ok();
        self.is_gone();
    }

    /// Asserts that neither the cgroup nor the unit is left.
    #[track_caller]
    fn is_gone(&self) {
        wait::until_true("the unit to go", || self.show("LoadState") == "not-found");
        assert!(!self.directory().exists(), "{} is left", self.directory().display());
        assert!(!self.container.exists());
    }
}

fn life(bed: &Bed) {
    let user = User::managed(bed);
    let c = scope(&user, user.ranges());
    c.call("create", &[]).ok();
    assert_eq!(c.container.status(), "created");
    wait::until_true("the unit to start", || c.show("ActiveState") == "active");
    assert_eq!(c.show("Slice"), "user.slice");
    assert_eq!(c.show("Delegate"), "yes");
    // The scope contains only init: the process that was in the scope before init has exited.
    let pid = c.container.pid();
    wait::until_true("the holder to leave", || c.read("cgroup.procs") == pid.to_string());
    c.container.start().ok();
    assert_eq!(c.container.status(), "running");
    let seen = c.container.exec(&["cat", "/proc/self/cgroup"]).ok().stdout;
    assert!(seen.lines().any(|line| line == "0::/"), "{seen}");
    let ps = c.container.id_call("ps", &["--format", "json"], &[]).run().ok().stdout;
    assert_eq!(ps.trim(), format!("[{pid}]"));
    c.container.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.container.status(), "paused");
    c.container.id_call("resume", &[], &[]).run().ok();
    c.container.kill("KILL").ok();
    c.container.wait_status("stopped");
    c.container.delete().ok();
    c.is_gone();
    // The same name can be used again at once.
    c.detached().delete();
}

/// As with the host's systemd, once the slice exists: the job is awaited after the program's begin, and not at its end.
fn begins_before_systemds_job(bed: &Bed) {
    let user = User::managed(bed);
    let first = scope(&user, user.ranges()).detached();
    let c = scope(&user, user.ranges().args(&["/bin/true"]));
    let trace = user.bed.dir.join("trace.jsonl");
    let flags = ["--detach", "--trace", trace.to_str().expect("path")];
    c.call_with("DAYFLY_WITHOUT=", "run", &flags).ok();
    assert_awaited_in_order(&trace);
    c.delete();
    for _ in 0..20 {
        c.call("run", &[]).ok();
    }
    c.is_gone();
    first.delete();
}

fn default_unit(bed: &Bed) {
    let user = User::managed(bed);
    let id = user.bed.id();
    let container = user.single().make_as(&id);
    let c = Scope { container, user: &user, unit: format!("dayfly-{id}.scope") }.detached();
    assert_eq!(c.show("Slice"), "user.slice");
    assert_eq!(c.read("cgroup.procs"), c.container.pid().to_string());
    c.delete();
}

/// The caller is root of a user namespace, as with Podman. The bus, which is outside that namespace, sees another uid.
fn in_a_user_namespace(bed: &Bed) {
    let mut user = User::managed(bed);
    user.nest();
    let c = scope(&user, user.plain()).detached();
    assert_eq!(c.show("ActiveState"), "active");
    assert_eq!(c.read("cgroup.procs"), c.container.pid().to_string());
    assert_eq!(c.container.sh("echo inside").ok().stdout, "inside\n");
    c.container.kill("KILL").ok();
    c.container.wait_status("stopped");
    c.container.delete().ok();
    c.is_gone();
}

fn without_a_namespace_of_cgroups(bed: &Bed) {
    let user = User::managed(bed);
    let c = scope(&user, user.ranges().without_namespace("cgroup")).detached();
    let own = fs::read_to_string(format!("/proc/{}/cgroup", c.container.pid())).expect("cgroup");
    let path = c.directory().to_string_lossy().replace("/sys/fs/cgroup", "");
    assert!(own.lines().any(|line| line == format!("0::{path}")), "{own}");
    c.container.sh("ls /sys/fs/cgroup").ok();
    c.delete();
}

fn bus_of_the_environment(bed: &Bed) {
    let user = User::managed(bed);
    let bus = user.bed.dir.join("run/bus").to_string_lossy().into_owned();
    for address in [bus.clone(), bus.replace('r', "%72")] {
        let c = scope(&user, user.single());
        let with = format!("XDG_RUNTIME_DIR= DBUS_SESSION_BUS_ADDRESS=unix:path={address}");
        c.call_with(&with, "run", &["--detach"]).ok();
        assert_eq!(c.show("ActiveState"), "active");
        // The record contains the bus's address.
        let call = c.container.id_call("delete", &["--force"], &[]);
        call.env("WITH", "XDG_RUNTIME_DIR=").run().ok();
        c.is_gone();
    }
}

fn annotations(bed: &Bed) {
    let user = User::managed(bed);
    let with = |annotations: Value| user.single().set("/annotations", annotations);
    let c = scope(
        &user,
        with(json!({
            "org.systemd.property.Description": "'a test of dayfly'",
            "org.systemd.property.TimeoutStopSec": "uint64 7",
        })),
    )
    .detached();
    assert_eq!(c.show("Description"), "a test of dayfly");
    assert_eq!(c.show("TimeoutStopUSec"), "7s");
    c.delete();
    let c = scope(&user, with(json!({ "org.systemd.property.NoSuchThing": "true" })));
    c.call("create", &[]).fails("NoSuchThing");
    c.is_gone();
}

fn limits_and_update(bed: &Bed) {
    let user = User::managed(bed);
    let limits = json!({ "pids": { "limit": 50 } });
    let c = scope(&user, user.ranges().set("/linux/resources", limits)).detached();
    assert_eq!((c.read("pids.max"), c.show("TasksMax")), ("50".into(), "50".into()));
    c.container.id_call("update", &["--pids-limit", "77"], &[]).run().ok();
    assert_eq!((c.read("pids.max"), c.show("TasksMax")), ("77".into(), "77".into()));
    let events = c.container.id_call("events", &["--stats"], &[]).run().ok().stdout;
    assert!(events.contains("\"pids\":{\"current\":1,\"limit\":77"), "{events}");
    c.delete();
}

/// The error names the unit that must delegate the controller, and nothing is left.
fn missing_controller(bed: &Bed) {
    let user = User::managed(bed);
    let path = user.manager().join("cgroup.controllers");
    let is_missing = |name: &str| {
        let given = fs::read_to_string(&path).expect("controllers");
        !given.split_whitespace().any(|have| have == name)
    };
    let limits = [
        ("memory", json!({ "memory": { "limit": 67_108_864 } })),
        ("cpu", json!({ "cpu": { "shares": 2048 } })),
        ("pids", json!({ "pids": { "limit": 50 } })),
    ];
    for (name, limit) in limits.into_iter().filter(|(name, _)| is_missing(name)) {
        let c = scope(&user, user.single().set("/linux/resources", limit));
        let create = c.call("create", &[]);
        // Other units of the system's systemd may enable the controller here meanwhile.
        if is_missing(name) {
            create.fails("user@.service");
            c.is_gone();
        } else {
            c.delete();
        }
    }
}

/// A start that fails late removes its scope.
fn failed_start(bed: &Bed) {
    let user = User::managed(bed);
    let c = scope(&user, user.single().args(&["/no/such/program"]));
    c.call("run", &["--detach"]).fails("no such file");
    c.is_gone();
}

/// Two containers can't share a unit, and the second container must leave the first one alone.
fn unit_in_use(bed: &Bed) {
    let user = User::managed(bed);
    let c = scope(&user, user.single()).detached();
    let path = json!(format!("user.slice:test:{}", c.container.id));
    let id = user.bed.id();
    let container = user.single().set("/linux/cgroupsPath", path).make_as(&id);
    let other = Scope { container, user: &user, unit: c.unit.clone() };
    other.call("create", &[]).fails("container's cgroup is not empty");
    assert!(!other.container.exists());
    assert_eq!((c.container.status(), c.show("ActiveState")), ("running".into(), "active".into()));
    c.delete();
}

/// Whenever a `create` or `run` is killed, `delete --force` removes everything.
fn killed_starts(bed: &Bed) {
    let user = User::managed(bed);
    for round in 0..16 {
        let c = scope(&user, user.single());
        let bundle = c.container.bundle.to_string_lossy();
        let verb = if round % 2 == 0 { "create" } else { "run" };
        let args = ["--systemd-cgroup", verb, "--bundle", &bundle, &c.container.id];
        let running = user.bed.call(&args).spawn();
        std::thread::sleep(Duration::from_millis(round / 2 * 5));
        running.signal(rustix::process::Signal::KILL);
        let _ = running.wait();
        c.delete();
    }
}

/// When the user's systemd ends, its scopes end, too. What is left of a container can be deleted without the user's
/// systemd.
fn end_of_the_users_systemd(bed: &Bed) {
    let mut user = User::managed(bed);
    let (id, directory) = {
        let soon = json!({ "org.systemd.property.TimeoutStopSec": "uint64 1" });
        let c = scope(&user, user.single().set("/annotations", soon)).detached();
        (c.container.id.clone(), c.directory())
    };
    user.end_systemd();
    user.bed.call(&["delete", "--force", &id]).run().ok();
    assert!(!directory.exists(), "{} is left", directory.display());
    assert!(!user.bed.root().join(&id).exists());
}

fn no_bus(bed: &Bed) {
    let user = User::managed(bed);
    let c = scope(&user, user.single());
    let create = |with: &str| c.call_with(with, "create", &[]);
    create("XDG_RUNTIME_DIR=").fails("XDG_RUNTIME_DIR is not set");
    create("XDG_RUNTIME_DIR=/no/such").fails("there is no /no/such/bus: install the package");
    create("DBUS_SESSION_BUS_ADDRESS=tcp:host=h").fails("\"tcp:host=h\", names no unix:path=");
    create("DBUS_SESSION_BUS_ADDRESS=unix:path=/no/bus").fails("connect to D-Bus at /no/bus");
    c.is_gone();
}

/// The error reports a bus socket on which nothing listens.
fn nobody_on_the_bus(bed: &Bed) {
    let mut user = User::managed(bed);
    user.end_systemd();
    let bus = user.bed.dir.join("run/bus");
    let _ = fs::remove_file(&bus);
    drop(std::os::unix::net::UnixListener::bind(&bus).expect("bind"));
    std::os::unix::fs::chown(&bus, Some(user.uid), Some(user.uid)).expect("chown");
    let c = scope(&user, user.single());
    c.call("create", &[]).fails("connection refused");
    assert!(!c.container.exists());
}

fn cgroup_v1(bed: &Bed) {
    let mut user = User::new(bed);
    user.sees_systemd();
    let c = scope(&user, user.single());
    c.call("create", &[]).fails("cannot use rootless systemd cgroups manager on cgroup v1");
    assert!(!c.container.exists());
}

fn other_hosts(bed: &Bed) {
    if fs::metadata("/run/systemd/system").is_ok() {
        return;
    }
    let user = User::new(bed);
    let c = scope(&user, user.single());
    c.call("create", &[]).fails("systemd not running on this host");
    assert!(!c.container.exists());
}
