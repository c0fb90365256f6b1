//! State roots and records that dayfly did not make.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::leak;
use dayfly_tests::mounted::Mounted;
use dayfly_tests::runner::Case;
use dayfly_tests::seed::Seed;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(full_state_root).unlike_runc(),
    case!(taken_id).unlike_runc(),
    case!(read_only_state_root).unlike_runc(),
    case!(state_root_of_wrong_type).unlike_runc(),
    case!(damaged_record).unlike_runc(),
    case!(damaged_record_of_a_living_container).unlike_runc(),
    case!(record_of_another_user).unlike_runc(),
    case!(directory_of_another_user).unlike_runc(),
    case!(bits_of_a_record).unlike_runc(),
    case!(record_of_another_version).unlike_runc(),
    case!(record_is_no_ordinary_file).unlike_runc(),
    case!(start_is_no_socket).unlike_runc(),
];

/// Mounts a tmpfs with these options as the bed's state root.
fn small_root(bed: &Bed, options: &str) -> Mounted {
    Mounted::tmpfs(&bed.root(), options)
}

fn record(c: &Container<'_>) -> std::path::PathBuf {
    c.bed.root().join(&c.id).join("record")
}

/// Returns all kinds of damaged copies of a record.
fn damages(whole: &[u8]) -> Vec<Vec<u8>> {
    let mut damages = vec![Vec::new(), vec![0; whole.len()], vec![0xff; whole.len()]];
    let lengths = [1, 8, 31, 32, 33, 100, whole.len() / 2, whole.len() - 1];
    damages.extend(lengths.iter().map(|length| whole[..*length].to_vec()));
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        let mut flipped = whole.to_vec();
        flipped[at] ^= 1 << (at % 8);
        damages.push(flipped);
    }
    damages.push([whole, b"more"].concat());
    damages
}

fn full_state_root(bed: &Bed) {
    let c = bed.bundle().make();
    {
        // There is no inode for the directory, or none for its content.
        for inodes in 1..=3 {
            let _mounted = small_root(bed, &format!("nr_inodes={inodes}"));
            let _ = c.create().fails_once(1, "no space left on device");
            c.assert_gone("inodes");
        }
    }
    let mounted = small_root(bed, "size=64k");
    mounted.fill();
    let _ = c.create().fails_once(1, "no space left on device");
    let _ = c.run().fails_once(1, "no space left on device");
    c.assert_gone("blocks");
    mounted.make_room();
    c.create().ok();
    mounted.fill();
    // An existing container can be used and removed without free space.
    assert_eq!(c.status(), "created");
    c.start().ok();
    c.exec(&["true"]).ok();
    c.delete_force().ok();
    c.assert_gone("full disk");
}

fn taken_id(bed: &Bed) {
    let c = bed.bundle().make().detached();
    // Engines search for the first words, so the id follows them.
    let text = format!("container with given ID already exists: {}", c.id);
    let _ = c.create().fails_once(1, &text);
    let _ = c.run().fails_once(1, &text);
    assert_eq!(c.status(), "running");
}

fn read_only_state_root(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let other = bed.bundle().make();
    {
        let _mounted = Mounted::read_only(&bed.root());
        let _ = other.create().fails_once(1, "read-only file system");
        let _ = other.run().fails_once(1, "read-only file system");
        let _ = other.delete_force().ok();
        other.assert_gone("read-only");
        // Commands that only read still work.
        assert_eq!(c.status(), "running");
        c.exec(&["true"]).ok();
        let _ = c.delete_force().fails_once(1, "read-only file system");
    }
    c.delete_force().ok();
    c.assert_gone("read-only");
}

fn state_root_of_wrong_type(bed: &Bed) {
    let c = bed.bundle().make();
    fs::write(bed.root(), "").expect("write");
    for verb in ["state", "start", "delete"] {
        let _ = c.id_call(verb, &[], &[]).run().fails_once(1, "not a directory");
    }
    let _ = c.create().fails_once(1, "not a directory");
    fs::remove_file(bed.root()).expect("remove");
    // The path of a container's directory is a file.
    fs::create_dir(bed.root()).expect("make");
    let place = bed.root().join(&c.id);
    fs::write(&place, "").expect("write");
    let _ = c.id_call("state", &[], &[]).run().fails_once(1, "not a directory");
    let _ = c.create().fails_once(1, "not a directory");
    fs::remove_file(&place).expect("remove");
    std::os::unix::fs::symlink("/etc", &place).expect("link");
    let _ = c.create().fails_once(1, "");
    let _ = c.id_call("delete", &["--force"], &[]).run();
    assert!(Path::new("/etc/passwd").exists());
    let _ = fs::remove_file(&place);
}

