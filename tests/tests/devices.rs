//! Device nodes and links in /dev.

use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(default_nodes),
    case!(default_links),
    case!(default_nodes_work),
    case!(listed_device),
    case!(listed_fifo),
    case!(listed_device_mode_and_owner),
    case!(listed_device_in_a_new_directory),
    case!(default_device_listed_again),
    case!(invalid_type),
    case!(numbers_beyond_the_kernels),
    case!(owner_that_is_none).unlike_runc(),
    case!(bound_dev_is_left_alone),
    case!(rules_deny),
    case!(rules_allow_one),
    case!(rules_with_other_letters),
    case!(rules_for_exec),
    case!(mknod_allowed_by_default),
];

fn default_nodes(bed: &Bed) {
    let script = "for n in null zero full random urandom tty; do stat -c '%n %F %t:%T %a %u:%g' /dev/$n; done";
    let outcome = bed.bundle().sh(script).make().run().ok();
    assert_eq!(
        outcome.lines(),
        [
            "/dev/null character special file 1:3 666 0:0",
            "/dev/zero character special file 1:5 666 0:0",
            "/dev/full character special file 1:7 666 0:0",
            "/dev/random character special file 1:8 666 0:0",
            "/dev/urandom character special file 1:9 666 0:0",
            "/dev/tty character special file 5:0 666 0:0",
        ]
    );
}

