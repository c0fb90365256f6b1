//! Memory that arrives while the restored program already runs, and the record of what it accesses first.

use super::Saved;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(memory_arrives_late).needs(criu::lacking).unlike_runc(),
    case!(mappings_change_before_pages_arrive).needs(needs_python).unlike_runc(),
    case!(forks_often).needs(criu::lacking).unlike_runc(),
    case!(few_tasks).on(&[View::V1]).needs(criu::lacking).unlike_runc(),
    case!(all_memory_at_once).needs(criu::lacking).unlike_runc(),
    case!(saved_and_paused_before_it_has_arrived).needs(criu::lacking).unlike_runc(),
    case!(killed_server).needs(criu::lacking).unlike_runc().alone(),
    case!(killed_with_its_container).needs(criu::lacking).unlike_runc().alone(),
    case!(damaged_record).needs(criu::lacking).unlike_runc(),
];

/// Random bytes of the program's memory, before they are encoded.
const HELD: u32 = 6_000_000;

/// Starts a container that counts, and compares its memory with a checksum each time, in a process of its own. A wrong
/// page makes the file `bad`.
fn checking(bed: &Bed) -> Saved<'_> {
    let script = format!(
        "exec </dev/null >/dev/null 2>&1; held=$(head -c {HELD} /dev/urandom | base64); \
         sum() {{ echo \"$held\" | md5sum; }}; good=$(sum); i=0; \
         while :; do [ \"$(sum)\" = \"$good\" ] || : >/bad; \
         i=$((i+1)); echo $i >/n.new; mv /n.new /n; usleep 1000; done"
    );
    let saved = Saved::running(bed.bundle().sh(&script));
    saved.counts();
    saved
}

/// Asserts that the memory is complete, at once and when all of it has arrived.
#[track_caller]
fn is_good(saved: &Saved<'_>) {
    saved.counts();
    let lock = lock(saved);
    wait::until_true("all pages", || !lock.exists());
    saved.counts();
    saved.counts();
    assert!(!saved.c.bundle.join("rootfs/bad").exists(), "memory has changed");
}

/// Returns the file that exists until all pages are loaded.
fn lock(saved: &Saved<'_>) -> PathBuf {
    saved.c.bed.root().join(&saved.c.id).join("pages")
}

fn record(saved: &Saved<'_>) -> PathBuf {
    saved.images.join("touched")
}

/// Returns the length of the record in bytes.
fn recorded(saved: &Saved<'_>) -> u64 {
    fs::metadata(record(saved)).expect("a record").len()
}

/// Returns the processes that load the pages, the oldest first.
fn servers(saved: &Saved<'_>) -> Vec<Pid> {
    let is_own = |pid: &i32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| {
            line.contains("restore") && line.ends_with(&format!("{}\0", saved.c.id))
        })
    };
    let names = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse().ok());
    let mut pids: Vec<i32> = pids.filter(is_own).collect();
    pids.sort_unstable();
    pids.into_iter().filter_map(Pid::from_raw).collect()
}

fn memory_arrives_late(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    saved.restore(&[]).ok();
    is_good(&saved);
    assert!(recorded(&saved) > 100, "{} bytes", recorded(&saved));
    for _ in 0..3 {
        saved.delete_force().ok();
        saved.restore(&[]).ok();
        is_good(&saved);
    }
    // A new checkpoint in the same directory needs another record.
    saved.checkpoint(&["--record"]).ok();
    assert_eq!(recorded(&saved), 0);
    saved.restore(&[]).ok();
    is_good(&saved);
    assert!(recorded(&saved) > 100);
    saved.checkpoint(&[]).ok();
    saved.restore(&[]).ok();
    assert!(!lock(&saved).exists() && !record(&saved).exists(), "nobody has asked for a record");
}

fn needs_python() -> Result<(), String> {
    criu::lacking().and_then(|()| program::installed("python3"))
}

/// The pages of adjacent mappings are one range of the images. A thread splits and moves mappings, gives up pages, and
/// forks, while the pages arrive.
fn mappings_change_before_pages_arrive(bed: &Bed) {
    let bundle = bed.bundle().host_programs();
    fs::write(bundle.rootfs().join("moving.py"), include_str!("moving.py")).expect("write");
    let run = "exec </dev/null >/dev/null 2>&1; exec /usr/bin/python3 -B /moving.py";
    let saved = Saved::running(bundle.sh(run));
    saved.counts();
    saved.checkpoint(&["--record"]).ok();
    for round in 0..6 {
        // Without a record, pages arrive as they are accessed; with one, most arrive at the start.
        if round % 2 == 0 {
            fs::write(record(&saved), "").expect("write");
        }
        // A program of several threads gets all memory at once: this one starts after the restore.
        fs::write(saved.c.bundle.join("rootfs/go"), "").expect("write");
        saved.restore(&[]).ok();
        assert!(round % 2 != 0 || lock(&saved).exists(), "all memory was there at once");
        is_good(&saved);
        saved.delete_force().ok();
    }
}