fn damaged_record(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    c.run_with(&["--keep"]).ok();
    let whole = fs::read(record(&c)).expect("record");
    let mut told = 0;
    for (number, damage) in damages(&whole).into_iter().enumerate() {
        fs::create_dir_all(bed.root().join(&c.id)).expect("make");
        fs::write(record(&c), damage).expect("write");
        let state = c.id_call("state", &[], &[]).run();
        // `state` of a stopped container may succeed if the damage affects a part of the record that no command needs.
        if state.code() == 0 {
            assert!(state.stdout.contains("stopped"), "{number}: {state}");
        } else if number == 0 {
            // The empty record counts as a container whose `create` was killed before it wrote anything.
            let _ = state.fails_once(1, "does not exist");
        } else {
            let _ = state.fails_once(1, "is damaged");
            for verb in ["start", "pause", "ps", "delete"] {
                let _ = c.id_call(verb, &[], &[]).run().fails_once(1, "is damaged");
            }
            let _ = c.exec(&["true"]).fails_once(255, "is damaged");
            told += 1;
        }
        c.delete_force().ok();
        // Without the record, `delete --force` does not know the cgroup, so the test removes it.
        leak::sweep(bed.view, std::slice::from_ref(&c.id));
        c.assert_gone(&format!("damage {number}"));
    }
    assert!(told >= 14, "{told}");
    // The id can be used again.
    c.run().ok();
}

fn damaged_record_of_a_living_container(bed: &Bed) {
    let c = bed.bundle().make();
    c.create().ok();
    let count = damages(&fs::read(record(&c)).expect("record")).len();
    c.delete_force().ok();
    let mut found = 0;
    for number in 0..count {
        c.create().ok();
        let whole = fs::read(record(&c)).expect("record");
        fs::write(record(&c), &damages(&whole)[number]).expect("write");
        let _ = c.create().fails_once(1, "");
        // `delete --force` either finds the process by the undamaged rest of the record, or keeps the record.
        let deleted = c.delete_force();
        if deleted.code() == 0 {
            found += 1;
        } else {
            let _ = deleted.fails_once(1, "is damaged");
            fs::write(record(&c), whole).expect("write");
            assert_eq!(c.status(), "created", "damage {number}");
            c.delete_force().ok();
        }
        c.assert_gone(&format!("damage {number}"));
    }
    assert!(found >= count - 10, "{found} of {count}");
}

fn record_of_another_user(bed: &Bed) {
    let c = bed.bundle().make().detached();
    std::os::unix::fs::chown(record(&c), Some(4711), Some(4711)).expect("chown");
    for verb in ["state", "start", "pause", "delete"] {
        let _ = c.id_call(verb, &[], &[]).run().fails_once(1, "4711");
    }
    let _ = c.delete_force().fails_once(1, "4711");
    std::os::unix::fs::chown(record(&c), Some(0), Some(0)).expect("chown");
    c.delete_force().ok();
    c.assert_gone("foreign record");
}

/// The other user owns the directory and may hold its lock forever, so commands do not wait for the lock.
fn directory_of_another_user(bed: &Bed) {
    let id = bed.id();
    let place = bed.root().join(&id);
    fs::create_dir_all(&place).expect("make");
    std::os::unix::fs::chown(&place, Some(4711), Some(4711)).expect("chown");
    let lock = fs::File::open(&place).expect("open");
    lock.lock_shared().expect("lock");
    let c = bed.bundle().make_as(&id);
    let _ = c.create().fails_once(1, "4711");
    let _ = c.delete_force().fails_once(1, "4711");
    fs::remove_dir(place).expect("remove");
}

