//! Namespaces: created, joined by path, left out; containers that share them.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::kernel;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(new_ones),
    case!(left_out_ones_are_the_hosts),
    case!(join_each_by_path),
    case!(pod_of_two),
    case!(shared_pid_namespace),
    case!(join_wrong_type),
    case!(join_missing_path),
    case!(duplicate),
    case!(unknown_type),
    case!(loopback_is_up),
    case!(network_of_the_host),
    case!(hostname_needs_uts),
    case!(hostname_and_domainname),
    case!(ipc_is_private),
    case!(host_pid_sees_the_host),
    case!(mount_namespace_is_required),
    case!(cgroup_namespace_root),
    case!(joined_mount_survives_the_first),
    case!(without_a_mount_namespace),
    case!(without_any_namespace),
];

const NAMESPACES: &[(&str, &str)] = &[
    ("pid", "pid"),
    ("network", "net"),
    ("ipc", "ipc"),
    ("uts", "uts"),
    ("mount", "mnt"),
    ("cgroup", "cgroup"),
];

fn namespace(pid: &str, file: &str) -> String {
    fs::read_link(format!("/proc/{pid}/ns/{file}"))
        .expect("namespace")
        .to_string_lossy()
        .into_owned()
}

fn new_ones(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let pid = c.pid().to_string();
    for (_, file) in NAMESPACES {
        assert_ne!(namespace(&pid, file), namespace("self", file), "{file}");
    }
    for file in ["user", "time"] {
        assert_eq!(namespace(&pid, file), namespace("self", file), "{file}");
    }
}

fn left_out_ones_are_the_hosts(bed: &Bed) {
    for (kind, file) in NAMESPACES {
        if *kind == "mount" {
            continue;
        }
        let bundle = bed.bundle().without_namespace(kind);
        let bundle = if *kind == "uts" { bundle.unset("/hostname") } else { bundle };
        let bundle = if *kind == "network" {
            bundle.remount("/sys", json!({ "destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro"] }))
        } else {
            bundle
        };
        let c = bundle.make().detached();
        assert_eq!(namespace(&c.pid().to_string(), file), namespace("self", file), "{file}");
        c.delete_force().ok();
    }
}

fn join_each_by_path(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let pid = first.pid().to_string();
    for (kind, file) in NAMESPACES {
        if *kind == "mount" {
            continue;
        }
        let bundle = bed.bundle().join_namespace(kind, &format!("/proc/{pid}/ns/{file}"));
        let bundle = if *kind == "uts" { bundle.unset("/hostname") } else { bundle };
        let c = bundle.make().detached();
        assert_eq!(namespace(&c.pid().to_string(), file), namespace(&pid, file), "{file}");
        c.delete_force().ok();
    }
    assert_eq!(first.status(), "running");
}

fn pod_of_two(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let pid = first.pid().to_string();
    let mut bundle = bed.bundle().unset("/hostname");
    for (kind, file) in [("network", "net"), ("ipc", "ipc"), ("uts", "uts")] {
        bundle = bundle.join_namespace(kind, &format!("/proc/{pid}/ns/{file}"));
    }
    let second = bundle.make().detached();
    assert_eq!(second.exec(&["hostname"]).ok().stdout, "dayfly-test\n");
    let text = "echo over loopback | busybox nc -l -p 4000";
    first.exec_with(&["-d"], &["sh", "-c", text]).ok();
    // Standard input stays open, since at its end nc may close the connection before the answer arrives.
    let script = "mkfifo /dev/shm/open; for i in $(seq 200); do
        busybox nc 127.0.0.1 4000 <>/dev/shm/open 2>/dev/null && exit 0; usleep 10000; done; exit 1";
    assert_eq!(second.sh(script).ok().stdout, "over loopback\n");
    first.delete_force().ok();
    assert_eq!(second.status(), "running");
}

fn shared_pid_namespace(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let second = bed
        .bundle()
        .join_namespace("pid", &format!("/proc/{}/ns/pid", first.pid()))
        .make()
        .detached();
    let seen = second.exec(&["sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; echo $$"]).ok();
    assert!(seen.stdout.starts_with("/bin/sleep 1000 "), "{seen}");
    second.kill("KILL").ok();
    second.wait_status("stopped");
    second.delete().ok();
    assert_eq!(first.status(), "running");
}

fn join_wrong_type(bed: &Bed) {
    let c = bed.bundle().join_namespace("network", "/proc/self/ns/ipc").make();
    assert_eq!(c.create().code(), 1);
    assert!(!c.exists());
}

fn join_missing_path(bed: &Bed) {
    let c = bed.bundle().join_namespace("network", "/no/such/ns").make();
    c.create().fails("no such file or directory");
    assert!(!c.exists());
}

fn duplicate(bed: &Bed) {
    bed.bundle()
        .push("/linux/namespaces", json!({ "type": "pid" }))
        .make()
        .create()
        .fails("malformed spec file: duplicated ns");
}

fn unknown_type(bed: &Bed) {
    bed.bundle()
        .push("/linux/namespaces", json!({ "type": "dreams" }))
        .make()
        .create()
        .fails("does not exist");
}

