//! Memory that is saved in several dumps (`--pre-dump`, `--parent-path`, `--auto-dedup`). Only kernels with
//! CONFIG_MEM_SOFT_DIRTY can do that.

use super::crash::kill_call;
use super::{COUNTER, Saved};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, Outcome};
use dayfly_tests::wait;
use rustix::fs::{Mode, OFlags, open};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(in_three_steps).needs(lacking).unlike_runc(),
    case!(doubles_are_freed).needs(lacking).unlike_runc(),
    case!(parents_that_are_refused).needs(lacking).unlike_runc(),
    case!(after_a_failure).needs(lacking).unlike_runc(),
    case!(killed).needs(lacking).unlike_runc().alone(),
    case!(where_memory_is_not_tracked).needs(tracked).unlike_runc(),
];

/// The memory that a container holds, in bytes.
const HELD: u64 = 1_000_000;

fn is_tracked() -> Result<bool, String> {
    criu::lacking()?;
    let mut check = Command::new(criu::program());
    let check = check.args(["check", "--feature", "mem_dirty_track"]).stdin(Stdio::null());
    check.output().map_err(|error| error.to_string()).map(|output| output.status.success())
}

/// Checks that the kernel tracks which memory is written.
fn lacking() -> Result<(), String> {
    match is_tracked()? {
        true => Ok(()),
        false => Err("the kernel has no CONFIG_MEM_SOFT_DIRTY".to_owned()),
    }
}

fn tracked() -> Result<(), String> {
    match is_tracked()? {
        false => Ok(()),
        true => Err("the kernel has CONFIG_MEM_SOFT_DIRTY".to_owned()),
    }
}

/// Starts a container that holds a string, and counts. A process of its own holds the string: the kernel treats all
/// memory of a mapping as written when the mapping is merged with a new one, as the heap of the counting shell may be.
#[track_caller]
fn holding(bed: &Bed) -> Saved<'_> {
    let script = format!(
        "exec </dev/null >/dev/null 2>&1; mkfifo /ask; \
         (big=$(head -c {HELD} /dev/zero | tr '\\000' x); : >/held; \
         while read line </ask; do [ ${{#big}} = {HELD} ] && rm /look; done) & \
         until [ -e /held ]; do usleep 1000; done; {COUNTER}"
    );
    let saved = Saved::running(bed.bundle().sh(&script));
    saved.counts();
    saved
}

/// Makes the container check that its string is still complete: a lost page would read as zeros, which would shorten
/// the string.
#[track_caller]
fn holds(saved: &Saved<'_>) {
    let look = saved.c.bundle.join("rootfs/look");
    fs::write(&look, "").expect("write");
    let ask = saved.c.bundle.join("rootfs/ask");
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let ask = wait::until("a reader", || open(&ask, flags, Mode::empty()).ok());
    rustix::io::write(ask, b"look\n").expect("write");
    wait::until_true("a look at the string", || !look.exists());
    saved.counts();
}

fn dump_call(saved: &Saved<'_>, name: &str, flags: &[&str]) -> Call {
    let path = saved.c.bed.dir.join(name);
    let flags = [&["--image-path", path.to_str().expect("path")], flags].concat();
    let call = saved.c.id_call("checkpoint", &flags, &[]).env("DAYFLY_CRIU", &criu::program());
    call.within(wait::patience() * 3)
}

/// Dumps the container to the directory `name` instead of the directory of its images.
#[track_caller]
fn dump(saved: &Saved<'_>, name: &str, flags: &[&str]) -> Outcome {
    dump_call(saved, name, flags).run()
}

/// Returns the total length of the page images in a directory, and their size on the disk.
fn pages(directory: &Path) -> (u64, u64) {
    let entries = fs::read_dir(directory).expect("read images").flatten();
    let pages = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pages-"));
    let stats = pages.map(|entry| entry.metadata().expect("stat"));
    stats.fold((0, 0), |(length, size), stat| (length + stat.len(), size + stat.blocks() * 512))
}

