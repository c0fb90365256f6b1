//! Root filesystems that cannot be assembled.

use dayfly_tests::bed::Bed;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

use super::{MAPS, Snapshot, call, mount, nothing_is_left, words};

pub fn what_is_refused(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 2);
    let base = snapshot.base();
    let list = bed.dir.join("list").display().to_string();
    let lower = format!("lowerdir={}", snapshot.lower());
    let one = |kind: &str, options: &[&str]| mount(kind, &base, &words(options));
    let cases: [(Value, &str); 16] = [
        (json!([one("", &["ro"])]), "type \"\": it has no type"),
        (json!([one("format/overlay", &[])]), "it is for containerd's mount manager"),
        (json!([one("overlay", &["lowerdir={{ overlay 0 1 }}"])]), "containerd's mount manager"),
        (json!([one("bind", &["X-containerd.mkdir.path=/a"])]), "containerd's mount manager"),
        (json!([one("fuse3.fuse-overlayfs", &[])]), "it needs a program of the host"),
        (json!([one("ext4", &["loop", "ro"])]), "type \"ext4\": it needs a loop device"),
        (json!([one("nosuchfs", &[])]), "no such device"),
        (json!([one("overlay", &["index=off"])]), "lowerdir is missing"),
        (json!([one("overlay", &[&lower, "upperdir=/a"])]), "upperdir needs workdir"),
        (json!([one("overlay", &[&lower, "upperdir=a,workdir=b"])]), "is not an absolute path"),
        (json!([one("overlay", &["lowerdir=a:b"])]), "layer \"a\" is not an absolute path"),
        (json!([one("overlay", &["lowerdir=/usr::/bin"])]), "layers for data alone (::)"),
        (json!([one("bind", &[MAPS[0]])]), "uidmap and gidmap go together"),
        (json!([one("bind", &["uidmap=0:a:1", MAPS[1]])]), "maps no ids"),
        (json!([one("bind", &[]), one("bind", &[])]), "it covers the mount before it"),
        (
            json!([{ "type": "bind", "source": base, "target": "a", "options": [] }]),
            "type \"bind\" at a: it has a target",
        ),
    ];
    let c = bed.bundle().make();
    for (mounts, text) in cases {
        fs::write(&list, mounts.to_string()).expect("write");
        c.bundle_call("run", &["--rootfs-mounts", &list]).run().fails(text);
        nothing_is_left(bed);
    }
    fs::write(&list, "{}").expect("write");
    c.bundle_call("run", &["--rootfs-mounts", &list]).run().fails("mounts of a root filesystem");
}

pub fn layers_that_are_none(bed: &Bed) {
    let snapshot = Snapshot::new(bed, 3);
    let (dir, lower) = (snapshot.layers.store.join("layers"), snapshot.lower());
    let link = dir.join("link");
    symlink(snapshot.base(), &link).expect("symlink");
    let c = bed.bundle().make();
    for (layer, text) in [
        (dir.join("gone"), "gone: no such file or directory"),
        (link.clone(), "link: not a directory"),
        (snapshot.layers.list.clone(), "list: not a directory"),
    ] {
        let lower = format!("lowerdir={}:{lower}", layer.display());
        let root = mount("overlay", "overlay", &[lower]);
        call(&c, "run", &[root], &[]).run().fails(text);
    }
    let bind = mount("bind", &link.display().to_string(), &words(&["rbind"]));
    call(&c, "run", &[bind], &[]).run().fails("is not a directory");
    let mut root = snapshot.active("a", &[]);
    fs::remove_dir(snapshot.upper_of("a")).expect("rmdir");
    call(&c, "run", &[root.clone()], &[]).run().fails("a/fs: no such file or directory");
    root["options"][3] = "lowerdir=/".into();
    call(&c, "run", &[root], &[]).run().fails("layer \"/\" is not an absolute path");
    nothing_is_left(bed);
}
