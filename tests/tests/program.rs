//! The runtime executes itself from a read-only mount of its own program. It keeps the mount for later commands
//! (`container::cache::kept_program`).

use dayfly_tests::bed::Bed;
use dayfly_tests::cache::OwnCache;
use dayfly_tests::case;
use dayfly_tests::program;
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::uses_every_fast_path;
use dayfly_tests::wait;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, mount_remount,
    unmount,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(later_commands_find_it).needs(writable).unlike_runc().alone(),
    case!(one_that_can_be_written_to).needs(writable).unlike_runc().alone(),
    case!(something_else_in_its_place).needs(writable).unlike_runc().alone(),
    case!(a_runtime_that_was_replaced).needs(writable).unlike_runc().alone(),
    case!(four_at_most).needs(writable).unlike_runc().alone(),
    case!(a_cache_that_is_cleared).needs(writable).unlike_runc().alone(),
    case!(a_cache_of_root).when(uses_every_fast_path).unlike_runc().alone(),
];

const KEPT: &str = "/run/dayfly-cache/mounts/programs";

/// Checks that the runtime's copy is on a writable mount; on a read-only mount the runtime makes no mount of its own.
fn writable() -> Result<(), String> {
    let directory = std::env::temp_dir();
    let statvfs = rustix::fs::statvfs(&directory).map_err(|error| error.to_string())?;
    match statvfs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        true => Err(format!("{} is read-only", directory.display())),
        false => Ok(()),
    }
}

/// Copies the runtime to a path of this case only.
fn runtime(bed: &Bed, name: &str) -> PathBuf {
    let copy = bed.dir.join(name);
    program::copy(bed.runtime(), &copy);
    copy
}

/// Returns the path of a program's kept mount.
fn place(program: &Path) -> PathBuf {
    let stat = fs::metadata(program).expect("stat");
    Path::new(KEPT).join(format!("{:x}-{:x}", stat.dev(), stat.ino()))
}

/// Returns the path of the runtime's executable, read while a container runs.
fn runs_from(bed: &Bed, runtime: &Path, without: &str) -> PathBuf {
    let c = bed.bundle().sh("sleep 1000").make();
    let root = bed.root();
    let call = ["run", "--bundle", c.bundle.to_str().expect("path"), &c.id];
    let args = [&["--root", root.to_str().expect("path")][..], &call].concat();
    let call = bed.program(runtime.to_str().expect("path"), &args).env("DAYFLY_WITHOUT", without);
    let running = call.spawn();
    wait::until_true("a container", || c.exists());
    c.wait_status("running");
    let exe = format!("/proc/{}/exe", running.pid().as_raw_nonzero());
    let from = fs::read_link(exe).expect("exe");
    c.kill("KILL").ok();
    assert_eq!(running.wait().code(), 137);
    from
}

/// Returns the ids and paths of the kept mounts.
fn mounts() -> Vec<(String, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let of = |line: &str| {
        let mut fields = line.split(' ');
        Some((fields.next()?.to_owned(), PathBuf::from(fields.nth(3)?)))
    };
    mounts.lines().filter_map(of).filter(|(_, place)| place.starts_with(KEPT)).collect()
}

fn is_mounted(place: &Path) -> bool {
    mounts().iter().any(|(_, mounted)| mounted == place)
}

/// Runs a container; returns whether the runtime made a new mount and kept it.
fn makes_one(bed: &Bed, runtime: &Path) -> bool {
    let before = mounts();
    assert_eq!(runs_from(bed, runtime, ""), place(runtime));
    mounts() != before
}

