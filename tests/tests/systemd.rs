//! The systemd cgroup driver, on a machine run by systemd: `scripts/guest --systemd`, or without limits
//! `scripts/systemd-host`.

pub mod early;
pub mod restores;
pub mod service;

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use dayfly_tests::view::View;
use dayfly_tests::{case, wait};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const V2: &[View] = &[View::V2];

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(other_hosts),
    case!(paths_of_the_other_driver),
    case!(life).needs(systemd).on(V2),
    case!(default_unit).needs(systemd).on(V2),
    case!(limits).needs(controllers).on(V2),
    case!(one_task).needs(controllers).on(V2),
    case!(update).needs(controllers).on(V2),
    case!(daemon_reload).needs(controllers).on(V2).alone(),
    case!(annotations).needs(systemd).on(V2),
    case!(exec_and_pause).needs(systemd).on(V2),
    case!(devices).needs(systemd).on(V2),
    case!(host_cgroup_namespace).needs(systemd).on(V2),
    case!(user_namespace).needs(systemd).on(V2),
    case!(stubborn_processes).needs(systemd).on(V2),
    case!(unit_in_use).needs(systemd).on(V2),
    case!(failed_start).needs(systemd).on(V2),
    case!(killed_creates).needs(systemd).on(V2),
    case!(private_socket).needs(systemd).on(V2),
    case!(stalled_bus).needs(systemd).on(V2),
];

/// Returns an error unless systemd manages the host.
pub fn systemd() -> Result<(), String> {
    // A connection that asks nothing makes systemd write a warning.
    match fs::read_to_string("/proc/1/comm").is_ok_and(|name| name.trim() == "systemd") {
        true => Ok(()),
        false => Err("systemd is not pid 1 here: scripts/guest --systemd".to_owned()),
    }
}

/// Returns an error unless systemd manages the host, with the controllers of memory and pids on cgroup v2.
fn controllers() -> Result<(), String> {
    systemd()?;
    let list = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match ["memory", "pids"].iter().all(|name| list.split_whitespace().any(|it| it == *name)) {
        true => Ok(()),
        false => Err("cgroup v2 has no controllers here: scripts/guest --systemd".to_owned()),
    }
}

/// With systemd on this kernel, criu misses the mount of the output's file.
/// A container in a scope of this slice.
struct Scope<'a> {
    container: Container<'a>,
    slice: &'static str,
    unit: String,
}

fn scope<'a>(bed: &'a Bed, bundle: Bundle<'a>, slice: &'static str) -> Scope<'a> {
    let id = bed.id();
    let path = json!(format!("{slice}:test:{id}"));
    let container = bundle.set("/linux/cgroupsPath", path).make_as(&id);
    Scope { container, slice, unit: format!("test-{id}.scope") }
}

impl Scope<'_> {
    fn call(&self, verb: &str, flags: &[&str]) -> Outcome {
        self.container.scope_call(verb, flags).run()
    }

    #[track_caller]
    fn detached(self) -> Self {
        self.call("run", &["--detach"]).ok();
        self
    }

    fn directory(&self) -> PathBuf {
        let slice = match self.slice {
            "dftest-inner.slice" => "dftest.slice/dftest-inner.slice",
            other => other,
        };
        PathBuf::from("/sys/fs/cgroup").join(slice).join(&self.unit)
    }

    #[track_caller]
    fn read(&self, file: &str) -> String {
        let path = self.directory().join(file);
        match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) => panic!("read {}: {error}", path.display()),
        }
    }

    fn show(&self, property: &str) -> String {
        show(&self.unit, property)
    }

    #[track_caller]
    fn delete(&self) {
        self.container.delete_force().ok();
        self.is_gone();
    }

    /// Waits until neither the cgroup nor the unit is left: systemd removes both, after the end of a container that ran.
    #[track_caller]
    fn is_gone(&self) {
        wait::until_true("the unit to go", || self.show("LoadState") == "not-found");
        assert!(!self.directory().exists(), "{} is left", self.directory().display());
    }
}

/// Returns the units of systemd and the directories of system.slice whose names begin with `prefix`.
pub fn left_in_slice(prefix: &str) -> Vec<String> {
    let args = ["list-units", "--all", "--no-legend", "--plain", &format!("{prefix}*")];
    let units = Command::new("systemctl").args(args).output().expect("systemctl").stdout;
    let mut left: Vec<String> =
        String::from_utf8_lossy(&units).lines().map(str::to_owned).collect();
    let directories = fs::read_dir("/sys/fs/cgroup/system.slice").expect("slice").flatten();
    let names = directories.map(|entry| entry.file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| name.starts_with(prefix)));
    left
}