fn in_three_steps(bed: &Bed) {
    let saved = holding(bed);
    dump(&saved, "one", &["--pre-dump"]).ok();
    assert_eq!(saved.c.status(), "running");
    saved.counts();
    dump(&saved, "two", &["--pre-dump", "--parent-path", "../one"]).ok();
    saved.counts();
    saved.checkpoint(&["--parent-path", "../two"]).ok();
    saved.c.assert_gone("a checkpoint");
    let [one, two] = ["one", "two"].map(|name| bed.dir.join(name));
    let lengths = [&one, &two, &saved.images].map(|directory| pages(directory).0);
    // The second dump still has memory that the program wrote at its start.
    assert!(lengths[0] > HELD && lengths[1] < lengths[0], "{lengths:?}");
    assert!(lengths[2] < HELD / 2, "{lengths:?}");

    // All images are checked before anything is made.
    for directory in [&one, &two] {
        saved
            .c
            .bundle_call("restore", &["-d", "--image-path", directory.to_str().expect("path")])
            .env("DAYFLY_CRIU", &criu::program())
            .run()
            .fails("has no checkpoint: pstree.img is missing, which --pre-dump does not write");
    }
    let image = one.join("pages-1.img");
    let whole = fs::read(&image).expect("read");
    fs::write(&image, &whole[..whole.len() - 1]).expect("write");
    saved.restore(&[]).fails("pages-1.img is damaged");
    fs::write(&image, &whole).expect("write");
    fs::set_permissions(&one, Permissions::from_mode(0o770)).expect("chmod");
    saved.restore(&[]).fails("images must be the caller's alone");
    fs::set_permissions(&one, Permissions::from_mode(0o700)).expect("chmod");
    let away = bed.dir.join("away");
    fs::rename(&one, &away).expect("rename");
    saved.restore(&[]).fails("no such file or directory");
    fs::rename(&away, &one).expect("rename");
    saved.c.assert_gone("refused restores");

    let then = saved.count();
    saved.forget_count();
    saved.restore(&[]).ok();
    let now = saved.counts();
    assert!(now > then && now < then + 500, "{then}, then {now}");
    holds(&saved);
    // The restored container has no earlier dump.
    dump(&saved, "three", &["--parent-path", "two"]).fails("invalid --parent-path");
    dump(&saved, "three", &["--parent-path", "../two"]).fails("is not the latest dump");
    // A checkpoint without a parent, in the same directory, has all memory.
    saved.checkpoint(&[]).ok();
    assert!(!saved.images.join("parent").exists());
    assert!(pages(&saved.images).0 > HELD);
    saved.restore(&[]).ok();
    holds(&saved);
}

fn doubles_are_freed(bed: &Bed) {
    let saved = holding(bed);
    dump(&saved, "one", &["--pre-dump"]).ok();
    let one = bed.dir.join("one");
    let before = pages(&one);
    saved.counts();
    saved.checkpoint(&["--parent-path", "../one", "--auto-dedup"]).ok();
    let after = pages(&one);
    assert!(after.0 == before.0 && after.1 < before.1, "{before:?}, then {after:?}");
    let then = saved.count();
    saved.restore(&[]).ok();
    assert!(saved.counts() > then);
    holds(&saved);
}

