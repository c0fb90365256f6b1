//! A tmpfs in a container: its options, and the files that it copies from the directory below
//! (tmpcopyup).

use crate::binds::text;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::mounted::Mounted;
use dayfly_tests::runner::Case;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(options),
    case!(copy_up),
    case!(over_existing_mode),
    case!(where_nothing_was),
    case!(shows_the_mode_it_takes_over),
    case!(is_filled_in_the_configs_order),
    case!(copy_up_keeps_what_is_asked_for),
    case!(copy_up_keeps_set_user_id),
    case!(copy_up_keeps_file_capabilities).unlike_runc(),
    case!(read_only_is_the_tmpfs_itself).needs(dayfly_tests::kernel::has_detached),
];

fn options(bed: &Bed) {
    let c = bed
        .bundle()
        .mount(
            "tmpfs",
            "tmpfs",
            "/mnt",
            &["nosuid", "nodev", "mode=1770", "size=1m", "uid=5", "gid=6"],
        )
        .sh("grep ' /mnt ' /proc/self/mountinfo; stat -c '%a %u %g' /mnt")
        .make();
    let outcome = c.run().ok();
    assert!(
        outcome.stdout.contains("size=1024k") && outcome.stdout.contains("rw,nosuid,nodev"),
        "{outcome}"
    );
    assert!(outcome.stdout.ends_with("1770 5 6\n"), "{outcome}");
}

fn copy_up(bed: &Bed) {
    let bundle = bed.bundle();
    let dir = bundle.rootfs().join("data");
    fs::create_dir_all(dir.join("sub")).expect("make");
    fs::write(dir.join("file"), "copied\n").expect("write");
    fs::write(dir.join("sub/deeper"), "too\n").expect("write");
    symlink("file", dir.join("link")).expect("link");
    fs::set_permissions(dir.join("file"), fs::Permissions::from_mode(0o640)).expect("chmod");
    for path in [&dir, &dir.join("file")] {
        std::os::unix::fs::chown(path, Some(5), Some(6)).expect("chown");
    }
    let c = bundle
        .mount("tmpfs", "tmpfs", "/data", &["tmpcopyup", "mode=0700"])
        .sh("cat /data/link /data/sub/deeper; stat -c %a:%u /data/file /data; grep -c ' /data ' /proc/self/mountinfo; echo x >/data/file")
        .make();
    assert_eq!(c.run().ok().stdout, "copied\ntoo\n640:5\n700:0\n1\n");
    assert_eq!(fs::read_to_string(c.bundle.join("rootfs/data/file")).expect("file"), "copied\n");
}

fn over_existing_mode(bed: &Bed) {
    // Without mode=, the mount gets the mode of the directory it covers.
    let bundle = bed.bundle();
    let dir = bundle.rootfs().join("data");
    fs::create_dir(&dir).expect("make");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o710)).expect("chmod");
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &[]).sh("stat -c %a /data").make();
    assert_eq!(c.run().ok().stdout, "710\n");
}

/// If the mount point did not exist before, everyone may write to the tmpfs, as in /tmp.
fn where_nothing_was(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "/scratch", &["size=1m"])
        .mount("tmpfs", "tmpfs", "/made/for/it", &["tmpcopyup"])
        .mount("tmpfs", "tmpfs", "/as/told", &["mode=0711"])
        .set("/process/user", json!({ "uid": 1000, "gid": 1000 }))
        .sh("touch /scratch/x; stat -c %a:%u:%g /scratch /as/told /as; grep ' /scratch ' /proc/self/mounts")
        .make();
    let outcome = c.run().ok();
    let lines = outcome.lines();
    assert_eq!(lines[..3], ["1777:0:0", "711:0:0", "755:0:0"]);
    assert!(!lines[3].contains("mode="), "{outcome}");
}

/// The mount table shows the mode that a tmpfs takes from its mount point, so that a remount can keep it.
fn shows_the_mode_it_takes_over(bed: &Bed) {
    let bundle = bed.bundle();
    let data = bundle.rootfs().join("data");
    fs::create_dir(&data).expect("make");
    std::os::unix::fs::chown(&data, Some(5), Some(6)).expect("chown");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o2750)).expect("chmod");
    let script = "stat -c %a:%u:%g /data; grep ' /data ' /proc/self/mounts";
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &["nosuid"]).sh(script).make();
    let outcome = c.run().ok();
    assert_eq!(outcome.lines()[0], "2750:0:0");
    assert!(outcome.stdout.contains("mode=2750"), "{outcome}");
}

