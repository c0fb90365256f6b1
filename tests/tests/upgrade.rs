//! An upgrade, and a downgrade, with running containers, without an engine: `shim::upgrade` has those of containerd.
//!
//! `DAYFLY_OLD` names a directory with an older `dayfly` and shim; `scripts/old-programs` builds one.

use crate::run_image;
use dayfly_tests::bed::Bed;
use dayfly_tests::cache::{CACHE, OwnCache};
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::Outcome;
use rustix::mount::{UnmountFlags, unmount};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(old_containers_and_new_commands).needs(old_programs).unlike_runc(),
    case!(new_containers_and_old_commands).needs(old_programs).unlike_runc(),
    case!(new_logs_and_old_commands).needs(programs).unlike_runc(),
    case!(one_cache_for_both).needs(old_programs).unlike_runc().alone(),
];

/// The offset of the byte in a record that contains the number of the record's format.
const FORMAT: usize = 7;

/// Returns the path of an old program; an empty path if there is none.
pub fn old(name: &str) -> PathBuf {
    let directory = std::env::var_os("DAYFLY_OLD").unwrap_or_default();
    fs::canonicalize(Path::new(&directory).join(name)).unwrap_or_default()
}

/// Returns what is missing of the old programs.
pub fn old_programs() -> Result<(), String> {
    let names = ["dayfly", dayfly_tests::shim::NAME];
    let missing = names.into_iter().find(|name| !old(name).is_file());
    missing.map_or(Ok(()), |name| Err(format!("no {name} in DAYFLY_OLD: scripts/old-programs")))
}

/// Returns the number of the format of a container's record.
pub fn format_of(root: &Path, id: &str) -> u8 {
    fs::read(root.join(id).join("record")).expect("record")[FORMAT]
}

fn programs() -> Result<(), String> {
    old_programs()?;
    run_image::programs()
}

fn dayfly(bed: &Bed, program: &Path, args: &[&str]) -> Outcome {
    let root = bed.root().display().to_string();
    bed.program(program.to_str().expect("path"), &[&["--root", &root], args].concat()).run()
}

/// Runs a detached container by `program`, with a profile, device rules and limits, which later commands need.
fn detached<'a>(bed: &'a Bed, program: &Path) -> Container<'a> {
    let profile = json!({ "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["keyctl"], "action": "SCMP_ACT_ERRNO" }] });
    let bundle = bed.bundle().args(&["sleep", "1000"]).set("/linux/seccomp", profile);
    let container = match bed.view.has_v1() {
        true => bundle.set("/linux/resources/pids", json!({ "limit": 50 })).make(),
        // The host's controllers are on v1.
        false => bundle.make(),
    };
    let at = container.bundle.display().to_string();
    dayfly(bed, program, &["run", "--detach", "--bundle", &at, &container.id]).ok();
    container
}

/// Uses and ends a container of `maker` by the commands of `other`.
fn used(bed: &Bed, maker: &Path, other: &Path) {
    let (container, own) = (detached(bed, maker), detached(bed, other));
    let id = &*container.id;
    let formats = [&container, &own].map(|container| format_of(&bed.root(), &container.id));
    println!("formats of records: {formats:?}");
    if formats[0] != formats[1] {
        let _ = dayfly(bed, other, &["state", id]).fails_without_log("another version of dayfly");
    } else {
        assert!(dayfly(bed, other, &["list", "--quiet"]).ok().stdout.contains(id));
        assert!(dayfly(bed, other, &["state", id]).ok().stdout.contains("\"running\""));
        let seccomp = ["exec", id, "grep", "Seccomp:", "/proc/self/status"];
        assert_eq!(dayfly(bed, other, &seccomp).ok().stdout, "Seccomp:\t2\n");
        for command in ["pause", "resume"] {
            dayfly(bed, other, &[command, id]).ok();
        }
        if bed.view.has_v1() {
            dayfly(bed, other, &["update", "--pids-limit", "40", id]).ok();
            let statistics = dayfly(bed, other, &["events", "--stats", id]).ok().stdout;
            assert!(statistics.contains("\"limit\":40"), "{statistics}");
        }
        dayfly(bed, other, &["kill", id, "KILL"]).ok();
    }
    dayfly(bed, other, &["delete", "--force", id]).ok();
    container.assert_gone("the other program's delete");
    dayfly(bed, maker, &["delete", "--force", &own.id]).ok();
    own.assert_gone("the maker's delete");
}

fn old_containers_and_new_commands(bed: &Bed) {
    used(bed, &old("dayfly"), bed.runtime());
}

fn new_containers_and_old_commands(bed: &Bed) {
    used(bed, bed.runtime(), &old("dayfly"));
}

/// An old command cannot remove a container whose log is mounted, but after what docs/packages/prerm does.
fn new_logs_and_old_commands(bed: &Bed) {
    run_image::image_of(bed, vec![]);
    let id = run_image::background(bed, &[], "sleep 1000");
    let log = bed.root().join(&id).join("log");
    unmount(&log, UnmountFlags::DETACH).expect("unmount");
    dayfly(bed, &old("dayfly"), &["delete", "--force", &id]).ok();
    assert!(!log.exists());
    // What is in the store, this version removes.
    run_image::delete(bed, &id);
}

/// Each version finds the cache as the other has left it, and the new one's `cache clear` removes all of it.
fn one_cache_for_both(bed: &Bed) {
    let _cache = OwnCache::begin();
    let (old, new) = (old("dayfly"), bed.runtime());
    for program in [&*old, new, &old, new, new] {
        let container = detached(bed, program);
        let said = dayfly(
            bed,
            program,
            &["exec", &container.id, "sh", "-c", "echo a >/dev/null && echo b"],
        );
        assert_eq!(said.ok().stdout, "b\n");
        dayfly(bed, program, &["delete", "--force", &container.id]).ok();
        container.assert_gone("its own delete");
    }
    // The cache itself is a mount point here.
    let _ = dayfly(bed, new, &["cache", "clear"]).fails_without_log("remove /run/dayfly-cache");
    let left: Vec<_> = fs::read_dir(CACHE).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "left of two versions: {left:?}");
}