fn default_links(bed: &Bed) {
    let script = "for n in fd stdin stdout stderr ptmx core; do readlink /dev/$n; done; ls /dev";
    let outcome = bed.bundle().sh(script).make().run().exits(0);
    let lines = outcome.lines();
    assert_eq!(
        lines[..5],
        ["/proc/self/fd", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", "pts/ptmx"]
    );
    let mut names: Vec<&str> = lines.iter().copied().filter(|line| !line.contains('/')).collect();
    names.retain(|name| *name != "core");
    assert_eq!(
        names,
        [
            "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
            "stdout", "tty", "urandom", "zero",
        ]
    );
}

fn default_nodes_work(bed: &Bed) {
    let script = "echo x >/dev/null; head -c 3 /dev/zero | wc -c; head -c 5 /dev/urandom | wc -c; echo x >/dev/full";
    let outcome = bed.bundle().sh(script).make().run().exits(1);
    assert_eq!(outcome.stdout, "3\n5\n");
    assert!(outcome.stderr.contains("No space left on device"), "{outcome}");
}

fn allow_all(bundle: dayfly_tests::bundle::Bundle<'_>) -> dayfly_tests::bundle::Bundle<'_> {
    bundle.set("/linux/resources", json!({ "devices": [{ "allow": true, "access": "rwm" }] }))
}

fn listed_device(bed: &Bed) {
    let c = bed
        .bundle()
        .set(
            "/linux/devices",
            json!([{ "path": "/dev/extra", "type": "c", "major": 1, "minor": 5 }]),
        )
        .sh("stat -c '%F %t:%T' /dev/extra")
        .make();
    assert_eq!(c.run().ok().stdout, "character special file 1:5\n");
}

fn listed_fifo(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/devices", json!([{ "path": "/dev/pipe", "type": "p", "fileMode": 0o600 }]))
        .sh("stat -c '%F %a' /dev/pipe")
        .make();
    assert_eq!(c.run().ok().stdout, "fifo 600\n");
}

fn listed_device_mode_and_owner(bed: &Bed) {
    let device = json!({ "path": "/dev/extra", "type": "c", "major": 1, "minor": 3, "fileMode": 0o640, "uid": 7, "gid": 8 });
    let c = bed
        .bundle()
        .set("/linux/devices", json!([device]))
        .sh("stat -c '%a %u:%g' /dev/extra")
        .make();
    assert_eq!(c.run().ok().stdout, "640 7:8\n");
}

fn listed_device_in_a_new_directory(bed: &Bed) {
    let c = bed
        .bundle()
        .set(
            "/linux/devices",
            json!([{ "path": "/dev/sub/dir/extra", "type": "b", "major": 7, "minor": 200 }]),
        )
        .sh("stat -c '%F %t:%T' /dev/sub/dir/extra")
        .make();
    assert_eq!(c.run().ok().stdout, "block special file 7:c8\n");
}

fn default_device_listed_again(bed: &Bed) {
    let c = allow_all(bed.bundle())
        .set("/linux/devices", json!([{ "path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600 }]))
        .sh("stat -c '%t:%T' /dev/null")
        .make();
    assert_eq!(c.run().ok().stdout, "1:3\n");
}

fn invalid_type(bed: &Bed) {
    bed.bundle()
        .set(
            "/linux/devices",
            json!([{ "path": "/dev/extra", "type": "x", "major": 1, "minor": 3 }]),
        )
        .make()
        .run()
        .fails("invalid device type");
}

fn bound_dev_is_left_alone(bed: &Bed) {
    let dev = bed.dir.join("dev");
    fs::create_dir(&dev).expect("make");
    fs::write(dev.join("mine"), "mine\n").expect("write");
    let mut bundle = bed.bundle();
    bundle.config["mounts"].as_array_mut().expect("mounts").retain(|mount| {
        !mount["destination"].as_str().is_some_and(|destination| destination.starts_with("/dev"))
    });
    let c = bundle
        .unset("/linux/maskedPaths")
        .mount("bind", dev.to_str().expect("path"), "/dev", &["rbind", "rw"])
        .sh("ls /dev")
        .make();
    assert_eq!(c.run().ok().stdout, "mine\n");
}

/// Tries to open the kernel log, /dev/kmsg.
const TRY_KMSG: &str = "mknod /tmp/kmsg c 1 11 && head -c 0 /tmp/kmsg && echo opened";

/// Returns a container with these rules, whose program may create device nodes and read the kernel log.
fn making_nodes(bed: &Bed, rules: Value) -> Bundle<'_> {
    let mut bundle = bed.bundle().set("/linux/resources", rules);
    for set in ["effective", "permitted", "bounding"] {
        let capabilities = json!(["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"]);
        bundle = bundle.set(&format!("/process/capabilities/{set}"), capabilities);
    }
    bundle
}

fn rules_deny(bed: &Bed) {
    let rules = json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    let c = making_nodes(bed, rules).sh(TRY_KMSG).make();
    let outcome = c.run().exits(1);
    assert!(outcome.stderr.contains("Operation not permitted"), "{outcome}");
}

fn rules_allow_one(bed: &Bed) {
    reads_alone(bed, "r");
}

/// In the lists of v1's device controller, an `a` means all devices. In the rules of a configuration, it is ignored, as
/// with runc.
fn rules_with_other_letters(bed: &Bed) {
    reads_alone(bed, "ra");
}

/// Asserts that a device rule with this access allows the container to read the kernel log, but not to write to it.
fn reads_alone(bed: &Bed, access: &str) {
    let rules = json!({ "devices": [
        { "allow": false, "access": "rwm" },
        { "allow": true, "type": "c", "major": 1, "minor": 11, "access": access },
    ] });
    let c = making_nodes(bed, rules).sh(&format!("{TRY_KMSG}; echo x >/tmp/kmsg")).make();
    let outcome = c.run().exits(1);
    assert_eq!(outcome.stdout, "opened\n");
    assert!(outcome.stderr.contains("Operation not permitted"), "write is not allowed: {outcome}");
}

fn rules_for_exec(bed: &Bed) {
    let rules = json!({ "devices": [{ "allow": false, "access": "rwm" }] });
    let caps = ["CAP_MKNOD", "CAP_DAC_OVERRIDE", "CAP_SYSLOG"];
    let c = bed
        .bundle()
        .set("/linux/resources", rules)
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .make()
        .detached();
    c.sh(TRY_KMSG).exits(1);
    if bed.view == View::V1 {
        assert!(!c.cgroup_read("devices", "devices.list").contains("a *:* rwm"));
    }
}

fn mknod_allowed_by_default(bed: &Bed) {
    let caps = ["CAP_MKNOD"];
    let c = allow_all(bed.bundle())
        .set(
            "/process/capabilities",
            json!({ "effective": caps, "permitted": caps, "bounding": caps }),
        )
        .sh("mknod /tmp/null c 1 3 && echo x >/tmp/null && echo fine")
        .make();
    assert_eq!(c.run().ok().stdout, "fine\n");
}

/// The kernel would truncate such numbers, so that the node would belong to another device.
fn numbers_beyond_the_kernels(bed: &Bed) {
    let node = |major: u32, minor: u32| {
        let device = json!({ "type": "c", "path": "/dev/odd", "major": major, "minor": minor });
        bed.bundle().push("/linux/devices", device).sh("stat -c %t:%T /dev/odd").make().run()
    };
    assert_eq!(node(4095, 1_048_575).ok().stdout, "fff:fffff\n");
    node(4096, 0).fails("major");
    node(1, 1_048_576).fails("minor");
}

fn owner_that_is_none(bed: &Bed) {
    let device = json!({ "type": "p", "path": "/dev/odd", "uid": u32::MAX });
    bed.bundle().push("/linux/devices", device).make().run().fails("is not a user or group id");
}
