//! Draws mounts.

use super::{FILE_PLACES, PLACES};
use crate::differ::random::Random;
use serde_json::{Value, json};

/// Sources of bind mounts, with the percentage in which one is drawn from the odd ones.
const DIRECTORIES: &[&str] = &[
    "@H/dir",
    "@H/tree",
    "@H/ro",
    "@H/flags",
    "@H/shared",
    "@H/slave",
    "@H/private",
    "@H/link",
    "@H/tmpfs",
    "@H/dir/../dir",
];
const FILES: &[&str] = &["@H/file", "@H/flink", "@H/rofile", "@H/su"];
const ODD: &[&str] = &[
    "@H/missing",
    "@H/fifo",
    "@H/null",
    "/dev/null",
    "/proc",
    "/sys",
    "/dev",
    "relative",
    "@H/pins",
    "/proc/sys",
    "@H/tree/",
];
/// Options that are flags of a mount.
pub(crate) const FLAGS: &[&str] = &[
    "ro",
    "ro",
    "rw",
    "nosuid",
    "nodev",
    "noexec",
    "suid",
    "dev",
    "exec",
    "noatime",
    "relatime",
    "strictatime",
    "nodiratime",
    "diratime",
    "atime",
    "nosymfollow",
    "sync",
    "async",
    "dirsync",
    "norelatime",
    "nostrictatime",
];
const PROPAGATION: &[&str] =
    &["private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable", "runbindable"];
const RECURSIVE: &[&str] = &[
    "rro",
    "rrw",
    "rnosuid",
    "rnodev",
    "rnoexec",
    "rsuid",
    "rdev",
    "rexec",
    "rnoatime",
    "rrelatime",
    "rstrictatime",
    "rnodiratime",
    "rdiratime",
    "rnosymfollow",
    "rsymfollow",
];
const TMPFS: &[&str] = &[
    "size=64k",
    "size=1m",
    "mode=755",
    "mode=1777",
    "mode=0700",
    "uid=1000",
    "gid=5",
    "nr_inodes=100",
    "size=10%",
    "tmpcopyup",
    "huge=never",
    "inode64",
];
const UNKNOWN: &[&str] = &[
    "defaults",
    "bogus",
    "acl",
    "loud",
    "silent",
    "iversion",
    "remount",
    "mand",
    "nomand",
    "idmap",
    "ridmap",
    "idmap=uids=0-100000-10;gids=0-100000-10",
];

/// Returns the list of mounts. Without a mount namespace, runtimes have other ways.
pub(super) fn draw(random: &mut Random, has_namespace: bool) -> Vec<Value> {
    let mut mounts = usual(random);
    let count = random.pick(&[0, 0, 1, 1, 2, 2, 3, 4, 6]);
    for _ in 0..count {
        let mount = any(random);
        mounts.push(mount);
    }
    if random.chance(3) && mounts.len() > 1 {
        let (one, other) = (random.below(mounts.len()), random.below(mounts.len()));
        mounts.swap(one, other);
    }
    if random.chance(3) && !mounts.is_empty() {
        let again = mounts[random.below(mounts.len())].clone();
        mounts.push(again);
    }
    if random.chance(if has_namespace { 3 } else { 40 }) {
        // Two mounts at one place, one of them a tmpfs that becomes read-only.
        let place = random.pick(PLACES);
        mounts.push(
            json!({ "destination": place, "type": "tmpfs", "source": "tmpfs", "options": ["ro"] }),
        );
        let source = random.pick(&["@H/tmpfs", "@H/dir", "@H/tree"]);
        mounts.push(
            json!({ "destination": place, "type": "bind", "source": source, "options": ["rbind"] }),
        );
    }
    for mount in &mut mounts {
        spare_host(mount);
    }
    mounts
}

/// Takes `remount` from mounts whose superblock may be the host's: with `ro`, runc makes it read-only, and so, for
/// example, all cgroups of the host.
fn spare_host(mount: &mut Value) {
    let is_hosts =
        ["cgroup", "cgroup2", "sysfs", "proc", "mqueue"].iter().any(|kind| mount["type"] == *kind);
    if let Some(options) = mount["options"].as_array_mut().filter(|_| is_hosts) {
        options.retain(|option| option != "remount");
    }
}

/// What nearly all configurations of engines have, each left out or changed at times.
fn usual(random: &mut Random) -> Vec<Value> {
    let all = [
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"] }),
        json!({ "destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"] }),
        json!({ "destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"] }),
        json!({ "destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"] }),
        json!({ "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", "relatime", "ro"] }),
    ];
    let mut mounts = Vec::new();
    for mut mount in all {
        if random.chance(8) {
            continue;
        }
        if random.chance(6) {
            let options = options(random, FLAGS, 2);
            mount["options"] = options.into();
        }
        if mount["type"] == "cgroup" && random.chance(15) {
            if let Some(options) = mount["options"].as_array_mut() {
                options.retain(|option| option != "ro");
            }
            if random.chance(25) {
                mount["type"] = "cgroup2".into();
            }
        }
        mounts.push(mount);
    }
    mounts
}