/// Each fork costs the server a descriptor. The limit of most callers is 1024.
fn forks_often(bed: &Bed) {
    let script = format!(
        "held=$(head -c {HELD} /dev/urandom | base64); good=${{#held}}; i=0; \
         while :; do (:); i=$((i+1)); [ $((i % 100)) = 0 ] || continue; \
         [ ${{#held}} = $good ] || : >/bad; echo $i >/n.new; mv /n.new /n; done"
    );
    let saved =
        Saved::running(bed.bundle().sh(&format!("exec </dev/null >/dev/null 2>&1; {script}")));
    saved.counts();
    saved.checkpoint(&["--record"]).ok();
    for _ in 0..2 {
        let then = saved.count();
        saved.restore(&[]).ok();
        wait::until_true("many forks", || saved.count() > then + 3000);
        assert_eq!(saved.c.status(), "running");
        is_good(&saved);
        saved.delete_force().ok();
    }
}

fn few_tasks(bed: &Bed) {
    let limit = serde_json::json!({ "limit": 5 });
    let bundle = bed.bundle().set("/linux/resources/pids", limit);
    let held = format!("held=$(head -c {HELD} /dev/urandom | base64)");
    let count = "i=0; while :; do i=$((i+1)); echo $i >/n; usleep 1000; done";
    let saved =
        Saved::running(bundle.sh(&format!("exec </dev/null >/dev/null 2>&1; {held}; {count}")));
    saved.counts();
    saved.checkpoint(&["--record"]).ok();
    saved.restore(&[]).ok();
    saved.counts();
    assert_eq!(recorded(&saved), 0);
}

fn all_memory_at_once(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    saved.restore(&["--eager"]).ok();
    assert!(!lock(&saved).exists());
    is_good(&saved);
    assert_eq!(recorded(&saved), 0);
    // A program with little memory.
    let small = Saved::counting(bed);
    small.cycle();
    small.counts();
    assert!(!record(&small).exists());
}

fn saved_and_paused_before_it_has_arrived(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    for _ in 0..2 {
        saved.restore(&[]).ok();
        saved.checkpoint(&["--record"]).ok();
    }
    saved.restore(&[]).ok();
    saved.c.id_call("pause", &[], &[]).run().ok();
    saved.c.id_call("resume", &[], &[]).run().ok();
    is_good(&saved);
}

/// If one of the two processes that load the pages is killed, the other one kills the program, which would read zeros.
fn killed_server(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    for round in 0..8 {
        // Without a record, the pages arrive one second later.
        fs::write(record(&saved), "").expect("write");
        saved.restore(&[]).ok();
        std::thread::sleep(Duration::from_millis(round / 2 * 30));
        let servers = servers(&saved);
        assert_eq!(servers.len(), 2, "a guard and a server");
        kill_process(servers[round as usize % 2], Signal::KILL).expect("kill");
        saved.c.wait_status("stopped");
        assert!(!saved.c.bundle.join("rootfs/bad").exists(), "memory has changed");
        saved.c.delete().ok();
        saved.c.assert_gone("a container without its pages");
    }
    saved.restore(&[]).ok();
    is_good(&saved);
}

fn killed_with_its_container(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    for round in 0..12 {
        saved.restore(&[]).ok();
        std::thread::sleep(Duration::from_millis(round * 10));
        if round % 2 == 0 {
            saved.delete_force().ok();
        } else {
            saved.c.kill("KILL").ok();
            saved.c.wait_status("stopped");
            saved.c.delete().ok();
        }
        saved.c.assert_gone("a container with its pages");
        wait::until_true("the end of the server", || servers(&saved).is_empty());
    }
}

fn damaged_record(bed: &Bed) {
    let saved = checking(bed);
    saved.checkpoint(&["--record"]).ok();
    let words = [1_u64, 0, u64::MAX - 4095].map(u64::to_le_bytes);
    let wrong = [b"touched1".as_slice(), words.as_flattened()].concat();
    for text in [b"".as_slice(), b"touched1 and more", &wrong] {
        fs::write(record(&saved), text).expect("write");
        saved.restore(&[]).ok();
        is_good(&saved);
        saved.delete_force().ok();
    }
}