fn parents_that_are_refused(bed: &Bed) {
    let saved = holding(bed);
    let own = saved.images.to_str().expect("path").to_owned();
    saved.checkpoint(&["--parent-path", &own]).fails("--parent-path must be relative");
    assert!(!saved.images.exists());
    saved.checkpoint(&["--parent-path", "../none"]).fails("invalid --parent-path: ");
    saved.checkpoint(&["--parent-path", "."]).fails("is the directory of --image-path");
    dump(&saved, "one", &["--pre-dump"]).ok();
    dump(&saved, "two", &["--pre-dump"]).ok();
    let two = bed.dir.join("two");
    // Memory that was written between the two dumps would be lost.
    saved.checkpoint(&["--parent-path", "../one"]).fails("is not the latest dump");
    let other = Saved::counting(bed);
    other.checkpoint(&["--parent-path", "../two"]).fails("is not the latest dump");
    other.c.delete_force().ok();
    fs::set_permissions(&two, Permissions::from_mode(0o770)).expect("chmod");
    saved.checkpoint(&["--parent-path", "../two"]).fails("images must be the caller's alone");
    fs::set_permissions(&two, Permissions::from_mode(0o700)).expect("chmod");
    let server = ["--lazy-pages", "--page-server", "127.0.0.1:1", "--pre-dump"];
    saved.checkpoint(&server).fails("lazy pages with --pre-dump is not supported yet");
    let mapped = Saved::running(crate::userns::mapped(bed).sh(super::COUNTER));
    mapped.checkpoint(&["--pre-dump"]).fails("a container in a user namespace with --pre-dump");
    mapped.c.delete_force().ok();

    // None of the refused commands has dumped memory, so `two` is still the latest dump. A checkpoint that leaves the
    // container running can in turn be the parent of the next dump.
    saved.checkpoint(&["--leave-running", "--parent-path", "../two"]).ok();
    let name = saved.images.file_name().expect("name").to_str().expect("name");
    let parent = format!("../{name}");
    let flags = ["--parent-path", &parent];
    dump(&saved, "four", &[&flags[..], &["--auto-dedup"]].concat())
        .fails("--auto-dedup would remove a part of its memory");
    dump(&saved, "two", &flags).fails("is the directory of --image-path");
    saved.counts();
    dump(&saved, "four", &flags).ok();
    let saved = Saved::of(saved.c, bed.dir.join("four"));
    saved.restore(&[]).ok();
    holds(&saved);
}

/// A dump that fails may already have cleared some or all of the kernel's soft-dirty bits.
fn after_a_failure(bed: &Bed) {
    // The container's standard streams are files of the test, outside the container.
    let saved = Saved::running(bed.bundle().sh("while :; do sleep 1; done"));
    dump(&saved, "one", &["--pre-dump"]).ok();
    saved.checkpoint(&["--parent-path", "../one"]).fails("criu failed: type DUMP");
    saved.checkpoint(&["--parent-path", "../one"]).fails("or a dump has failed since then");
    assert_eq!(saved.c.status(), "running");
    dump(&saved, "one", &["--pre-dump"]).ok();
    dump(&saved, "two", &["--pre-dump", "--parent-path", "../one"]).ok();
    saved.c.exec(&["true"]).ok();
}

fn killed(bed: &Bed) {
    let saved = holding(bed);
    for round in 0..6 {
        kill_call(
            dump_call(&saved, "one", &["--pre-dump"]).spawn(),
            Duration::from_millis(round * 20),
        );
        assert_eq!(saved.c.status(), "running");
        saved.counts();
        let outcome = saved.checkpoint(&["--leave-running", "--parent-path", "../one"]);
        assert!(outcome.code() == 0 || outcome.stderr.contains("--parent-path"), "{outcome}");
        saved.counts();
    }
    saved.cycle();
    saved.counts();
}

fn where_memory_is_not_tracked(bed: &Bed) {
    let saved = Saved::counting(bed);
    // A wrong parent is found before criu is asked, and without a directory of images.
    saved.checkpoint(&["--parent-path", "../before"]).fails("invalid --parent-path: open ");
    saved.checkpoint(&["--parent-path", "/before"]).fails("--parent-path must be relative");
    saved
        .checkpoint_call(&["--parent-path", "../before"])
        .env("DAYFLY_CRIU", "/nowhere/criu")
        .run()
        .fails("invalid --parent-path: open ");
    fs::create_dir(bed.dir.join("before")).expect("mkdir");
    fs::set_permissions(bed.dir.join("before"), Permissions::from_mode(0o700)).expect("chmod");
    for flags in [&["--pre-dump"][..], &["--parent-path", "../before"], &["--auto-dedup"]] {
        let outcome = saved.checkpoint(flags).fails("criu is missing the feature mem_dirty_track");
        assert!(outcome.stderr.contains(flags[0]), "{outcome}");
    }
    assert!(!saved.images.exists());
    saved.counts();
}
