//! Root filesystems that Create describes, one case for each type of mount that the shim mounts itself. None of them is
//! in the host's mount table, except where hooks need it there.

use super::{Task, is_missing};
use crate::rootfs::modes;
use crate::snapshots::{erofs, mapped};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::Pipes;
use proto::messages::mount::Mount;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(overlay).unlike_runc(),
    case!(bind).unlike_runc(),
    case!(mapped_ids).unlike_runc(),
    case!(filesystem_of_the_kernel).unlike_runc(),
    case!(erofs_image).unlike_runc().needs(erofs),
    case!(hooks_find_it_in_the_bundle).unlike_runc(),
    case!(binds_of_the_hosts_root).unlike_runc(),
];

const MAPS: [&str; 2] = ["uidmap=0:100000:65536", "gidmap=0:200000:65536"];

fn mount(kind: &str, source: &str, options: &[&str]) -> Mount {
    Mount {
        kind: kind.into(),
        source: source.into(),
        options: options.iter().copied().map(str::to_owned).collect(),
        ..Mount::default()
    }
}

/// Returns an overlay of these layers, with an upper directory of this name.
fn overlay_of(bed: &Bed, layers: &Layers, name: &str, more: &[&str]) -> Mount {
    let list = fs::read_to_string(&layers.list).expect("list");
    let lower = list.lines().rev().collect::<Vec<_>>().join(":");
    let upper = bed.dir.join(name);
    for part in ["fs", "work"] {
        fs::create_dir_all(upper.join(part)).expect("mkdir");
    }
    let upper = upper.display();
    let own = [
        format!("workdir={upper}/work"),
        format!("upperdir={upper}/fs"),
        format!("lowerdir={lower}"),
    ];
    let options: Vec<&str> = own.iter().map(String::as_str).chain(more.iter().copied()).collect();
    mount("overlay", "overlay", &options)
}

/// Returns the number of mounts in the host's table that belong to the case.
fn on_host(bed: &Bed) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    table.lines().filter(|line| line.contains(&*bed.dir.to_string_lossy())).count()
}

/// Runs the container with this root filesystem; returns what it prints and its exit status.
fn run(container: Container<'_>, rootfs: Vec<Mount>, mounted: usize) -> (String, u32) {
    let bed = container.bed;
    let before = on_host(bed);
    let pipes = Pipes::new(&container, "init");
    let out = pipes.reader("stdout");
    let task = Task::created_with(container, rootfs, &pipes);
    assert_eq!(on_host(bed), before + mounted, "created");
    task.start("");
    let status = task.wait("");
    let said = String::from_utf8(out.join().expect("stdout")).expect("text");
    assert_eq!(on_host(bed), before + mounted, "ended");
    task.finish();
    assert_eq!(on_host(bed), before, "deleted");
    (said, status)
}

const LOOK: &str = "stat -c %u:%g / /secret; touch /new && rm /new";

fn overlay(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    for count in [1, 50] {
        let layers = Layers::new(bed, count);
        let c = bed.bundle().sh(LOOK).make();
        let root = overlay_of(bed, &layers, &format!("upper{count}"), &["index=off"]);
        assert_eq!(run(c, vec![root], 0), ("0:0\n0:0\n".into(), 0), "{count}");
        let c = bed.bundle().sh(LOOK).make();
        let root = overlay_of(bed, &layers, &format!("read{count}"), &["ro"]);
        assert_eq!(run(c, vec![root], 0), ("0:0\n0:0\n".into(), 1), "{count}");
    }
}

fn bind(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let layers = Layers::new(bed, 1);
    let base = layers.store.join("layers/base").display().to_string();
    for (options, status) in [(&["rbind", "rw"][..], 0), (&["rbind", "ro"], 1), (&["bind"], 0)] {
        let c = bed.bundle().sh(LOOK).make();
        let said = run(c, vec![mount("bind", &base, options)], 0);
        assert_eq!(said, ("0:0\n0:0\n".into(), status), "{options:?}");
    }
}

