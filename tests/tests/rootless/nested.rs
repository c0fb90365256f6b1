//! An unprivileged user makes a user namespace, and starts containers as root of this namespace, as in rootless Podman.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::user::{self, User, can_be};
use dayfly_tests::wait;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(host_network).needs(can_be).unlike_runc(),
    case!(ids).needs(can_be),
    case!(exec_and_groups).needs(can_be),
    case!(pod).needs(can_be),
];

fn host_network(bed: &Bed) {
    let user = User::nested(bed);
    let host = user.plain().without_namespace("network").sh("ls /sys/class/net").make();
    assert!(host.run().ok().lines().contains(&"lo"));
    // The caller's user namespace owns the network namespace of the pod.
    let first = user.plain().make().detached();
    let path = format!("/proc/{}/ns/net", first.pid());
    let script = "ls /sys/class/net; grep -c ' - sysfs sysfs rw' /proc/self/mountinfo";
    let pod = user.plain().join_namespace("network", &path).sh(script).make();
    assert_eq!(pod.run().ok().lines()[0], "lo");
}

fn ids(bed: &Bed) {
    let user = User::nested(bed);
    let script = "id -u; cat /proc/self/uid_map | wc -l; echo x >/dev/null && echo device; \
                  touch /tmp/theirs; cat /proc/keys | wc -c";
    let c =
        user.plain().set("/process/user", json!({ "uid": 1000, "gid": 1000 })).sh(script).make();
    assert_eq!(c.run().ok().stdout, "1000\n2\ndevice\n0\n");
    assert_eq!(user::owner(&c.bundle.join("rootfs/tmp/theirs")), user.first + 999);
    // A user namespace inside the user namespace, as with Podman's keep-id.
    let map = json!([{ "containerID": 0, "hostID": 1, "size": 1000 },
        { "containerID": 1000, "hostID": 0, "size": 1 }]);
    let c = user
        .plain()
        .push("/linux/namespaces", json!({ "type": "user" }))
        .set("/linux/uidMappings", map.clone())
        .set("/linux/gidMappings", map)
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .sh("id -u; touch /tmp/kept");
    let c = c.make();
    assert_eq!(c.run().ok().stdout, "1000\n");
    assert_eq!(user::owner(&c.bundle.join("rootfs/tmp/kept")), user.uid);
}

fn exec_and_groups(bed: &Bed) {
    let user = User::nested(bed);
    let c = user
        .plain()
        .set("/process/user", json!({ "uid": 5, "gid": 6, "additionalGids": [10, 20] }))
        .set("/process/oomScoreAdj", json!(150))
        .make()
        .detached();
    let script = "id -u; id -G; cat /proc/self/oom_score_adj; readlink /proc/self/ns/pid";
    let outcome = c.sh(script).ok();
    let pid = fs::read_link(format!("/proc/{}/ns/pid", c.pid())).expect("namespace");
    assert_eq!(outcome.lines(), ["5", "6 10 20", "150", &pid.to_string_lossy()]);
    c.kill("TERM").ok();
    c.kill("KILL").ok();
    c.wait_status("stopped");
    c.delete().ok();
}

fn pod(bed: &Bed) {
    let user = User::nested(bed);
    let first = user.plain().make().detached();
    let pid = first.pid();
    let kinds = ["pid", "network", "ipc", "uts"];
    let second = kinds.into_iter().fold(user.plain(), |bundle, kind| {
        let file = if kind == "network" { "net" } else { kind };
        bundle.join_namespace(kind, &format!("/proc/{pid}/ns/{file}"))
    });
    let second = second.make().detached();
    let link = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).expect("namespace");
    assert_eq!(link(pid), link(second.pid()));
    assert_eq!(second.sh("hostname").ok().stdout, "dayfly-test\n");
    first.kill("KILL").ok();
    wait::until_true("the pod's end", || second.status() == "stopped");
}
