//! Cgroups of an unprivileged user's containers: none, one that root delegated to the user, and limits in it.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{self, User, can_be};
use dayfly_tests::view::View;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(none).needs(can_be).unlike_runc(),
    case!(delegated).needs(can_be).on(V2),
    case!(delegated_limits).needs(can_be).on(V2).needs(pids_controller),
    case!(are_read_only).needs(can_be).unlike_runc(),
];

const V2: &[View] = &[View::V2];

fn pids_controller() -> Result<(), String> {
    can_be()?;
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    match controllers.split_whitespace().any(|name| name == "pids") {
        true => Ok(()),
        false => Err("no pids controller in cgroup v2: scripts/bed guest-suite".to_owned()),
    }
}

fn none(bed: &Bed) {
    let user = User::new(bed);
    let own = fs::read_to_string("/proc/self/cgroup").expect("own cgroup");
    let c = user.single().make().detached();
    let theirs = fs::read_to_string(format!("/proc/{}/cgroup", c.pid())).expect("cgroup");
    assert_eq!(theirs, own);
    c.sh("true").ok();
    c.id_call("pause", &[], &[]).run().fails("the container has no cgroup of its own");
    c.id_call("kill", &["--all"], &["KILL"]).run().ok();
    c.wait_status("stopped");
    let limited = user.single().set("/linux/resources/pids", json!({ "limit": 10 })).make().run();
    limited
        .fails("rootless needs no limits + no cgrouppath when no permission is granted for cgroups")
        .fails("permission denied; leave the limits out, or delegate a cgroup (docs/rootless.md)");
    let path = "/dayfly-test/not-mine";
    let c = user.single().set("/linux/cgroupsPath", json!(path)).make();
    c.run().fails("permission denied");
}

fn delegated(bed: &Bed) {
    let user = User::delegated(bed);
    let c = user.ranges().make().detached();
    let cgroup = user.cgroup().join(&c.id);
    let procs = || fs::read_to_string(cgroup.join("cgroup.procs")).expect("cgroup.procs");
    assert_eq!(procs().trim(), c.pid().to_string());
    assert_eq!(user::owner(&cgroup), user.uid);
    c.exec_with(&["--detach"], &["/bin/sleep", "1000"]).ok();
    assert_eq!(procs().lines().count(), 2);
    c.id_call("pause", &[], &[]).run().ok();
    assert_eq!(c.status(), "paused");
    c.id_call("resume", &[], &[]).run().ok();
    assert_eq!(
        c.id_call("ps", &["--format", "json"], &[]).run().ok().stdout.matches(',').count(),
        1
    );
    c.kill("KILL").ok();
    c.wait_status("stopped");
    c.delete().ok();
    assert!(!cgroup.exists());
    // The configuration names a cgroup outside the caller's own.
    let path = user.cgroup().strip_prefix("/sys/fs/cgroup").expect("cgroup").join("named");
    let named = json!(format!("/{}", path.display()));
    let c = user.ranges().set("/linux/cgroupsPath", named.clone()).make().detached();
    assert!(user.cgroup().join("named").exists());
    c.delete_force().ok();
    let outsider = User::new(bed);
    outsider.ranges().set("/linux/cgroupsPath", named).make().run().fails_permission();
}

/// Asserts that the kernel denied permission.
trait Denied {
    fn fails_permission(self);
}

impl Denied for dayfly_tests::runtime::Outcome {
    #[track_caller]
    fn fails_permission(self) {
        assert!(self.code() == 1 && self.stderr.contains("permission denied"), "{self}");
    }
}

fn delegated_limits(bed: &Bed) {
    let user = User::delegated(bed);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+pids +memory").expect("enable");
    fs::write("/sys/fs/cgroup/dayfly-test/cgroup.subtree_control", "+pids +memory")
        .expect("enable");
    let resources = json!({ "pids": { "limit": 20 }, "memory": { "limit": 64 << 20 } });
    let c = user.ranges().set("/linux/resources", resources).make().detached();
    let read =
        |file: &str| fs::read_to_string(user.cgroup().join(&c.id).join(file)).expect("limit");
    assert_eq!((read("pids.max").trim(), read("memory.max").trim()), ("20", "67108864"));
    c.id_call("update", &["--pids-limit", "30"], &[]).run().ok();
    assert_eq!(read("pids.max").trim(), "30");
    let events = c.id_call("events", &["--stats"], &[]).run().ok();
    assert!(events.stdout.contains("\"pids\""), "{events}");
}

/// CVE-2023-25809: cgroup files that the user may write on the host must not be writable in the container.
fn are_read_only(bed: &Bed) {
    let user = User::delegated(bed);
    let script = |top: &str| {
        "find() { for at in \"$1\"/*; do [ ! -d \"$at\" ] || { echo \"$at\"; find \"$at\"; }; done; }; \
         [ -d /sys/fs/cgroup ] || exit 3; \
         for at in TOP $(find /sys/fs/cgroup | grep dayfly-test); do \
         mkdir $at/mine 2>/dev/null && echo made $at/mine; done; echo end"
            .replace("TOP", top)
    };
    let sys = json!({ "destination": "/sys", "type": "none", "source": "/sys",
        "options": ["rbind", "nosuid", "noexec", "nodev", "ro"] });
    let bundle = |top| user.single().remount("/sys", sys.clone()).sh(&script(top));
    let mut without = bundle("/sys/fs/cgroup").without_namespace("cgroup");
    let mounts = without.config["mounts"].as_array_mut().expect("mounts");
    mounts.retain(|mount| mount["destination"] != "/sys/fs/cgroup");
    assert_eq!(without.make().run().ok().stdout, "end\n");
    // With v1, the top is a tmpfs of the container's own.
    let top = if bed.view.has_v1() { "" } else { "/sys/fs/cgroup" };
    let c = bundle(top).without_namespace("cgroup").make();
    assert_eq!(c.run().ok().stdout, "end\n");
}