fn show(unit: &str, property: &str) -> String {
    let args = ["show", "--value", "-p", property, unit];
    let output = Command::new("systemctl").args(args).output().expect("systemctl");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn limited(bed: &Bed, resources: Value) -> Bundle<'_> {
    bed.bundle().set("/linux/resources", resources)
}

/// On a host without systemd, the driver reports an error, and makes nothing.
fn other_hosts(bed: &Bed) {
    // The runtime asks whether this directory exists.
    if fs::metadata("/run/systemd/system").is_ok() {
        return;
    }
    let c = scope(bed, bed.bundle(), "system.slice");
    c.call("create", &[]).fails("systemd not running on this host");
    assert!(!c.container.exists());
}

/// Each driver refuses a path in the other driver's form, and the error names the missing option or the expected form.
fn paths_of_the_other_driver(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "system.slice").container;
    c.create().fails("--systemd-cgroup");
    assert!(!c.exists());
    if systemd().is_err() {
        return;
    }
    let id = bed.id();
    let container = bed.bundle().set("/linux/cgroupsPath", json!("/a/b")).make_as(&id);
    let other = Scope { container, slice: "", unit: String::new() };
    other.call("create", &[]).fails("slice:prefix:name");
    assert!(!other.container.exists());
}

fn life(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "dftest-inner.slice");
    c.call("create", &[]).ok();
    assert_eq!(c.container.status(), "created");
    wait::until_true("the unit to start", || c.show("ActiveState") == "active");
    assert_eq!(c.show("Slice"), "dftest-inner.slice");
    assert_eq!(c.show("Delegate"), "yes");
    assert_eq!(c.show("DefaultDependencies"), "no");
    // The scope contains only init: the process that was in the scope before init has exited.
    let pid = c.container.pid();
    wait::until_true("the holder to leave", || c.read("cgroup.procs") == pid.to_string());
    let own = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("cgroup");
    assert!(own.trim().ends_with(&format!("dftest.slice/dftest-inner.slice/{}", c.unit)), "{own}");
    c.container.start().ok();
    assert_eq!(c.container.status(), "running");
    let ps = c.container.id_call("ps", &["--format", "json"], &[]).run().ok().stdout;
    assert_eq!(ps.trim(), format!("[{pid}]"));
    let events = c.container.id_call("events", &["--stats"], &[]).run().ok().stdout;
    assert!(events.contains("\"pids\":{\"current\":1"), "{events}");
    c.container.kill("KILL").ok();
    c.container.wait_status("stopped");
    c.container.delete().ok();
    c.is_gone();
    // The same name can be used again at once.
    let c = c.detached();
    c.delete();
}

fn default_unit(bed: &Bed) {
    let id = bed.id();
    let container = bed.bundle().set("/linux/cgroupsPath", json!("")).make_as(&id);
    let c = Scope { container, slice: "system.slice", unit: format!("dayfly-{id}.scope") };
    let c = c.detached();
    assert_eq!(c.show("ActiveState"), "active");
    assert!(c.directory().exists());
    c.delete();
}

fn limits(bed: &Bed) {
    let resources = json!({
        "memory": { "limit": 67_108_864, "reservation": 16_777_216, "swap": 100_663_296 },
        "pids": { "limit": 50 },
        "cpu": { "shares": 2048, "quota": 12_345, "period": 100_000, "cpus": "0", "mems": "0" },
        "unified": { "memory.high": "50331648", "memory.oom.group": "1" },
    });
    let c = scope(bed, limited(bed, resources), "system.slice").detached();
    for (file, value) in [
        ("memory.max", "67108864"),
        ("memory.low", "16777216"),
        ("memory.swap.max", "33554432"),
        ("memory.high", "50331648"),
        ("memory.oom.group", "1"),
        ("pids.max", "50"),
        // systemd rounds the quota to this value.
        ("cpu.max", "13000 100000"),
        ("cpu.weight", "174"),
        ("cpuset.cpus", "0"),
        ("cpuset.mems", "0"),
    ] {
        assert_eq!(c.read(file), value, "{file}");
    }
    for (property, value) in [
        ("MemoryMax", "67108864"),
        ("MemoryLow", "16777216"),
        ("MemoryHigh", "50331648"),
        ("MemorySwapMax", "33554432"),
        ("TasksMax", "50"),
        ("CPUQuotaPerSecUSec", "130ms"),
        ("CPUWeight", "174"),
        ("AllowedCPUs", "0"),
        ("AllowedMemoryNodes", "0"),
    ] {
        assert_eq!(c.show(property), value, "{property}");
    }
    c.delete();
}

