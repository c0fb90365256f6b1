//! `remount`: changes of existing mounts.

use crate::binds::{host_dir, text};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::mounted::Mounted;
use dayfly_tests::runner::Case;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(remount_changes_attributes),
    case!(remount_changes_the_filesystem),
    case!(remount_takes_flags_back),
    case!(remount_of_cgroups_is_of_the_mount).unlike_runc(),
    case!(remount_of_a_bind).unlike_runc(),
    case!(remount_of_nothing),
    case!(remount_copies_nothing),
    case!(remount_is_of_what_is_mounted_by_then),
];

fn remount_changes_attributes(bed: &Bed) {
    // The mount becomes read-only after all mount points and devices in it are made.
    let c = bed
        .bundle()
        .mount("none", "none", "/dev", &["remount", "ro", "noexec"])
        .mount("tmpfs", "tmpfs", "/dev/more", &[])
        .sh("grep ' /dev ' /proc/self/mountinfo; touch /dev/file; touch /dev/more/file; echo >/dev/null")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains(" ro,") && outcome.stdout.contains("noexec"), "{outcome}");
    assert_eq!(outcome.stderr.matches("Read-only file system").count(), 1, "{outcome}");
}

fn remount_changes_the_filesystem(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "/dev", &["remount", "size=2m"])
        .mount("proc", "proc", "/proc", &["remount", "hidepid=2"])
        .sh("grep -e ' /dev ' -e ' /proc ' /proc/self/mountinfo")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains("size=2048k"), "{outcome}");
    assert!(outcome.stdout.contains("hidepid=invisible"), "{outcome}");
}

/// All cgroup2 mounts have one superblock. runc makes it read-only, and no cgroup of the host can be made any more.
fn remount_of_cgroups_is_of_the_mount(bed: &Bed) {
    let bundle = bed.bundle().mount("cgroup", "cgroup", "/sys/fs/cgroup", &["remount", "ro"]);
    let outcome = bundle.sh("grep ' /sys/fs/cgroup ' /proc/self/mountinfo").make().run().ok();
    assert!(outcome.stdout.contains(" ro,"), "{outcome}");
    let host = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for (_, superblock) in host.lines().filter_map(|line| line.split_once(" - cgroup")) {
        let options = superblock.split(' ').nth(2).expect("options");
        assert!(options == "rw" || options.starts_with("rw,"), "{superblock}");
    }
}

fn remount_of_a_bind(bed: &Bed) {
    let dir = host_dir(bed, "bound");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["bind", "nodev"])
        .mount("none", "none", "/mnt", &["bind", "remount", "ro", "nosuid"])
        .sh("grep ' /mnt ' /proc/self/mountinfo; cat /mnt/inside")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains(" ro,nosuid,nodev,"), "{outcome}");
    // The host's mount is unchanged.
    fs::write(dir.join("more"), "").expect("write");
}

/// A remount of a path that is not a mount point is refused, with any options and without.
fn remount_of_nothing(bed: &Bed) {
    for options in [&["remount", "ro"][..], &["remount"], &["remount", "defaults"]] {
        let c = bed.bundle().mount("tmpfs", "tmpfs", "/mnt", options).make();
        c.run().fails("invalid argument");
        assert!(!c.exists());
    }
}

fn remount_takes_flags_back(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "/mnt", &["sync", "lazytime"])
        .mount("tmpfs", "tmpfs", "/mnt", &["remount", "async", "nolazytime"])
        .sh("grep ' /mnt ' /proc/self/mountinfo")
        .make();
    let outcome = c.run().ok();
    assert!(!outcome.stdout.contains("sync") && !outcome.stdout.contains("lazytime"), "{outcome}");
}

fn remount_copies_nothing(bed: &Bed) {
    let c = bed.bundle().mount("tmpfs", "tmpfs", "/dev", &["remount", "tmpcopyup"]).make();
    let outcome = c.run();
    assert_ne!(outcome.code(), 0, "{outcome}");
}

/// A remount changes what is mounted at its place in the order of the configuration, also if it makes the mount
/// read-only, which dayfly does later.
fn remount_is_of_what_is_mounted_by_then(bed: &Bed) {
    let host = Mounted::tmpfs(&bed.dir.join("host"), "size=1m");
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "/mnt", &["size=2m"])
        .mount("tmpfs", "tmpfs", "/mnt", &["remount", "ro", "size=3m"])
        .mount("bind", text(host.path()), "/mnt", &["bind"])
        .sh("grep ' /mnt ' /proc/self/mountinfo; touch /mnt/file && echo written")
        .make();
    let outcome = c.run().ok();
    let lines = outcome.lines();
    // The order of the mount table is not that of the mounts.
    for (mode, size) in [(" ro,", "size=3072k"), (" rw,", "size=1024k")] {
        let is_meant = |line: &&str| line.contains(mode) && line.contains(size);
        assert_eq!(lines.iter().copied().filter(|line| is_meant(line)).count(), 1, "{outcome}");
    }
    assert_eq!(lines[2], "written", "{outcome}");
}
