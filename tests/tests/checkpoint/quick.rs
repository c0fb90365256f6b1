//! What a restore leaves out: a second look at the kernel, the handling of cgroups, tar(1).

use super::{COUNTER, Saved};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(kernel_is_examined_once).needs(criu::lacking).unlike_runc().alone(),
    case!(cgroups_are_those_of_criu).needs(criu::lacking).unlike_runc(),
    case!(files_without_tar).needs(criu::lacking).unlike_runc(),
];

/// Restores the container, and returns criu's log.
#[track_caller]
fn log(saved: &Saved<'_>) -> String {
    saved.delete_force().ok();
    saved.restore(&["--eager"]).ok();
    saved.counts();
    fs::read_to_string(saved.images.join("restore.log")).expect("restore.log")
}

fn kernel_is_examined_once(bed: &Bed) {
    let saved = Saved::counting(bed);
    saved.checkpoint(&[]).ok();
    log(&saved);
    let log = log(&saved);
    assert!(log.contains("Loaded kdat cache from /run/criu.kdat"), "{log}");
    let left = fs::metadata("/run/criu.kdat");
    assert!(left.is_err() || left.is_ok_and(|file| file.len() > 0), "an empty file is left");
}

fn cgroups_are_those_of_criu(bed: &Bed) {
    let saved = Saved::running(bed.bundle().without_namespace("cgroup").sh(COUNTER));
    saved.counts();
    let cgroups = || fs::read_to_string(format!("/proc/{}/cgroup", saved.c.pid())).expect("cgroup");
    let before = cgroups();
    saved.checkpoint(&[]).ok();
    let quick = log(&saved);
    assert!(!quick.contains("Preparing cgroups yard"), "{quick}");
    assert_eq!(cgroups(), before);
    // criu makes a cgroup namespace, and cgroups below that of the container.
    let own = Saved::counting(bed);
    own.checkpoint(&[]).ok();
    let slow = log(&own);
    assert!(slow.contains("Preparing cgroups yard"), "{slow}");
    let seen = own.c.sh("cat /proc/1/cgroup").ok().stdout;
    assert!(seen.lines().all(|line| line.ends_with(":/")), "{seen}");
}

fn files_without_tar(bed: &Bed) {
    let tools = bed.dir.join("tools");
    fs::create_dir(&tools).expect("mkdir");
    program::write(&tools.join("tar"), "#!/bin/sh\nexit 1\n");
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").expect("PATH"));
    let script = format!("echo small >/dev/shm/small; {COUNTER}");
    let saved = Saved::running(bed.bundle().sh(&script));
    saved.counts();
    let shown = "ls -lnR /dev; cat /dev/shm/small";
    let before = saved.c.sh(shown).ok().stdout;
    assert!(before.contains("small") && before.contains("urandom"), "{before}");
    saved.checkpoint(&[]).ok();
    let restore =
        |saved: &Saved<'_>, path: &str| saved.restore_call(&["--detach"]).env("PATH", path).run();
    restore(&saved, &path).ok();
    saved.counts();
    assert_eq!(saved.c.sh(shown).ok().stdout, before);
    // What only tar(1) can unpack.
    let script = format!("head -c 3000000 /dev/urandom >/dev/shm/large; {COUNTER}");
    let large = Saved::running(bed.bundle().sh(&script));
    large.counts();
    let before = large.c.sh("md5sum /dev/shm/large").ok().stdout;
    large.checkpoint(&[]).ok();
    restore(&large, &path).fails("criu failed");
    large.c.assert_gone("a restore without tar");
    large.restore(&[]).ok();
    assert_eq!(large.c.sh("md5sum /dev/shm/large").ok().stdout, before);
}