/// The process that is in the scope until init exists does not count against init's limit.
fn one_task(bed: &Bed) {
    let c = scope(bed, limited(bed, json!({ "pids": { "limit": 1 } })), "system.slice").detached();
    assert_eq!((c.read("pids.max"), c.read("pids.current")), ("1".into(), "1".into()));
    assert_eq!(c.show("TasksMax"), "1");
    c.delete();
}

fn update(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "system.slice").detached();
    let flags = ["--memory", "67108864", "--pids-limit", "77", "--cpu-quota", "50000"];
    c.container.id_call("update", &flags, &[]).run().ok();
    assert_eq!((c.read("memory.max"), c.show("MemoryMax")), ("67108864".into(), "67108864".into()));
    assert_eq!((c.read("pids.max"), c.show("TasksMax")), ("77".into(), "77".into()));
    assert_eq!(c.show("CPUQuotaPerSecUSec"), "500ms");
    assert_eq!(c.read("cpu.max"), "50000 100000");
    c.container.id_call("update", &["--cpu-idle", "1"], &[]).run().ok();
    assert_eq!(c.read("cpu.idle"), "1");
    c.delete();
}

/// After a daemon-reload, systemd writes the limits of its units again. They must equal those that dayfly has set.
fn daemon_reload(bed: &Bed) {
    let resources = json!({ "memory": { "limit": 67_108_864 }, "pids": { "limit": 50 } });
    let c = scope(bed, limited(bed, resources), "system.slice").detached();
    c.container.id_call("update", &["--memory", "50331648"], &[]).run().ok();
    let reload = Command::new("systemctl").arg("daemon-reload").status().expect("systemctl");
    assert!(reload.success());
    assert_eq!((c.read("memory.max"), c.read("pids.max")), ("50331648".into(), "50".into()));
    c.container.sh("head -c 1 /dev/zero >/dev/null").ok();
    c.delete();
}

fn annotations(bed: &Bed) {
    let bundle = bed.bundle().set(
        "/annotations",
        json!({
            "org.systemd.property.Description": "'a test of dayfly'",
            "org.systemd.property.TimeoutStopSec": "uint64 7",
            "org.systemd.property.CollectMode": "'inactive-or-failed'",
        }),
    );
    let c = scope(bed, bundle, "system.slice").detached();
    assert_eq!(c.show("Description"), "a test of dayfly");
    assert_eq!(c.show("TimeoutStopUSec"), "7s");
    assert_eq!(c.show("CollectMode"), "inactive-or-failed");
    c.delete();
    for (key, value, message) in [
        ("TimeoutStopSec", "'x'", "not a number of seconds"),
        ("Bad-Name", "1", "non-alphabetic"),
        ("NoSuchThing", "true", "NoSuchThing"),
    ] {
        let annotations = json!({ format!("org.systemd.property.{key}"): value });
        let c = scope(bed, bed.bundle().set("/annotations", annotations), "system.slice");
        c.call("create", &[]).fails(message);
        assert!(!c.container.exists());
        c.is_gone();
    }
}

fn exec_and_pause(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "system.slice").detached();
    let seen = c.container.exec(&["cat", "/proc/self/cgroup"]).ok().stdout;
    assert!(seen.lines().any(|line| line == "0::/"), "{seen}");
    c.container.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.container.status(), "paused");
    c.container.id_call("resume", &[], &[]).run().ok();
    assert_eq!(c.container.status(), "running");
    c.container.id_call("pause", &[], &[]).run().ok();
    c.delete();
}

fn devices(bed: &Bed) {
    let caps = ["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"];
    let c = limited(bed, json!({ "devices": [{ "allow": false, "access": "rwm" }] })).set(
        "/process/capabilities",
        json!({ "effective": caps, "permitted": caps, "bounding": caps }),
    );
    let c = scope(bed, c, "system.slice").detached();
    assert_eq!(c.show("DevicePolicy"), "strict");
    c.container.sh("echo x >/dev/null && head -c 1 /dev/zero >/dev/null").ok();
    let refused = c.container.sh("mknod /tmp/kmsg c 1 11 && head -c 1 /tmp/kmsg").exits(1);
    assert!(refused.stderr.contains("Operation not permitted"), "{refused}");
    c.delete();
}

