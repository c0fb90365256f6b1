//! Containers with root filesystems from layers.

use super::{COUNTER, Saved, places};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(assembled_again).needs(criu::lacking).unlike_runc(),
    case!(in_every_mode).needs(criu::lacking).unlike_runc(),
    case!(changes_are_kept).needs(criu::lacking).unlike_runc(),
    case!(changes_of_mapped_ids_are_kept).needs(criu::lacking).unlike_runc(),
    case!(names_that_are_no_text).needs(criu::lacking).unlike_runc(),
    case!(too_deep_to_be_copied).needs(criu::lacking).unlike_runc(),
    case!(changes_of_a_copy).needs(criu::lacking).unlike_runc(),
    case!(changes_in_memory).needs(criu::lacking).unlike_runc(),
    case!(range_of_ids).needs(criu::lacking).unlike_runc(),
    case!(range_in_use).needs(criu::lacking).unlike_runc(),
    case!(read_only).needs(criu::lacking).unlike_runc(),
];

#[track_caller]
fn assert_nothing_left(saved: &Saved<'_>) {
    let layered = saved.layered.as_ref().expect("layers");
    assert_eq!(layered.layers.left(), [""; 0]);
}

fn assembled_again(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &[]);
    let layered = saved.layered.as_ref().expect("layers");
    let lower = layered.layers.fingerprint();
    let look = || {
        let files = saved
            .c
            .sh("cat /last; ls / | grep -v '^n' | sort | tr '\\n' ' '; cat /replaced/new")
            .ok()
            .stdout;
        (files.replace(" n ", " "), places(&saved.c.sh("cat /proc/1/mountinfo").ok().stdout))
    };
    saved.counts();
    let before = look();
    for _ in 0..3 {
        let then = saved.counts();
        saved.checkpoint(&[]).ok();
        saved.c.assert_gone("a checkpoint");
        assert_nothing_left(&saved);
        saved.restore(&[]).ok();
        assert!(saved.counts() > then);
        assert_eq!(look(), before);
    }
    saved.c.sh("echo new >/new; cat /new").ok();
    assert_eq!(layered.layers.fingerprint(), lower, "the layers are changed");
    saved.c.delete_force().ok();
    saved.c.assert_gone("delete");
    assert_nothing_left(&saved);
}

fn in_every_mode(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &[]);
    let layered = saved.layered.as_ref().expect("layers");
    let modes = crate::rootfs::modes(&layered.layers, false);
    saved.counts();
    saved.checkpoint(&[]).ok();
    for mode in modes {
        if mode == "copy" {
            saved
                .restore(&["--rootfs-mode", mode])
                .fails("neither with --ephemeral nor with --rootfs-mode copy");
            saved.c.assert_gone("a refused restore");
            continue;
        }
        saved.restore(&["--rootfs-mode", mode]).ok();
        assert_eq!(saved.c.status(), "running", "{mode}");
        assert_eq!(saved.c.sh("cat /last").ok().stdout, "2\n", "{mode}");
        saved.c.delete_force().ok();
        assert_nothing_left(&saved);
    }
}

/// Changes of a copy are not saved.
fn changes_of_a_copy(bed: &Bed) {
    let script = "exec sleep 1000 </dev/null >/dev/null 2>&1";
    let saved = Saved::on_layers(bed.bundle().sh(script), &["--rootfs-mode", "copy"]);
    saved.c.sh("echo x >/changed").ok();
    saved.cycle();
    saved.c.sh("cat /changed").exits(1);
}

pub(super) fn changes_are_kept(bed: &Bed) {
    keeps_changes(bed, &[]);
}

fn changes_of_mapped_ids_are_kept(bed: &Bed) {
    keeps_changes(bed, &["--userns", "auto"]);
}