fn later_commands_find_it(bed: &Bed) {
    let runtime = runtime(bed, "runtime");
    let place = place(&runtime);
    // A detached mount has no path.
    assert_eq!(runs_from(bed, &runtime, "kept-program"), Path::new("/"));
    assert!(!is_mounted(&place));
    assert!(makes_one(bed, &runtime));
    assert!(!makes_one(bed, &runtime));
    assert_eq!(runs_from(bed, &runtime, "kept-program"), Path::new("/"));
    let write = fs::File::options().write(true).open(&place).expect_err("written to");
    assert_eq!(write.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}

fn one_that_can_be_written_to(bed: &Bed) {
    let runtime = runtime(bed, "runtime");
    assert!(makes_one(bed, &runtime));
    mount_remount(place(&runtime), MountFlags::BIND, c"").expect("remount");
    assert!(makes_one(bed, &runtime));
    assert!(!makes_one(bed, &runtime));
    fs::File::options().write(true).open(place(&runtime)).expect_err("written to");
}

fn something_else_in_its_place(bed: &Bed) {
    let (first, second) = (runtime(bed, "first"), runtime(bed, "second"));
    let place = place(&first);
    assert!(makes_one(bed, &first));
    unmount(&place, UnmountFlags::DETACH).expect("unmount");
    assert!(makes_one(bed, &first), "there was an empty file");
    // Another program's read-only mount replaces the kept one.
    mount_bind(&second, &place).expect("bind");
    mount_change(&place, MountPropagationFlags::PRIVATE).expect("private");
    mount_remount(&place, MountFlags::BIND | MountFlags::RDONLY, c"").expect("remount");
    assert!(makes_one(bed, &first));
    assert!(!makes_one(bed, &first));
}

fn a_runtime_that_was_replaced(bed: &Bed) {
    let runtime = runtime(bed, "runtime");
    runs_from(bed, &runtime, "");
    let before = place(&runtime);
    let next = self::runtime(bed, "next");
    fs::rename(&next, &runtime).expect("rename");
    let after = place(&runtime);
    assert_ne!(before, after);
    assert!(makes_one(bed, &runtime));
    assert!(is_mounted(&after) && !is_mounted(&before), "{:?}", mounts());
    assert!(!before.exists());
}

fn four_at_most(bed: &Bed) {
    let _cache = OwnCache::begin();
    // Those below the cover are in the mount table as well.
    let covered = mounts();
    for number in 0..9 {
        let runtime = runtime(bed, &format!("runtime{number}"));
        assert!(makes_one(bed, &runtime));
        assert!(!makes_one(bed, &runtime));
        let kept: Vec<_> = fs::read_dir(KEPT).expect("read").flatten().collect();
        assert!(kept.len() <= 4, "{kept:?}");
        let own = mounts().into_iter().filter(|mount| !covered.contains(mount));
        assert!(own.count() <= kept.len(), "{:?}", mounts());
    }
}

/// A command that runs from the kept mount continues when the cache is cleared.
fn a_cache_that_is_cleared(bed: &Bed) {
    let runtime = runtime(bed, "runtime");
    runs_from(bed, &runtime, "");
    let c = bed.bundle().sh("sleep 1000").make();
    let running = c.bundle_call("run", &[]).spawn();
    wait::until_true("a container", || c.exists());
    c.wait_status("running");
    bed.call_bare(&["cache", "clear"]).run().ok();
    assert!(mounts().is_empty() && !Path::new(KEPT).exists());
    c.kill("TERM").ok();
    c.kill("KILL").ok();
    assert_eq!(running.wait().code(), 137);
}

/// Users other than root have no cache, and `cache clear` reports this.
fn a_cache_of_root(bed: &Bed) {
    let runtime = runtime(bed, "runtime");
    fs::set_permissions(&bed.dir, Permissions::from_mode(0o755)).expect("chmod");
    bed.bundle().args(&["true"]).make().run().ok();
    let user = ["--reuid", "65533", "--regid", "65533", "--clear-groups"];
    let words = [&user[..], &[runtime.to_str().expect("path"), "cache", "clear"]].concat();
    let outcome = bed.program("setpriv", &words).run();
    outcome.fails_without_log("error: /run/dayfly-cache is the cache of the host's root");
    assert!(Path::new("/run/dayfly-cache").exists());
}
