//! What dayfly does not honour yet is refused by name, before anything is made.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

pub const CASES: &[Case] = &[
    case!(time_namespace),
    case!(idmapped_mounts),
    case!(process_properties),
    case!(linux_properties),
    case!(seccomp_listeners),
];

/// A container with one property more is refused, the message names it, and nothing is left.
fn is_refused(bed: &Bed, pointer: &str, value: Value, name: &str) {
    let c = bed.bundle().set(pointer, value).make();
    let outcome = c.create().fails("not supported");
    assert!(outcome.stderr.contains(name), "{name} is not named: {outcome}");
    assert!(!c.exists());
}

fn time_namespace(bed: &Bed) {
    let c = bed.bundle().push("/linux/namespaces", json!({ "type": "time" })).make();
    c.create().fails("not supported");
    is_refused(bed, "/linux/timeOffsets", json!({ "boottime": { "secs": 7 } }), "timeOffsets");
}

fn idmapped_mounts(bed: &Bed) {
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
    let mount = json!({
        "destination": "/mnt", "type": "bind", "source": "/tmp", "options": ["rbind"],
        "uidMappings": map, "gidMappings": map,
    });
    let outcome = bed.bundle().push("/mounts", mount).make().create().fails("not supported");
    assert!(outcome.stderr.contains("uidMappings"), "{outcome}");
}

fn process_properties(bed: &Bed) {
    let scheduler = json!({ "policy": "SCHED_BATCH", "nice": 5 });
    is_refused(bed, "/process/scheduler", scheduler, "scheduler");
    let priority = json!({ "class": "IOPRIO_CLASS_BE", "priority": 6 });
    is_refused(bed, "/process/ioPriority", priority, "ioPriority");
    is_refused(bed, "/process/apparmorProfile", json!("some"), "apparmorProfile");
    is_refused(bed, "/process/selinuxLabel", json!("a:b:c:s0"), "selinuxLabel");
}

fn linux_properties(bed: &Bed) {
    is_refused(bed, "/linux/personality", json!({ "domain": "LINUX32" }), "personality");
    is_refused(bed, "/linux/intelRdt", json!({ "closID": "x" }), "intelRdt");
    is_refused(bed, "/linux/mountLabel", json!("a:b:c:s0"), "mountLabel");
}

fn seccomp_listeners(bed: &Bed) {
    let notify = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["mkdir"], "action": "SCMP_ACT_NOTIFY" }],
    });
    is_refused(bed, "/linux/seccomp", notify, "SCMP_ACT_NOTIFY");
}