/// Without a cgroup namespace the container sees the host's tree, including its own cgroup.
fn host_cgroup_namespace(bed: &Bed) {
    let c = scope(bed, bed.bundle().without_namespace("cgroup"), "system.slice").detached();
    let file = format!("/sys/fs/cgroup/system.slice/{}/cgroup.procs", c.unit);
    c.container.sh(&format!("grep -qx 1 {file} || cat {file} >/dev/null")).ok();
    c.delete();
}

fn user_namespace(bed: &Bed) {
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
    let bundle = bed
        .bundle()
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", map.clone())
        .set("/linux/gidMappings", map);
    let c = scope(bed, bundle, "system.slice").detached();
    assert_eq!(c.read("cgroup.procs"), c.container.pid().to_string());
    c.delete();
}

/// `delete --force` does not wait for systemd's stop timeout.
fn stubborn_processes(bed: &Bed) {
    let script = "trap '' TERM; sleep 1000 & while :; do sleep 1; done";
    let c = scope(bed, bed.bundle().without_namespace("pid").sh(script), "system.slice").detached();
    let since = Instant::now();
    c.delete();
    assert!(since.elapsed().as_secs() < 60, "took {:?}", since.elapsed());
}

/// Two containers can't share a unit, and the second container must leave the first one alone.
fn unit_in_use(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "system.slice").detached();
    let path = json!(format!("system.slice:test:{}", c.container.id));
    let id = bed.id();
    let container = bed.bundle().set("/linux/cgroupsPath", path).make_as(&id);
    let other = Scope { container, slice: "system.slice", unit: c.unit.clone() };
    other.call("create", &[]).fails("container's cgroup is not empty");
    assert!(!other.container.exists());
    assert_eq!((c.container.status(), c.show("ActiveState")), ("running".into(), "active".into()));
    c.delete();
}

/// A start that fails late removes its scope.
fn failed_start(bed: &Bed) {
    let c = scope(bed, bed.bundle().args(&["/no/such/program"]), "system.slice");
    c.call("run", &["--detach"]).fails("no such file");
    assert!(!c.container.exists());
    c.is_gone();
}

/// Whenever a `create` is killed, `delete --force` removes everything.
fn killed_creates(bed: &Bed) {
    for round in 0..12 {
        let c = scope(bed, bed.bundle(), "system.slice");
        let bundle = c.container.bundle.to_string_lossy();
        let args = ["--systemd-cgroup", "create", "--bundle", &bundle, &c.container.id];
        let running = bed.call(&args).spawn();
        std::thread::sleep(Duration::from_millis(round * 3));
        running.signal(rustix::process::Signal::KILL);
        let _ = running.wait();
        c.container.delete_force().ok();
        c.is_gone();
        // The holder waits for two seconds before it asks whether the killed `create` has sent its request.
        c.container.assert_gone("the killed create");
    }
}

/// If there is no bus, dayfly uses systemd's private socket.
fn private_socket(bed: &Bed) {
    let c = scope(bed, bed.bundle(), "system.slice");
    let bundle = c.container.bundle.to_string_lossy().into_owned();
    let args = ["--systemd-cgroup", "run", "--detach", "--bundle", &bundle, &c.container.id];
    let program = bed.runtime().to_string_lossy().into_owned();
    let root = bed.root().to_string_lossy().into_owned();
    // For these commands only, a tmpfs hides the bus's socket.
    let script = "mount -t tmpfs none /run/dbus && exec \"$@\"";
    let hide = ["-m", "--propagation", "private", "sh", "-c", script, "sh", &program];
    let without_bus = |args: &[&str]| {
        let all = [&hide[..], &["--root", &root], args].concat();
        bed.program("unshare", &all).run().ok()
    };
    without_bus(&args);
    assert_eq!(c.show("ActiveState"), "active");
    // `StopUnit` is a short message, which systemd did not answer within 30 s.
    let since = Instant::now();
    without_bus(&["--systemd-cgroup", "delete", "--force", &c.container.id]);
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    c.is_gone();
}

/// A bus that accepts connections and never answers.
fn stalled_bus(bed: &Bed) {
    let socket = bed.dir.join("bus");
    let _listener = UnixListener::bind(&socket).expect("bind");
    let c = scope(bed, bed.bundle(), "system.slice");
    let bundle = c.container.bundle.to_string_lossy();
    let args = ["--systemd-cgroup", "create", "--bundle", &bundle, &c.container.id];
    let address = format!("unix:path={}", socket.display());
    let call = bed.call(&args).env("DBUS_SYSTEM_BUS_ADDRESS", &address);
    call.within(wait::patience() * 3).run().fails("no answer within 30.0 s");
    assert!(!c.container.exists());
    c.is_gone();
}