fn loopback_is_up(bed: &Bed) {
    let outcome = bed
        .bundle()
        .sh("cat /sys/class/net/lo/flags; ls /sys/class/net; ip addr show lo")
        .make()
        .run()
        .ok();
    assert!(outcome.stdout.contains("127.0.0.1/8"), "{outcome}");
    assert!(outcome.stdout.contains("LOOPBACK,UP"), "{outcome}");
    assert_eq!(outcome.lines()[..2], ["0x9", "lo"]);
}

fn network_of_the_host(bed: &Bed) {
    let c = bed
        .bundle()
        .without_namespace("network")
        .remount("/sys", json!({ "destination": "/sys", "type": "bind", "source": "/sys", "options": ["rbind", "ro"] }))
        .sh("readlink /proc/self/ns/net")
        .make();
    assert_eq!(c.run().ok().stdout.trim(), namespace("self", "net"));
}

fn hostname_needs_uts(bed: &Bed) {
    bed.bundle()
        .without_namespace("uts")
        .make()
        .create()
        .fails("unable to set hostname without a private UTS namespace");
    bed.bundle()
        .without_namespace("uts")
        .unset("/hostname")
        .set("/domainname", json!("example.org"))
        .make()
        .create()
        .fails("unable to set domainname without a private UTS namespace");
}

fn hostname_and_domainname(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/hostname", json!("mayfly"))
        .set("/domainname", json!("example.org"))
        .sh("hostname; cat /proc/sys/kernel/domainname")
        .make();
    assert_eq!(c.run().ok().stdout, "mayfly\nexample.org\n");
}

fn ipc_is_private(bed: &Bed) {
    let outcome =
        bed.bundle().sh("cat /proc/sysvipc/shm | wc -l; ls /dev/mqueue | wc -l").make().run().ok();
    assert_eq!(outcome.stdout, "1\n0\n");
}

fn host_pid_sees_the_host(bed: &Bed) {
    let me = std::process::id();
    let c = bed
        .bundle()
        .without_namespace("pid")
        .sh(&format!("test -d /proc/{me} && echo seen"))
        .make();
    assert_eq!(c.run().ok().stdout, "seen\n");
}

fn mount_namespace_is_required(bed: &Bed) {
    let c = bed.bundle().without_namespace("mount").make();
    assert_eq!(c.create().code(), 1);
    assert!(!c.exists());
}

fn cgroup_namespace_root(bed: &Bed) {
    let outcome = bed.bundle().sh("cat /proc/self/cgroup").make().run().ok();
    for line in outcome.lines() {
        assert!(line.ends_with(":/") || line.starts_with("0::"), "{outcome}");
    }
    assert!(!outcome.stdout.contains("dayfly-test"), "{outcome}");
}

fn joined_mount_survives_the_first(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let second = bed
        .bundle()
        .join_namespace("ipc", &format!("/proc/{}/ns/ipc", first.pid()))
        .make()
        .detached();
    first.delete_force().ok();
    second.exec(&["true"]).ok();
}

/// Makes a container that shares the host's namespaces of these kinds.
fn without<'a>(bed: &'a Bed, kinds: &[&str]) -> dayfly_tests::container::Container<'a> {
    let all = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let left: Vec<_> = all
        .iter()
        .filter(|kind| !kinds.contains(kind))
        .map(|kind| json!({ "type": kind }))
        .collect();
    let bundle = bed.bundle().set("/linux/namespaces", json!(left));
    let bundle = bundle.unset("/linux/maskedPaths").unset("/linux/readonlyPaths");
    let bundle = if kinds.contains(&"uts") { bundle.unset("/hostname") } else { bundle };
    bundle.set("/linux/sysctl", json!({})).make()
}

fn without_a_mount_namespace(bed: &Bed) {
    let c = without(bed, &["mount"]);
    let table = || fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let before = table();
    if kernel::has_detached().is_err() {
        c.create().fails("a container without a mount namespace needs Linux 6.15");
        return;
    }
    let c = c.detached();
    let own = fs::read_link("/proc/self/ns/mnt").expect("ns");
    assert_eq!(fs::read_link(format!("/proc/{}/ns/mnt", c.pid())).expect("ns"), own);
    // The container's processes, including those of exec, see its mounts, which are not visible elsewhere.
    fs::write(c.bundle.join("rootfs/mark"), "inside\n").expect("write");
    assert_eq!(c.exec(&["cat", "/mark"]).ok().stdout, "inside\n");
    c.sh("test -e /proc/self/stat && test -c /dev/null && test -d /sys/kernel").ok();
    assert_eq!(c.sh("pwd; readlink /proc/self/root").ok().stdout, "/\n/\n");
    assert_eq!(table(), before);
    c.delete_force().ok();
    assert_eq!(table(), before);
}

fn without_any_namespace(bed: &Bed) {
    if kernel::has_detached().is_err() {
        return;
    }
    let kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let c = without(bed, &kinds).detached();
    for kind in ["pid", "net", "ipc", "uts", "mnt", "cgroup"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("ns");
        assert_eq!(of(&c.pid().to_string()), of("self"), "{kind}");
    }
    c.exec(&["true"]).ok();
    c.kill("KILL").ok();
    c.wait_status("stopped");
    c.delete().ok();
}
