//! Filters are compiled once, and a request never gets the filter of another key.

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use common::Scratch;
use dayfly_container::cache::{Cache, Error, FilterKey};
use rustix::io::Errno;
use rustix::process::Uid;
use seccomp::{Insn, Program};

const SUPPORT: &[u8] = b"x86_64 log notify";

fn profile(number: usize) -> Vec<u8> {
    format!("{{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"number\": {number}}}").into_bytes()
}

/// Returns a program as large as Docker's, different for each number.
fn program(number: usize) -> Program {
    let insn = Insn { code: 6, jt: 0, jf: 0, k: u32::try_from(number).unwrap() };
    Program { filter: vec![insn; 300], flags: 2 }
}

/// Requests a filter, and caches it if it was not cached; returns whether it had to be compiled.
fn ask_for(cache: &Cache, profile: &[u8], expected: &Program) -> bool {
    let key = FilterKey { profile, support: SUPPORT };
    match cache.filter(key) {
        Ok(program) => assert_eq!(program, *expected),
        Err(missing) => {
            missing.keep(expected);
            return true;
        }
    }
    false
}

fn ask(cache: &Cache, number: usize) -> bool {
    ask_for(cache, &profile(number), &program(number))
}

fn only_file(scratch: &Scratch) -> PathBuf {
    let mut entries = scratch.entries("seccomp");
    assert_eq!(entries.len(), 1);
    entries.pop().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_filter_is_compiled_once() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    assert!(ask(&cache, 1));
    assert!(!ask(&cache, 1));
    assert!(ask(&cache, 2));
    assert!(!ask(&scratch.open(), 2));
    assert_eq!(scratch.entries("seccomp").len(), 2);
    assert_eq!(mode(&scratch.path), 0o700);
    assert_eq!(mode(&scratch.entries("seccomp")[0]), 0o600);
}

#[test]
fn another_kernel_gets_another_filter() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    for (support, number) in [(b"a", 1), (b"b", 2)] {
        let key = FilterKey { profile: b"{}", support };
        cache.filter(key).unwrap_err().keep(&program(number));
        assert_eq!(cache.filter(key).unwrap(), program(number));
    }
}

#[test]
fn a_damaged_file_is_written_again() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    ask(&cache, 1);
    let file = only_file(&scratch);
    let good = fs::read(&file).unwrap();
    for offset in (0..good.len()).step_by(97).chain([good.len() - 1]) {
        let mut damaged = good.clone();
        damaged[offset] ^= 0x40;
        fs::write(&file, damaged).unwrap();
        assert!(ask(&cache, 1), "damaged at {offset}");
        assert_eq!(fs::read(&file).unwrap(), good);
        assert!(!ask(&cache, 1));
    }
}

#[test]
fn a_file_of_another_length_is_written_again() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    ask(&cache, 1);
    let file = only_file(&scratch);
    let good = fs::read(&file).unwrap();
    for length in (0..good.len()).step_by(101) {
        fs::write(&file, &good[..length]).unwrap();
        assert!(ask(&cache, 1), "cut to {length}");
    }
    fs::write(&file, [good.as_slice(), &[0; 8]].concat()).unwrap();
    assert!(ask(&cache, 1));
    fs::write(&file, vec![0; 2 << 20]).unwrap();
    assert!(ask(&cache, 1));
    assert!(!ask(&cache, 1));
}

#[test]
fn a_file_that_others_may_have_written_is_not_used() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    ask(&cache, 1);
    let file = only_file(&scratch);
    let good = fs::read(&file).unwrap();

    chown(&file, Some(1000), None).unwrap();
    assert!(ask(&cache, 1));
    fs::set_permissions(&file, Permissions::from_mode(0o620)).unwrap();
    assert!(ask(&cache, 1));
    let elsewhere = scratch.path.join("elsewhere");
    fs::write(&elsewhere, good).unwrap();
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert!(ask(&cache, 1));
    assert!(!ask(&cache, 1));
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn two_profiles_of_one_name_do_not_share_a_filter() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    ask(&cache, 1);
    let first = only_file(&scratch);
    ask(&cache, 2);
    let second = scratch.entries("seccomp").into_iter().find(|file| *file != first).unwrap();
    // Simulates that the first profile has the hash of the second.
    fs::rename(&first, &second).unwrap();
    assert!(ask(&cache, 2));
    assert!(!ask(&cache, 2));
}