fn options(random: &mut Random, words: &[&str], most: usize) -> Vec<Value> {
    (0..random.below(most + 1)).map(|_| random.pick(words).into()).collect()
}

fn any(random: &mut Random) -> Value {
    let mut mount = match random.below(20) {
        0..=11 => bind(random),
        12..=15 => tmpfs(random),
        _ => other(random),
    };
    if random.odd(6) {
        let word = random.pick(UNKNOWN);
        match mount["options"].as_array_mut() {
            Some(options) => options.push(word.into()),
            None => mount["options"] = json!([word]),
        }
    }
    if random.odd(6) {
        mount["destination"] =
            random.pick(if mount["type"] == "tmpfs" { FILE_PLACES } else { PLACES }).into();
    }
    if random.odd(4) {
        mount["destination"] =
            random.pick(&["a", "/a/../b", "/a//b/", "/", "/../a", "/./a", "/a/./b"]).into();
    }
    mount
}

fn bind(random: &mut Random) -> Value {
    let source = match random.below(20) {
        0..=10 => random.pick(DIRECTORIES),
        11..=15 => random.pick(FILES),
        16 => return host_root(random),
        17 if random.odd(50) => random.pick(ODD),
        _ => "@H/tree",
    };
    let is_file = FILES.contains(&source);
    let mut words: Vec<Value> = vec![random.pick(&["bind", "rbind", "rbind"]).into()];
    words.append(&mut options(random, FLAGS, 2));
    if random.chance(35) {
        words.push(random.pick(PROPAGATION).into());
    }
    if random.chance(15) {
        words.append(&mut options(random, RECURSIVE, 2));
    }
    let mut mount = json!({ "destination": random.pick(if is_file { FILE_PLACES } else { PLACES }), "source": source, "options": words });
    match random.below(12) {
        0 => {}
        1 => mount["type"] = "none".into(),
        2 if random.chance(80) => mount["type"] = random.pick(&["", "ext4", "tmpfs"]).into(),
        _ => mount["type"] = "bind".into(),
    }
    if random.chance(5) {
        mount["uidMappings"] =
            json!([{ "containerID": 0, "hostID": random.pick(&[0, 1000, 100_000]), "size": 2000 }]);
        if random.chance(85) {
            mount["gidMappings"] = json!([{ "containerID": 0, "hostID": 1000, "size": 2000 }]);
        }
    }
    mount
}

/// What monitors mount: the host's root, /run or /sys.
fn host_root(random: &mut Random) -> Value {
    let source = random.pick(&["/", "/run", "/sys", "/dev", "/proc"]);
    let mut words = vec![random.pick(&["rbind", "bind"])];
    words.append(&mut random.some(&["ro", "rslave", "rprivate"], 50));
    json!({ "destination": "/host", "type": "bind", "source": source, "options": words })
}

fn tmpfs(random: &mut Random) -> Value {
    let mut words = options(random, TMPFS, 3);
    words.append(&mut options(random, FLAGS, 2));
    if random.chance(15) {
        words.push(random.pick(PROPAGATION).into());
    }
    if random.chance(20) {
        words.push("tmpcopyup".into());
    }
    json!({ "destination": random.pick(PLACES), "type": "tmpfs", "source": random.pick(&["tmpfs", "named"]), "options": words })
}

fn other(random: &mut Random) -> Value {
    let last = if random.odd(30) { 8 } else { 7 };
    let (kind, destination) = match random.below(last + 1) {
        0 => ("proc", random.pick(&["/proc", "/a/proc", "/b"])),
        1 => ("sysfs", random.pick(&["/sys", "/a/sys", "/b"])),
        2 => ("mqueue", random.pick(&["/dev/mqueue", "/a/mq"])),
        3 => ("devpts", random.pick(&["/dev/pts", "/a/pts"])),
        4 => ("cgroup", random.pick(&["/sys/fs/cgroup", "/a/cg", "/b"])),
        5 => ("cgroup2", random.pick(&["/sys/fs/cgroup", "/a/cg", "/b"])),
        6 => ("overlay", random.pick(PLACES)),
        7 => ("ramfs", random.pick(PLACES)),
        _ => ("nosuchfs", random.pick(PLACES)),
    };
    let mut words = options(random, FLAGS, 2);
    if kind == "overlay" {
        words.push("lowerdir=@H/dir:@H/tree".into());
    }
    json!({ "destination": destination, "type": kind, "source": kind, "options": words })
}
