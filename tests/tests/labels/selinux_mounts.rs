//! SELinux labels of mounts.

use super::selinux::{CONTAINER, MOUNT, OWN, WRONG, policy};
use crate::rootfs::{call, id_call, modes};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::path::Path;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(mount_label).needs(policy),
    case!(mount_label_and_large_data).needs(policy).unlike_runc(),
    case!(mqueue_in_a_user_namespace).needs(policy),
    case!(layers).needs(policy).unlike_runc(),
    case!(wrong_mount_label).needs(policy),
    case!(wrong_mount_label_of_layers).needs(policy).unlike_runc(),
];

/// Returns the label of a file in the container, as the kernel reports it.
pub fn label_of(c: &Container<'_>, path: &str) -> String {
    label_at(format!("/proc/{}/root/{path}", c.pid()).as_ref())
}

fn label_at(path: &Path) -> String {
    let mut value = [0; 256];
    let length = rustix::fs::lgetxattr(path, "security.selinux", &mut value[..]);
    let length = length.unwrap_or_else(|errno| panic!("{}: {errno}", path.display()));
    String::from_utf8_lossy(&value[..length]).trim_end_matches('\0').to_owned()
}

/// Returns the superblock options at a mount point of the container.
fn options(c: &Container<'_>, place: &str) -> String {
    let mountinfo = std::fs::read_to_string(format!("/proc/{}/mountinfo", c.pid())).expect("read");
    let line = mountinfo.lines().rfind(|line| line.split(' ').nth(4) == Some(place));
    let line = line.unwrap_or_else(|| panic!("no mount on {place}: {mountinfo}"));
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// As with runc: proc, sysfs and cgroup2 keep their own labels, and mqueue accepts a label at its root only.
fn mount_label(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "/mnt", &["size=1m"])
        .mount("tmpfs", "tmpfs", "/run", &["size=1m", "ro", "tmpcopyup"])
        .mount("ramfs", "ramfs", "/var", &[])
        .set("/linux/mountLabel", json!(MOUNT))
        .push("/linux/maskedPaths", json!("/proc/fs"))
        .make()
        .detached();
    c.sh("echo x >/mnt/file").ok();
    let context = format!("context=\"{MOUNT}\"");
    for place in ["/dev", "/dev/pts", "/dev/shm", "/mnt", "/run", "/var", "/proc/acpi", "/proc/fs"]
    {
        assert_eq!(label_of(&c, place), MOUNT, "{place}");
        assert!(options(&c, place).contains(&context), "{place}: {}", options(&c, place));
    }
    for file in ["dev/null", "dev/pts/ptmx", "mnt/file", "dev/mqueue"] {
        assert_eq!(label_of(&c, file), MOUNT, "{file}");
    }
    for place in ["/proc", "/sys", "/sys/fs/cgroup", "/dev/mqueue"] {
        assert!(!options(&c, place).contains("context"), "{place}: {}", options(&c, place));
    }
    for place in ["/proc", "/sys", "/sys/fs/cgroup"] {
        assert_ne!(label_of(&c, place), MOUNT, "{place}");
    }
}

/// Data that is too long for fsconfig(2) is passed to mount(2), where the label must be quoted.
fn mount_label_and_large_data(bed: &Bed) {
    let (lower, upper, work) = ("l".repeat(120), "u".repeat(10), "w".repeat(10));
    let dir = |name: &str| {
        let path = bed.dir.join(name);
        std::fs::create_dir(&path).expect("mkdir");
        path.display().to_string()
    };
    let lowers: Vec<String> =
        ["1", "2", "3"].iter().map(|part| dir(&format!("{lower}{part}"))).collect();
    let lowerdir = format!("lowerdir={}", lowers.join(":"));
    assert!(lowerdir.len() > 256);
    let (upper, work) = (format!("upperdir={}", dir(&upper)), format!("workdir={}", dir(&work)));
    let c = bed
        .bundle()
        .mount("overlay", "overlay", "/mnt", &[&lowerdir, &upper, &work])
        .set("/linux/mountLabel", json!(MOUNT))
        .make()
        .detached();
    assert_eq!(label_of(&c, "mnt"), MOUNT);
    c.sh("echo x >/mnt/file").ok();
    assert_eq!(label_of(&c, "mnt/file"), MOUNT);
}

/// In a user namespace the kernel accepts the mount option `context` for some file systems only.
fn mqueue_in_a_user_namespace(bed: &Bed) {
    let c = crate::userns::mapped(bed).set("/linux/mountLabel", json!(OWN)).make().detached();
    assert_eq!(label_of(&c, "dev/mqueue"), OWN);
    assert_eq!(label_of(&c, "proc/acpi"), OWN);
}

/// Paths of files from the layers, and of files made in the container.
const FILES: [&str; 9] =
    ["", "last", "secret", "of-user", "bin", "bin/sh", "new", "made", "made/file"];

/// In every way of assembling layers, the mount label applies to the files of the layers and to files made later. The
/// layers themselves keep their labels.
fn layers(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let before = label_at(&layers.store.join("layers/base/secret"));
    for (userns, kept) in [("host", &["--ephemeral"][..]), ("auto", &[])] {
        for mode in modes(&layers, userns == "auto") {
            let c = bed
                .bundle()
                .set("/process/selinuxLabel", json!(CONTAINER))
                .set("/linux/mountLabel", json!(OWN))
                .make();
            let flags = [&["--detach", "--rootfs-mode", mode, "--userns", userns], kept].concat();
            call(&c, "run", &layers, &flags).run().ok();
            c.sh("echo x >/new; mkdir /made; echo y >/made/file; echo z >>/last").ok();
            for file in FILES {
                assert_eq!(label_of(&c, file), OWN, "{mode}, {userns}, {kept:?}: /{file}");
            }
            id_call(&c, "delete", &["--force"], &layers).run().ok();
            assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
        }
    }
    assert_eq!(label_at(&layers.store.join("layers/base/secret")), before);
}

fn wrong_mount_label(bed: &Bed) {
    let c = bed.bundle().set("/linux/mountLabel", json!(WRONG)).make();
    for outcome in [c.create(), c.run()] {
        outcome.fails("invalid argument");
        c.assert_gone("a wrong label");
    }
}

fn wrong_mount_label_of_layers(bed: &Bed) {
    let layers = Layers::new(bed, 2);
    for mode in modes(&layers, true) {
        let c = bed.bundle().set("/linux/mountLabel", json!(WRONG)).make();
        let flags = ["--rootfs-mode", mode, "--userns", "auto"];
        call(&c, "run", &layers, &flags).run().fails("invalid argument");
        c.assert_gone("a wrong label");
        assert_eq!(layers.left(), Vec::<String>::new(), "{mode}");
    }
}