/// Mounts that directly follow a tmpfs and are below it are made through the tmpfs's descriptor, not by a path that
/// another mount may cover meanwhile.
fn is_filled_in_the_configs_order(bed: &Bed) {
    let bundle = bed.bundle();
    symlink("t", bundle.rootfs().join("link")).expect("link");
    let c = bundle
        .mount("tmpfs", "lowest", "/t", &["mode=0700"])
        .mount("tmpfs", "one", "/t/a", &["mode=0711"])
        .mount("tmpfs", "two", "/t/a", &["mode=0722"])
        .mount("tmpfs", "three", "/t/b/c", &[])
        .mount("tmpfs", "four", "/t/d", &[])
        .mount("tmpfs", "upper", "/t", &["mode=0733"])
        .mount("tmpfs", "five", "/t/e", &["mode=0744"])
        .mount("tmpfs", "highest", "/link", &["mode=0755"])
        .mount("tmpfs", "six", "/t/f", &[])
        .mount("tmpfs", "seven", "/link/g", &[])
        .mount("tmpfs", "eight", "/t/g/h", &[])
        .sh("cat /proc/self/mountinfo")
        .make();
    let outcome = c.run().ok();
    let lines: Vec<Vec<&str>> =
        outcome.lines().iter().map(|line| line.split(' ').collect()).collect();
    // The source is the second word after the dash.
    let source = |line: &Vec<&str>| {
        let dash = line.iter().position(|word| *word == "-").expect("dash");
        line[dash + 2].to_owned()
    };
    let parent = |name: &str| {
        let line = lines.iter().find(|line| source(line) == name).expect(name);
        lines.iter().find(|other| other[0] == line[1]).map(source).unwrap_or_default()
    };
    for (name, below) in [
        ("one", "lowest"),
        ("two", "one"),
        ("three", "lowest"),
        ("four", "lowest"),
        ("upper", "lowest"),
        ("five", "upper"),
        ("highest", "upper"),
        ("six", "highest"),
        ("seven", "highest"),
        ("eight", "seven"),
    ] {
        assert_eq!(parent(name), below, "{name}: {outcome}");
    }
}

fn copy_up_keeps_what_is_asked_for(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("full")).expect("make");
    fs::write(bundle.rootfs().join("full/file"), "copied\n").expect("write");
    let c = bundle
        .mount("tmpfs", "tmpfs", "/full", &["tmpcopyup", "mode=0711", "uid=5", "gid=6"])
        .sh("stat -c '%a %u:%g' /full; cat /full/file")
        .make();
    assert_eq!(c.run().ok().stdout, "711 5:6\ncopied\n");
}

/// chown(2) clears set-user-ID and set-group-ID, so it must come before chmod(2): for files, nodes and directories.
fn copy_up_keeps_set_user_id(bed: &Bed) {
    let bundle = bed.bundle();
    let data = bundle.rootfs().join("data");
    fs::create_dir_all(data.join("shared")).expect("make");
    fs::write(data.join("su"), "").expect("write");
    bed.program("mkfifo", &[text(&data.join("fifo"))]).run().ok();
    for (name, mode) in [("su", 0o4755), ("fifo", 0o2711), ("shared", 0o3770)] {
        std::os::unix::fs::chown(data.join(name), Some(5), Some(6)).expect("chown");
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
    }
    let script = "cd /data; stat -c '%n %a %u:%g' su fifo shared";
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &["tmpcopyup"]).sh(script).make();
    assert_eq!(c.run().ok().stdout, "su 4755 5:6\nfifo 2711 5:6\nshared 3770 5:6\n");
}

fn copy_up_keeps_file_capabilities(bed: &Bed) {
    const NAME: &str = "security.capability";
    // Version 2, effective; CAP_NET_RAW is permitted.
    let mut capability = [0u8; 20];
    capability[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    let bundle = bed.bundle();
    let data = bundle.rootfs().join("data");
    fs::create_dir(&data).expect("make");
    fs::write(data.join("ping"), "").expect("write");
    setxattr(data.join("ping"), NAME, &capability, XattrFlags::empty()).expect("setxattr");
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &["tmpcopyup"]).make().detached();
    let copy = format!("/proc/{}/root/data/ping", c.pid());
    let mut found = [0u8; 64];
    let length = getxattr(copy, NAME, &mut found[..]).expect("getxattr");
    assert_eq!(found[..length], capability);
}

/// A later mount over a read-only tmpfs, at its path or at a link to it, is not what becomes read-only. Without a mount
/// namespace, it would be a file system of the host.
fn read_only_is_the_tmpfs_itself(bed: &Bed) {
    let host = Mounted::tmpfs(&bed.dir.join("host"), "size=1m");
    for (destination, has_namespace) in [("/a", true), ("/b", true), ("/a", false), ("/b", false)] {
        let bundle = bed.bundle();
        fs::create_dir(bundle.rootfs().join("a")).expect("make");
        symlink("a", bundle.rootfs().join("b")).expect("link");
        let bundle = bundle
            .mount("tmpfs", "tmpfs", "/a", &["ro"])
            .mount("bind", text(host.path()), destination, &["rbind"])
            .sh("echo written >/a/file && cat /a/file");
        let bundle = match has_namespace {
            true => bundle,
            false => bundle
                .without_namespace("mount")
                .unset("/linux/maskedPaths")
                .unset("/linux/readonlyPaths"),
        };
        assert_eq!(bundle.make().run().ok().stdout, "written\n", "{destination} {has_namespace}");
        fs::write(host.path().join("file"), "host").expect("the host's tmpfs stays writable");
    }
}
