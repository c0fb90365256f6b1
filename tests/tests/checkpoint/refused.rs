//! Requests that are refused and leave nothing behind.

use super::{COUNTER, Saved};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(where_there_is_no_criu).unlike_runc(),
    case!(no_container_that_runs).needs(criu::lacking).unlike_runc(),
    case!(images_that_are_none).needs(criu::lacking).unlike_runc(),
    case!(images_of_others).needs(criu::lacking).unlike_runc(),
    case!(directory_of_another_checkpoint).needs(criu::lacking).unlike_runc(),
    case!(damaged_images).needs(criu::lacking).unlike_runc(),
    case!(configurations).needs(criu::lacking).unlike_runc(),
    case!(what_criu_refuses).needs(criu::lacking).unlike_runc(),
    case!(reason_from_a_log_of_ones_own).needs(criu::lacking).unlike_runc(),
];

fn where_there_is_no_criu(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let images = bed.dir.join("images");
    let flags = ["--image-path", images.to_str().expect("path")];
    let call = || c.id_call("checkpoint", &flags, &[]);
    call()
        .env("PATH", "/nowhere")
        .env("DAYFLY_CRIU", "")
        .run()
        .fails("exec: \"criu\": executable file not found in $PATH");
    call().env("DAYFLY_CRIU", "/nowhere/criu").run().fails("exec /nowhere/criu: no such file");
    call()
        .env("DAYFLY_CRIU", "/bin/true")
        .run()
        .fails("does not report its version: 3.0 or newer is required");
    assert_eq!(c.status(), "running");
    assert!(!images.exists());
}

fn no_container_that_runs(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    let images = bed.dir.join("images");
    let saved = Saved::of(c, images);
    saved.checkpoint(&[]).fails("Container cannot be checkpointed in created state");
    saved.c.start().ok();
    saved.c.kill("KILL").ok();
    saved.c.wait_status("stopped");
    saved.checkpoint(&[]).fails("Container cannot be checkpointed in stopped state");
    saved.c.delete().ok();
    saved.checkpoint(&[]).fails("container does not exist");
    assert!(!saved.images.exists());
}

fn images_that_are_none(bed: &Bed) {
    let saved = Saved::of(bed.bundle().make(), bed.dir.join("images"));
    saved.restore(&[]).fails("no such file or directory");
    fs::create_dir(&saved.images).expect("mkdir");
    saved.restore(&[]).fails("has no checkpoint: inventory.img is missing");
    fs::write(saved.images.join("inventory.img"), "nothing of criu's").expect("write");
    saved.restore(&[]).fails("inventory.img is damaged");
    saved.c.assert_gone("refused restores");
}

fn images_of_others(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&[]).ok();
    let mode =
        |mode| fs::set_permissions(&saved.images, Permissions::from_mode(mode)).expect("chmod");
    mode(0o770);
    saved.restore(&[]).fails("images must be the caller's alone");
    mode(0o700);
    chown(&saved.images, Some(1000), None).expect("chown");
    saved.restore(&[]).fails("belongs to user 1000: images must be the caller's own");
    chown(&saved.images, Some(0), None).expect("chown");
    let inventory = saved.images.join("inventory.img");
    chown(&inventory, Some(1000), None).expect("chown");
    saved.restore(&[]).fails("belongs to user 1000");
    chown(&inventory, Some(0), None).expect("chown");
    // criu reads the other images.
    for name in ["core-1.img", "pages-1.img", "files.img"] {
        let image = saved.images.join(name);
        chown(&image, Some(1000), None).expect("chown");
        saved.restore(&[]).fails(&format!("{name} belongs to user 1000"));
        chown(&image, Some(0), None).expect("chown");
        let before = fs::metadata(&image).expect("stat").permissions();
        fs::set_permissions(&image, Permissions::from_mode(0o666)).expect("chmod");
        saved.restore(&[]).fails(&format!("{name} can be written to by others (mode 0666)"));
        fs::set_permissions(&image, before).expect("chmod");
    }
    saved.c.assert_gone("refused restores");
    saved.restore(&[]).ok();
    saved.counts();
    // A directory that belongs to another user is refused as well.
    chown(&saved.images, Some(1000), None).expect("chown");
    saved.checkpoint(&[]).fails("belongs to user 1000");
    saved.counts();
}

fn directory_of_another_checkpoint(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&["--leave-running"]).ok();
    let directory = fs::File::open(&saved.images).expect("open");
    flock(&directory, FlockOperation::NonBlockingLockExclusive).expect("lock");
    saved.checkpoint(&[]).fails("another checkpoint writes to");
    saved.counts();
    assert!(saved.images.join("inventory.img").exists(), "the other checkpoint is lost");
    drop(directory);
    saved.cycle();
    saved.counts();
}