/// Tests that new, changed, removed and open files of the container are restored.
fn keeps_changes(bed: &Bed, flags: &[&str]) {
    let script = "rm -r /replaced /secret; mkdir /made; echo 1 >>/last; ln /of-user /linked; \
                  exec 3>>/made/open 4</last </dev/null >/dev/null 2>&1; \
                  while :; do echo line >&3; usleep 20000; done";
    let saved = Saved::on_layers(bed.bundle().sh(script), flags);
    let lines = || saved.c.sh("wc -l </made/open").stdout.trim().parse::<u64>().unwrap_or(0);
    let look = || {
        let files = "stat -c '%n %F %a %u:%g %h' /last /linked /of-user /made; ls /; cat /last";
        saved.c.sh(files).ok().stdout
    };
    dayfly_tests::wait::until_true("lines", || lines() > 0);
    let before = look();
    assert!(before.contains("linked regular file 644 1000:1001 2"), "{before}");
    assert!(!before.contains("secret") && !before.contains("replaced"), "{before}");
    for _ in 0..2 {
        let then = lines();
        saved.checkpoint(&[]).ok();
        assert_nothing_left(&saved);
        saved.restore(&[]).ok();
        dayfly_tests::wait::until_true("lines", || lines() > then);
        assert_eq!(look(), before);
    }
    saved.checkpoint(&["--leave-running"]).ok();
    saved.c.delete_force().ok();
    saved.restore(&[]).ok();
    assert_eq!(look(), before);
    saved.c.delete_force().ok();
    assert_nothing_left(&saved);
    // Without the layers, or with an incomplete copy, no container is created.
    let restore =
        saved.c.bundle_call("restore", &["--image-path", saved.images.to_str().expect("path")]);
    restore.env("DAYFLY_CRIU", &criu::program()).run().fails("restore it with --layers");
    let changes = saved.images.join("changes");
    let cut = fs::File::options().write(true).open(changes.join("last")).expect("open");
    let length = cut.metadata().expect("stat").len();
    cut.set_len(length - 1).expect("truncate");
    saved.restore(&[]).fails("/changes is damaged: ");
    cut.set_len(length).expect("extend");
    fs::rename(changes.join("last"), bed.dir.join("last")).expect("rename");
    saved.restore(&[]).fails("/changes is damaged: ");
    fs::rename(bed.dir.join("last"), changes.join("last")).expect("rename");
    fs::rename(&changes, saved.images.join("lost")).expect("rename");
    saved.restore(&[]).fails("/changes is damaged: nothing instead of ");
    fs::rename(saved.images.join("lost"), saved.images.join("changes.incomplete")).expect("rename");
    saved.restore(&[]).fails("the changes of the root filesystem are incomplete");
    saved.c.assert_gone("refused restores");
    assert_nothing_left(&saved);
}

/// The names of the directories are not valid UTF-8. A lossy conversion to UTF-8 would turn each of them into the name
/// of a link that leads out of the container.
fn names_that_are_no_text(bed: &Bed) {
    let outside = bed.dir.join("outside");
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("file"), "outside\n").expect("write");
    let script = "exec sleep 1000 </dev/null >/dev/null 2>&1";
    let saved = Saved::on_layers(bed.bundle().sh(script), &[]);
    let make = format!(
        "mkdir /d; cd /d; ln -s {} \"$(printf '\\357\\277\\275')\"; \
         for o in 300 311 322 333 344 355 366 377; do d=\"$(printf \\\\$o)\"; mkdir \"$d\"; \
         echo inside >\"$d/file\"; for n in 0 1 2 3; do ln \"$d/file\" $o$n; done; done",
        outside.display()
    );
    saved.c.sh(&make).ok();
    let look = "cd /d; cat 3*; stat -c %h 3*";
    let before = saved.c.sh(look).ok().stdout;
    assert_eq!(before, "inside\n".repeat(32) + &"5\n".repeat(32));
    for _ in 0..2 {
        saved.cycle();
        assert_eq!(saved.c.sh(look).ok().stdout, before);
    }
    assert_eq!(fs::metadata(outside.join("file")).expect("stat").nlink(), 1);
}