/// The container has a user namespace, and the mount has options with the same mappings. The owners of the files on the
/// host stay unchanged.
fn mapped_ids(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let layers = Layers::new(bed, 3);
    if modes(&layers, true).len() < 2 {
        println!("skipped: no mapped mounts here");
        return;
    }
    let before = layers.fingerprint();
    let base = layers.store.join("layers/base").display().to_string();
    let overlay = overlay_of(bed, &layers, "upper", &MAPS);
    std::os::unix::fs::chown(bed.dir.join("upper/fs"), Some(100_000), Some(200_000))
        .expect("chown");
    for root in [overlay, mount("bind", &base, &["rbind", "ro", MAPS[0], MAPS[1]])] {
        let c = mapped(bed.bundle()).sh("stat -c %u:%g / /secret; cat /proc/self/uid_map").make();
        let (said, status) = run(c, vec![root], 0);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!((words, status), (vec!["0:0", "0:0", "0", "100000", "65536"], 0));
    }
    assert_eq!(layers.fingerprint(), before);
}

/// The container's root is a tmpfs. It is tested in place of the file systems that need a device. The program is on a
/// mount below the root.
fn filesystem_of_the_kernel(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let below = |name: &str| {
        let source = bed.bundle().rootfs().join(name).display().to_string();
        Mount { target: name.into(), ..mount("bind", &source, &["rbind", "ro"]) }
    };
    let root = mount("tmpfs", "tmpfs", &["mode=0755", "size=1m"]);
    let script = "grep -c ' / / .* - tmpfs ' /proc/self/mountinfo; touch /new";
    let c = bed.bundle().sh(script).make();
    assert_eq!(run(c, vec![root, below("bin")], 0), ("1\n".into(), 0));
}

fn erofs_image(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let layers = Layers::new(bed, 1);
    let image = bed.dir.join("layer.erofs").display().to_string();
    let base = layers.store.join("layers/base").display().to_string();
    bed.program("mkfs.erofs", &[&image, &base]).run().ok();
    for options in [&["ro"][..], &["ro", "loop"]] {
        let c =
            bed.bundle().sh("grep -c ' / / .* - erofs ' /proc/self/mountinfo; touch /new").make();
        assert_eq!(run(c, vec![mount("erofs", &image, options)], 0), ("1\n".into(), 1));
    }
}

/// A hook that runs before init enters the container's root can read and write the root filesystem at its path in the
/// bundle. NVIDIA's hook does so.
fn hooks_find_it_in_the_bundle(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let layers = Layers::new(bed, 3);
    for kind in ["prestart", "createRuntime", "createContainer"] {
        let bundle = bed.bundle().set("/root/path", json!("rootfs"));
        let rootfs = bundle.dir.join("rootfs").display().to_string();
        let script = "cat >/dev/null; echo \"a hook saw $(cat $0/last)\" >$0/by-a-hook";
        let hook = json!([{ "path": "/bin/sh", "args": ["sh", "-c", script, rootfs] }]);
        let bundle = bundle.set(&format!("/hooks/{kind}"), hook).sh("cat /by-a-hook");
        let root = overlay_of(bed, &layers, &format!("upper-{kind}"), &[]);
        let said = run(bundle.make(), vec![root], 1);
        assert_eq!(said, ("a hook saw 2\n".into(), 0), "{kind}");
    }
}

/// `hostPath: /` of Kubernetes is the host's root, not the container's (crun #2262, #2264).
fn binds_of_the_hosts_root(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let layers = Layers::new(bed, 2);
    let wanted = bed.program("stat", &["-c", "%d:%i", "/"]).run().ok().stdout;
    for (number, options) in
        [&["rbind", "ro"][..], &["rbind", "rslave"], &["bind"]].iter().enumerate()
    {
        for is_mapped in [false, true] {
            let bundle = bed.bundle().mount("bind", "/", "/mnt", options);
            let bundle = if is_mapped { mapped(bundle) } else { bundle };
            let c = bundle.sh("stat -c %d:%i /mnt").make();
            let root = overlay_of(bed, &layers, &format!("upper{number}-{}", c.id), &[]);
            assert_eq!(run(c, vec![root], 0), (wanted.clone(), 0), "{options:?}");
        }
    }
}
