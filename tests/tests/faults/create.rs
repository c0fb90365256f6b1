//! Walks through the fault points of `create` and `start`, for a plain container and for containers that need other
//! steps: hooks, a user namespace, a terminal, and so on.

use super::commands::patient;
use super::walk::Walk;
use super::{fault_points, walked};
use crate::net_devices::Pair;
use dayfly_tests::agent::Agent;
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, wait};
use serde_json::json;
use std::cell::RefCell;
use sys::unotify::Answer;

dayfly_tests::subject!(Runtime, CASES);

pub const CASES: &[Case] = &[
    case!(plain).needs(fault_points),
    case!(with_hooks).needs(fault_points),
    case!(with_user_namespace).needs(fault_points),
    case!(with_attributes).needs(fault_points),
    case!(with_things_of_the_host).needs(fault_points),
    case!(with_a_terminal).needs(fault_points),
    case!(in_joined_namespaces).needs(fault_points),
    case!(without_pivot).needs(fault_points),
    case!(without_a_mount_namespace).needs(fault_points),
    case!(modules_that_are_missing).needs(fault_points),
];

fn plain(bed: &Bed) {
    Walk::new(bed.bundle()).take();
    walked();
}

fn with_hooks(bed: &Bed) {
    let hook = json!([{ "path": "/bin/true" }]);
    let bundle = bed
        .bundle()
        .set("/hooks/prestart", hook.clone())
        .set("/hooks/createRuntime", hook.clone())
        .set("/hooks/createContainer", hook.clone())
        .set("/hooks/startContainer", hook)
        .set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }));
    Walk::new(bundle).take();
    walked();
}

fn with_user_namespace(bed: &Bed) {
    let rlimit = json!([{ "type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512 }]);
    Walk::new(crate::userns::mapped(bed).set("/process/rlimits", rlimit)).take();
    walked();
}

fn with_attributes(bed: &Bed) {
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
    walked();
}

/// The steps for id-mapped mounts, an overlay, network devices of the host, a seccomp agent and a time namespace.
fn with_things_of_the_host(bed: &Bed) {
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
        .mount("overlay", "overlay", "/overlay", &["lowerdir=/etc:/bin"])
        .mount("tmpfs", "tmpfs", "/dev", &["remount", "size=1m"])
        .mount("bind", "/etc/hostname", "/name", &["bind", "copy-symlink"])
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
            // The old device has vanished with its namespace, or is about to.
            drop(device.take());
            let peer = format!("{}p", &name);
            *device = Some(wait::until("a network device", || Pair::named(&name, &peer).ok()));
        }
    };
    walk.prepare = Box::new(prepare);
    walk.take();
    walked();
}

fn with_a_terminal(bed: &Bed) {
    let socket = patient(&bed.dir.join("console.sock"));
    let mut walk = Walk::new(bed.bundle().set("/process/terminal", json!(true)));
    walk.flags = vec!["--console-socket".to_owned(), socket];
    walk.take();
    walked();
}

fn in_joined_namespaces(bed: &Bed) {
    let first = bed.bundle().make().detached();
    let mut bundle = bed.bundle();
    for (kind, file) in [("pid", "pid"), ("network", "net"), ("ipc", "ipc"), ("uts", "uts")] {
        bundle = bundle.join_namespace(kind, &format!("/proc/{}/ns/{file}", first.pid()));
    }
    Walk::new(bundle).take();
    let network = format!("/proc/{}/ns/net", first.pid());
    Walk::new(crate::userns::mapped(bed).join_namespace("network", &network)).take();
    let first = crate::userns::mapped(bed).make().detached();
    let user = format!("/proc/{}/ns/user", first.pid());
    // The mappings are those of the joined namespace, which is verified.
    Walk::new(crate::userns::mapped(bed).join_namespace("user", &user)).take();
    walked();
}

fn without_pivot(bed: &Bed) {
    let mut walk = Walk::new(bed.bundle().mount("none", "none", "/dev", &["remount", "ro"]));
    walk.flags = vec!["--no-pivot".to_owned()];
    walk.take();
    walked();
}

fn without_a_mount_namespace(bed: &Bed) {
    let bundle = bed.bundle().without_namespace("mount").mount("tmpfs", "tmpfs", "/mnt", &["ro"]);
    Walk::new(bundle.unset("/linux/maskedPaths").unset("/linux/readonlyPaths")).take();
    walked();
}

/// A missing kernel module is detected in a separate step, which can also fail.
fn modules_that_are_missing(bed: &Bed) {
    let walk = Walk::new(bed.bundle().set("/process/apparmorProfile", json!("p")));
    for step in walk.steps().iter().filter(|step| step.name == "require module") {
        walk.strike(step);
    }
    walked();
}