/// A checkpoint that fails after criu has written all images cannot be restored.
fn too_deep_to_be_copied(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &[]);
    saved.counts();
    let name = "d".repeat(255);
    let make = format!("cd /; for i in $(seq 17); do mkdir {name} && cd -P {name} || exit 1; done");
    saved.c.sh(&make).ok();
    saved.checkpoint(&[]).fails("name too long");
    saved.counts();
    assert!(saved.images.join("pages-1.img").exists(), "criu has written no images");
    assert!(!saved.images.join("changes.incomplete").exists());
    saved.c.delete_force().ok();
    saved.restore(&[]).fails("has no checkpoint: inventory.img is missing");
    assert_nothing_left(&saved);
}

fn changes_in_memory(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &["--ephemeral"]);
    let count = || saved.c.sh("cat /n").stdout.trim().parse::<u64>().unwrap_or(0);
    dayfly_tests::wait::until_true("it to count", || count() > 0);
    let then = count();
    saved.cycle();
    dayfly_tests::wait::until_true("it to count", || count() > then);
    saved.c.delete_force().ok();
    assert_nothing_left(&saved);
}

fn range_of_ids(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &["--userns", "auto"]);
    let layered = saved.layered.as_ref().expect("layers");
    let map = || fs::read_to_string(format!("/proc/{}/uid_map", saved.c.pid())).expect("uid_map");
    let leases = || {
        let entries = fs::read_dir(&layered.layers.leases).expect("leases").flatten();
        entries.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect::<Vec<_>>()
    };
    saved.counts();
    let before = (map(), leases());
    assert_eq!(before.1.len(), 1);
    assert!(before.0.contains(&before.1[0]), "{before:?}");
    for _ in 0..2 {
        let then = saved.counts();
        saved.checkpoint(&[]).ok();
        assert_nothing_left(&saved);
        saved.restore(&[]).ok();
        assert!(saved.counts() > then);
        assert_eq!((map(), leases()), before);
        assert_eq!(saved.c.sh("stat -c %u:%g /of-user; id -u").ok().stdout, "1000:1001\n0\n");
    }
    saved.c.delete_force().ok();
    assert_nothing_left(&saved);
}

/// Another container has taken the range of ids since the checkpoint.
fn range_in_use(bed: &Bed) {
    let saved = Saved::on_layers(bed.bundle().sh(COUNTER), &["--userns", "auto"]);
    let layered = saved.layered.as_ref().expect("layers");
    let first = || {
        let mut entries = fs::read_dir(&layered.layers.leases).expect("leases").flatten();
        entries.next().expect("a lease").file_name().into_string().expect("UTF-8")
    };
    saved.counts();
    let range = first();
    saved.checkpoint(&[]).ok();
    let other = bed.dir.join("other");
    fs::create_dir(&other).expect("mkdir");
    fs::write(other.join("record"), "").expect("write");
    let link = layered.layers.leases.join(&range);
    std::os::unix::fs::symlink(format!("1 0 {}", other.display()), &link).expect("symlink");
    saved.restore(&[]).fails(&format!("the ids {range} to "));
    saved.c.assert_gone("a refused restore");
    let left = layered.layers.left();
    assert_eq!(left, [link.display().to_string()]);
    fs::remove_file(link).expect("remove");
    saved.restore(&[]).ok();
    saved.counts();
    assert_eq!(first(), range);
}

fn read_only(bed: &Bed) {
    let bundle = bed
        .bundle()
        .set("/root/readonly", json!(true))
        .mount("tmpfs", "tmpfs", "/tmp", &["nosuid"])
        .mount("tmpfs", "tmpfs", "/made/by/dayfly", &["nosuid"]);
    let script = COUNTER.replace(" /n", " /tmp/n").replace(">/n.", ">/tmp/n.");
    let saved = Saved::on_layers(bundle.sh(&script), &[]);
    let count = || saved.c.sh("cat /tmp/n").stdout.trim().parse::<u64>().unwrap_or(0);
    dayfly_tests::wait::until_true("it to count", || count() > 0);
    let before = count();
    saved.cycle();
    dayfly_tests::wait::until_true("it to count", || count() > before);
    saved.c.sh("touch /new").exits(1);
    saved.c.sh("touch /made/by/dayfly/new").ok();
}