/// Truncates, then removes, each file of a checkpoint in turn.
fn damaged_images(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&[]).ok();
    let entries = fs::read_dir(&saved.images).expect("read images");
    let names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".img"))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in &names {
        let path = saved.images.join(name);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() - 1]).expect("write");
        saved.restore(&[]).fails("damaged");
        fs::remove_file(&path).expect("remove");
        saved.restore(&[]).fails(name);
        fs::write(&path, &whole).expect("write");
    }
    // criu detects a file with other bytes of the same length, and nothing is left of the restore.
    let core = names.iter().find(|name| name.starts_with("core-")).expect("core");
    let path = saved.images.join(core);
    let whole = fs::read(&path).expect("read");
    let mut other = whole.clone();
    other[8..].fill(0xff);
    fs::write(&path, &other).expect("write");
    saved.restore(&[]).fails("criu failed");
    saved.c.assert_gone("a restore that failed");
    fs::write(&path, &whole).expect("write");
    saved.restore(&[]).ok();
    saved.counts();
}

fn configurations(bed: &Bed) {
    let holder = bed.bundle().make().detached();
    let holder_in_one = mapped(bed).make().detached();
    let path = |file: &str| format!("/proc/{}/ns/{file}", holder.pid());
    let user = format!("/proc/{}/ns/user", holder_in_one.pid());
    let few = json!([{ "containerID": 0, "hostID": 100_000, "size": 1000 }]);
    for (bundle, text) in [
        (
            mapped(bed).join_namespace("uts", &path("uts")).unset("/hostname"),
            "a uts namespace that is joined by its path, by a container in a user namespace of its own",
        ),
        (
            mapped(bed)
                .join_namespace("user", &user)
                .unset("/linux/uidMappings")
                .unset("/linux/gidMappings"),
            "a user namespace that is joined by its path is not supported yet",
        ),
        (
            mapped(bed).set("/linux/uidMappings", few),
            "a cgroup namespace with id mappings that lack the id 65534",
        ),
        (
            bed.bundle().join_namespace("cgroup", &path("cgroup")),
            "a cgroup namespace that is joined by its path is not supported yet",
        ),
        (
            bed.bundle().without_namespace("mount"),
            "a container without a mount namespace of its own is not supported yet",
        ),
        (
            bed.bundle()
                .set("/process/ioPriority", json!({ "class": "IOPRIO_CLASS_BE", "priority": 6 })),
            "checkpoint of process.ioPriority is not supported yet",
        ),
        (
            bed.bundle()
                .set("/linux/memoryPolicy", json!({ "mode": "MPOL_PREFERRED", "nodes": "0" })),
            "checkpoint of linux.memoryPolicy is not supported yet",
        ),
        (
            bed.bundle().set("/linux/personality", json!({ "domain": "LINUX32" })),
            "checkpoint of linux.personality is not supported yet",
        ),
    ] {
        let saved = Saved::of(bundle.make(), bed.dir.join("images"));
        let outcome = saved.c.run_with(&["--detach"]);
        if outcome.code() == 0 {
            saved.checkpoint(&[]).fails(text);
            assert_eq!(saved.c.status(), "running");
            saved.c.delete_force().ok();
        }
    }
    assert!(!bed.dir.join("images").exists());
    let mut bundle = bed.bundle().without_namespace("pid").sh(COUNTER);
    let mounts = bundle.config["mounts"].as_array_mut().expect("mounts");
    mounts.retain(|mount| mount["type"] != "cgroup");
    let saved = Saved::running(bundle);
    saved.counts();
    saved.checkpoint(&[]).ok();
    let [images, bundle] =
        [&saved.images, &saved.c.bundle].map(|path| path.to_str().expect("path"));
    let restore = ["restore", "--image-path", images, "--bundle", bundle, &saved.c.id];
    bed.call(&[&["--cgroup-manager", "disabled"], &restore[..]].concat())
        .env("DAYFLY_CRIU", &criu::program())
        .run()
        .fails("restore of a container with neither a cgroup nor a PID namespace of its own");
    saved.c.assert_gone("a refused restore");
}

/// A process of the container has an open file outside the container. The error contains criu's reason, and the
/// container keeps running.
fn what_criu_refuses(bed: &Bed) {
    // The container's standard streams are files of the test, outside the container.
    let saved = Saved::running(bed.bundle().sh("while :; do sleep 1; done"));
    let outcome = saved.checkpoint(&[]).fails("criu failed: type DUMP errno 0: Error (");
    assert!(outcome.stderr.contains("dump.log)"), "{outcome}");
    assert_eq!(saved.c.status(), "running");
    saved.c.exec(&["true"]).ok();
    // The directory does not contain a checkpoint.
    saved.c.delete_force().ok();
    saved.restore(&[]).fails("inventory.img is missing");
}

/// The options that the annotation names may name another log, too.
fn reason_from_a_log_of_ones_own(bed: &Bed) {
    let options = bed.dir.join("criu.conf");
    let elsewhere = bed.dir.join("elsewhere.log");
    let bundle = bed.bundle().sh("while :; do sleep 1; done");
    let bundle = bundle.set("/annotations/org.criu.config", json!(options));
    let saved = Saved::running(bundle);
    for (log, path) in [
        ("own.log".to_owned(), saved.images.join("own.log")),
        (elsewhere.display().to_string(), elsewhere.clone()),
    ] {
        fs::write(&options, format!("# of the container\nlog-file {log}\n")).expect("write");
        let outcome = saved.checkpoint(&[]).fails("criu failed: type DUMP errno 0: Error (");
        assert!(outcome.stderr.contains(&format!("(log file: {})", path.display())), "{outcome}");
    }
}