#[test]
fn the_oldest_make_room() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    for number in 0..80 {
        assert!(ask(&cache, number));
        // File times advance only every few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(((number + 1).min(48)..=64).contains(&scratch.entries("seccomp").len()));
    }
    for number in 80 - 48..80 {
        assert!(!ask(&cache, number), "{number}");
    }
    assert!(ask(&cache, 15));
}

#[test]
fn what_is_too_large_is_compiled_every_time() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    let huge = vec![b' '; 256 << 10];
    assert!(ask_for(&cache, &huge, &program(1)));
    assert!(ask_for(&cache, &huge, &program(1)));
    assert!(scratch.entries("seccomp").is_empty());
}

#[test]
fn a_directory_of_others_is_not_used() {
    let Some(scratch) = Scratch::new() else { return };
    let foreign = Err(Error::Foreign(scratch.path().into()));
    let open = || Cache::open(scratch.path()).map(drop);
    assert_eq!(open(), Ok(()));
    for mode in [0o755, 0o770, 0o701, 0o1700, 0o500] {
        fs::set_permissions(&scratch.path, Permissions::from_mode(mode)).unwrap();
        assert_eq!(open(), foreign);
    }
    fs::set_permissions(&scratch.path, Permissions::from_mode(0o700)).unwrap();
    chown(&scratch.path, Some(1000), None).unwrap();
    assert_eq!(open(), foreign);
    fs::remove_dir(&scratch.path).unwrap();

    fs::write(&scratch.path, "").unwrap();
    assert!(matches!(open(), Err(Error::System(error)) if error.errno == Errno::NOTDIR));
    fs::remove_file(&scratch.path).unwrap();
    symlink("/tmp", &scratch.path).unwrap();
    assert!(open().is_err());
    fs::remove_file(&scratch.path).unwrap();
    let nowhere = format!("{}/a/b", scratch.path());
    assert!(Cache::open(&nowhere).is_err());
}

#[test]
fn only_root_has_one() {
    let Some(scratch) = Scratch::new() else { return };
    let open_as_nobody = || {
        let open = || {
            // Changes the user of this thread only.
            let nobody = Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            Cache::open(scratch.path()).map(drop)
        };
        std::thread::scope(|scope| scope.spawn(open).join().unwrap())
    };
    assert_eq!(open_as_nobody(), Err(Error::NotRoot));
    scratch.open();
    assert!(matches!(open_as_nobody(), Err(Error::System(error)) if error.errno == Errno::ACCESS));
}

#[test]
fn a_cache_that_was_removed_still_serves() {
    let Some(scratch) = Scratch::new() else { return };
    let cache = scratch.open();
    ask(&cache, 1);
    fs::remove_dir_all(&scratch.path).unwrap();
    assert!(ask(&cache, 1));
    assert!(ask(&cache, 1));
}

#[test]
fn many_at_once_all_get_theirs() {
    let Some(scratch) = Scratch::new() else { return };
    let together = Barrier::new(50);
    std::thread::scope(|scope| {
        for thread in 0..50 {
            let (together, path) = (&together, scratch.path());
            scope.spawn(move || {
                together.wait();
                let cache = Cache::open(path).unwrap();
                for round in 0..20 {
                    ask(&cache, (thread + round) % 7);
                }
            });
        }
    });
    assert_eq!(scratch.entries("seccomp").len(), 7);
    let cache = scratch.open();
    assert!((0..7).all(|number| !ask(&cache, number)));
}
