//! Words of the configuration that dayfly does not know: each is refused, or there is a warning.

use super::{refused, set};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] =
    &[case!(unknown_words).unlike_runc(), case!(annotations_without_effect).unlike_runc()];

/// Lists of words besides those of `values_that_do_not_exist`.
fn unknown_words(bed: &Bed) {
    let filter =
        |flag: &str| json!({ "defaultAction": "SCMP_ACT_ALLOW", "flags": [flag], "syscalls": [] });
    let policy = |flag: &str| json!({ "mode": "MPOL_BIND", "nodes": "0", "flags": [flag] });
    let bind = |option: &str| json!([{ "destination": "/mnt", "type": "bind", "source": "/", "options": ["bind", option] }]);
    let scheduler = json!({ "policy": "SCHED_OTHER", "flags": ["SCHED_FLAG_NOPE"] });
    let clock = json!({ "nope": { "secs": 1 } });
    for (pointer, value, text) in [
        ("/linux/seccomp", filter("SECCOMP_FILTER_FLAG_NOPE"), "SECCOMP_FILTER_FLAG_NOPE"),
        ("/linux/memoryPolicy", policy("MPOL_F_NOPE"), "MPOL_F_NOPE"),
        ("/process/scheduler", scheduler, "SCHED_FLAG_NOPE"),
        ("/linux/timeOffsets", clock, "time namespace"),
        ("/mounts", bind("idmap=nope=0-1-1"), "idmap=nope=0-1-1"),
        ("/mounts", bind("idmap=uids=0-0-1;nope"), "idmap=uids=0-0-1;nope"),
        ("/annotations", json!({ "run.dayfly.pin": "nope" }), "nope"),
        ("/annotations", json!({ "run.dayfly.pool": "nope" }), "nope"),
    ] {
        refused(set(bed, pointer, value), text);
    }
}

/// Annotations that name dayfly or crun and have no effect (crun #353, #355). Others belong to other programs.
fn annotations_without_effect(bed: &Bed) {
    for (name, value, effect) in [
        ("run.dayfly.nope", "1", false),
        ("run.dayfly.Pin", "cpus:0", false),
        ("run.dayfly.rootfs", "nope", false),
        ("run.dayfly.seccomp", "nope", false),
        ("run.dayfly.rootfs", "host", true),
        ("run.dayfly.seccomp", "none", true),
        ("run.oci.hooks.stdout", "/file", false),
        ("run.oci.hooks.stderr", "/file", false),
        ("run.oci.seccomp_fail_unknown_syscall", "1", false),
        ("run.oci.seccomp_bpf_data", "AAAA", false),
        ("run.oci.seccomp.receiver", "/socket", false),
        ("run.oci.pidfd_receiver", "/socket", false),
        ("run.oci.timens_offset", "1", false),
        ("run.oci.handler", "krun", false),
        ("run.oci.delegate-cgroup", "x", false),
        ("run.oci.systemd.subgroup", "x", false),
        ("run.oci.systemd.subgroup", "", true),
        ("run.oci.systemd.force_cgroup_v1", "/x", false),
        ("run.oci.keep_original_groups", "1", true),
        ("run.oci.mount_context_type", "rootcontext", true),
        ("io.container.manager", "libpod", true),
        ("run.other", "1", true),
    ] {
        let mut annotations = Value::default();
        annotations[name] = json!(value);
        let c = set(bed, "/annotations", annotations).args(&["/bin/true"]).make();
        let log = c.run().ok().log();
        assert_eq!(log.contains(&format!("annotation {name}")), !effect, "{name}={value}: {log}");
        assert_eq!(log.contains("has no effect"), !effect, "{name}={value}: {log}");
    }
}