/// Every command detects a flipped bit in a record, so that a changed record can't give an exec other rights.
fn bits_of_a_record(bed: &Bed) {
    const HEADER: usize = 40;
    let c = bed.bundle().set("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" })).make();
    let c = c.detached();
    let whole = fs::read(record(&c)).expect("record");
    let rights =
        || c.exec(&["grep", "-E", "^(Cap|NoNew|Seccomp:|Uid|Groups)", "/proc/self/status"]);
    let expected = rights().ok().stdout;
    let mut seed = Seed::new("bits_of_a_record");
    let bits = 8 * whole.len() as u64;
    let random = (0..400).map(|_| seed.below(bits) as usize);
    for bit in (0..8 * HEADER).chain(random).collect::<Vec<_>>() {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(record(&c), &flipped).expect("write");
        let _ = rights().fails_once(255, "is damaged");
        if bit % 16 == 0 {
            let _ = c.id_call("state", &[], &[]).run().fails_once(1, "is damaged");
            let _ = c.delete().fails_once(1, "is damaged");
        }
    }
    fs::write(record(&c), &whole).expect("write");
    // A record that a command has updated is valid.
    let _ = c.id_call("update", &["--memory-swap", "100000000", "--memory", "90000000"], &[]).run();
    assert_eq!(rights().ok().stdout, expected);
    c.delete_force().ok();
    c.assert_gone("a record with all its bits");
}

/// Commands read nothing but the process from a record of another version; `delete --force` kills that process.
fn record_of_another_version(bed: &Bed) {
    let c = bed.bundle().make().detached();
    let pid = c.pid();
    let mut other = fs::read(record(&c)).expect("record");
    other[7] = 6;
    fs::write(record(&c), other).expect("write");
    for verb in ["state", "start", "pause", "delete"] {
        let _ =
            c.id_call(verb, &[], &[]).run().fails_once(1, "another version of dayfly, in form 6");
    }
    let _ = c.exec(&["true"]).fails_once(255, "another version of dayfly");
    c.delete_force().ok();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "it lives: {stat}");
    c.assert_gone("a record of another version");
}

/// Other users with write access to a state root can put any file there; root's `list` must not block on such a file.
fn record_is_no_ordinary_file(bed: &Bed) {
    let other = bed.bundle().make().detached();
    let whole = record(&other);
    for kind in ["fifo", "link", "zero", "directory", "socket", "sparse"] {
        let c = bed.bundle().make();
        let place = record(&c);
        fs::create_dir_all(place.parent().expect("parent")).expect("make");
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        put(&place, kind, &whole);
        fs::File::open(place.parent().expect("parent"))
            .and_then(|directory| directory.set_modified(long_ago))
            .expect("age");
        for verb in ["state", "start", "pause", "ps", "kill", "delete"] {
            let _ = c.id_call(verb, &[], &[]).run().fails_once(1, "is damaged");
        }
        let _ = c.exec(&["true"]).fails_once(255, "is damaged");
        let list = bed.call(&["list"]).run().ok();
        assert!(list.stderr.contains(&format!("load container {}: ", c.id)), "{kind}: {list}");
        assert!(list.stdout.contains(&other.id), "{kind}: {list}");
        c.delete_force().ok();
        assert!(!place.parent().expect("parent").exists(), "{kind}");
    }
    other.delete_force().ok();
    other.assert_gone("special records");
}

/// No command blocks if a file of another type replaces the socket that `start` connects to, or one of the other files.
fn start_is_no_socket(bed: &Bed) {
    for kind in ["fifo", "zero", "directory", "socket", "sparse", "link"] {
        let c = bed.bundle().make().detached();
        let place = bed.root().join(&c.id);
        put(&place.join("start"), kind, &bed.root());
        put(&place.join("notify"), kind, &bed.root());
        assert_eq!(c.status(), "running", "{kind}");
        c.exec(&["true"]).ok();
        let _ = c.start().fails_once(1, "already running");
        c.delete_force().ok();
        c.assert_gone(kind);
    }
}

/// Puts a file of another type at a path that dayfly uses.
fn put(place: &Path, kind: &str, target: &Path) {
    let mode = Mode::from_raw_mode(0o600);
    match kind {
        "fifo" => mknodat(CWD, place, FileType::Fifo, mode, 0).expect("mkfifo"),
        "zero" => {
            mknodat(CWD, place, FileType::CharacterDevice, mode, makedev(1, 5)).expect("mknod");
        }
        "socket" => mknodat(CWD, place, FileType::Socket, mode, 0).expect("mknod"),
        "directory" => fs::create_dir_all(place.join("inner")).expect("mkdir"),
        "sparse" => {
            fs::File::create(place).and_then(|file| file.set_len(1 << 40)).expect("create");
        }
        _ => std::os::unix::fs::symlink(target, place).expect("link"),
    }
}
