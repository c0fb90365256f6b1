//! Draws the root filesystem: a small tree, sometimes with links where programs expect directories.

use crate::differ::random::Random;
use serde_json::{Value, json};

/// Returns the entries in the order in which they are made; a later entry replaces an earlier one of the same path.
/// `root` owns what has no other owner.
pub(super) fn draw(random: &mut Random, root: u64) -> Vec<Value> {
    let mut entries = entries(random);
    for entry in
        entries.iter_mut().filter(|entry| root != 0 && entry["owner"].as_u64().unwrap_or(0) == 0)
    {
        entry["owner"] = root.into();
    }
    entries
}

fn entries(random: &mut Random) -> Vec<Value> {
    let mut entries = vec![json!({ "path": "/", "kind": "dir", "mode": 0o755 })];
    for dir in ["/a", "/a/b", "/b", "/etc", "/opt"] {
        entries.push(json!({ "path": dir, "kind": "dir", "mode": 0o755 }));
    }
    for dir in random.some(&["/dev", "/proc", "/sys", "/run", "/bin"], 85) {
        entries.push(json!({ "path": dir, "kind": "dir", "mode": 0o755 }));
    }
    if random.chance(92) {
        entries.push(json!({ "path": "/tmp", "kind": "dir", "mode": 0o1777 }));
    }
    let owner = random.pick(&[0, 0, 0, 1, 1000, 100_000, 101_000]);
    for (path, mode) in [
        ("/f", 0o644),
        ("/a/f", 0o600),
        ("/a/b/deep", 0o640),
        ("/su", 0o4755),
        ("/etc/hosts", 0o644),
        ("/noexec", 0o644),
        ("/badexec", 0o755),
        ("/a/su", 0o6755),
    ] {
        entries.push(json!({ "path": path, "kind": "file", "mode": mode, "owner": if mode == 0o600 { owner } else { 0 } }));
    }
    let passwd = "root:x:0:0::/root:/x\nuser:x:1000:1000::/home/user:/x\n";
    if random.chance(50) {
        entries
            .push(json!({ "path": "/etc/passwd", "kind": "file", "mode": 0o644, "text": passwd }));
    }
    for (path, target) in [
        ("/link", "a"),
        ("/abs", "/a"),
        ("/up", "../../../a"),
        ("/dangling", "/nowhere/at/all"),
        ("/loop", "loop"),
        ("/flink", "f"),
    ] {
        if random.chance(70) {
            entries.push(json!({ "path": path, "kind": "link", "target": target }));
        }
    }
    for (path, target) in [
        ("/etc", "/opt/etc"),
        ("/dev", "/realdev"),
        ("/dev", "a"),
        ("/proc", "/a"),
        ("/sys", "b"),
        ("/tmp", "/a"),
        ("/run", "/nowhere"),
        ("/sys", "/proc"),
        ("/a/b", "/b"),
        ("/opt", "/dev"),
        ("/proc", "/missing-proc"),
    ] {
        if random.odd(3) {
            entries.push(json!({ "path": path, "kind": "link", "target": target }));
        }
    }
    if random.chance(10) {
        entries.push(json!({ "path": "/dev/null", "kind": "file", "mode": 0o644 }));
    }
    if random.chance(6) {
        entries.push(
            json!({ "path": "/a/zero", "kind": "char", "mode": 0o666, "major": 1, "minor": 5 }),
        );
    }
    if random.chance(6) {
        entries.push(json!({ "path": "/a/fifo", "kind": "fifo", "mode": 0o622 }));
    }
    if random.chance(8) {
        entries.push(json!({ "path": "/a/setgid", "kind": "dir", "mode": 0o2775, "owner": 1000 }));
    }
    if random.chance(4) {
        entries.push(json!({ "path": "/a/closed", "kind": "dir", "mode": 0o700, "owner": 1000 }));
    }
    if random.odd(2) {
        entries.push(json!({ "path": "/dev/pts", "kind": "file", "mode": 0o644 }));
    }
    entries
}
