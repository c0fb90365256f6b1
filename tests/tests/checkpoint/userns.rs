//! Containers in user namespaces.

use super::{COUNTER, Saved, WRITER, places};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::criu;
use dayfly_tests::kernel;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(new_one).needs(criu::lacking).unlike_runc(),
    // Before Linux 6.15 a container in a user namespace gets the host's device nodes, and the host has no /dev/mine.
    case!(devices_and_masks)
        .needs(|| criu::lacking().and_then(|()| kernel::has_detached()))
        .unlike_runc(),
    case!(several_ranges_and_another_user).needs(criu::lacking).unlike_runc(),
    case!(volumes).needs(criu::lacking).unlike_runc(),
    case!(where_others_may_not_search).needs(criu::lacking).unlike_runc(),
    case!(images_that_others_could_reach).needs(criu::lacking).unlike_runc(),
    case!(mappings_of_an_earlier_checkpoint).needs(criu::lacking).unlike_runc(),
    case!(other_mappings).needs(criu::lacking).unlike_runc(),
];

fn new_one(bed: &Bed) {
    let saved = Saved::running(mapped(bed).sh(COUNTER));
    saved.counts();
    let look = || {
        let pid = saved.c.pid();
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("read");
        let status = read("status");
        let rights = status.lines().filter(|line| {
            ["Uid:", "Gid:", "Groups:", "Cap"].iter().any(|word| line.starts_with(word))
        });
        let rights: Vec<String> = rights.map(str::to_owned).collect();
        (read("uid_map"), read("gid_map"), read("setgroups"), rights)
    };
    let before = (look(), places(&saved.c.sh("cat /proc/1/mountinfo").ok().stdout));
    for _ in 0..3 {
        let then = saved.count();
        saved.cycle();
        assert!(saved.counts() > then);
        assert_eq!((look(), places(&saved.c.sh("cat /proc/1/mountinfo").ok().stdout)), before);
    }
    let owner = fs::metadata(saved.c.bundle.join("rootfs/n")).expect("stat");
    assert_eq!((owner.uid(), owner.gid()), (100_000, 200_000));
    for kind in ["mnt", "net", "ipc", "uts", "pid", "cgroup"] {
        let open =
            |kind| fs::File::open(format!("/proc/{}/ns/{kind}", saved.c.pid())).expect("open");
        let owner = sys::nsfs::owner(open(kind).as_fd()).expect("NS_GET_USERNS");
        let inode = fs::File::from(owner).metadata().expect("stat").ino();
        assert_eq!(inode, open("user").metadata().expect("stat").ino(), "{kind}");
    }
    let exec =
        saved.c.sh("id -u; for p in self 1; do readlink /proc/$p/ns/user; done | sort -u | wc -l");
    assert_eq!(exec.ok().stdout, "0\n1\n");
    let pid = saved.c.pid();
    assert!(saved.c.cgroup_read("pids", "cgroup.procs").contains(&pid.to_string()));
    saved.c.delete_force().ok();
    saved.c.assert_gone("a restore in a user namespace");
}

pub(super) fn devices_and_masks(bed: &Bed) {
    let device = json!({
        "path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 7, "gid": 8,
    });
    let bundle = mapped(bed)
        .push("/linux/devices", device)
        .set("/linux/maskedPaths", json!(["/proc/keys", "/proc/kcore", "/proc/acpi"]))
        .set("/linux/readonlyPaths", json!(["/proc/sys"]))
        .sh(COUNTER);
    let saved = Saved::running(bundle);
    saved.counts();
    let look = || {
        let stat = "stat -c '%n %F %t:%T %a %u:%g' /dev/null /dev/zero /dev/full /dev/tty /dev/mine; \
                    head -c 4 /dev/mine | wc -c; cat /proc/keys | wc -c; ls /proc/acpi | wc -l; \
                    chmod 600 /proc/keys || echo fixed; echo 1 >/proc/sys/kernel/pid_max || echo read-only";
        let seen = saved.c.sh(stat).ok().stdout;
        (seen, places(&saved.c.sh("cat /proc/1/mountinfo").ok().stdout))
    };
    let before = look();
    assert!(
        before.0.contains("/dev/mine character special file 1:5 640 7:8\n4\n0\n"),
        "{before:?}"
    );
    assert!(before.0.ends_with("fixed\nread-only\n"), "{before:?}");
    for _ in 0..2 {
        saved.cycle();
        saved.counts();
        assert_eq!(look(), before);
    }
    let mode = fs::metadata("/dev/null").expect("stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

fn several_ranges_and_another_user(bed: &Bed) {
    let maps = |first: u32| {
        json!([
            { "containerID": 0, "hostID": first, "size": 10 },
            { "containerID": 1000, "hostID": first + 5000, "size": 2 },
            { "containerID": 65000, "hostID": first + 6000, "size": 1000 },
        ])
    };
    let bundle = mapped(bed)
        .set("/linux/uidMappings", maps(100_000))
        .set("/linux/gidMappings", maps(200_000))
        .set("/process/user", json!({ "uid": 1000, "gid": 1001, "additionalGids": [5] }))
        .sh(COUNTER);
    fs::set_permissions(bundle.rootfs(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let saved = Saved::running(bundle);
    saved.counts();
    saved.cycle();
    saved.counts();
    let pid = saved.c.pid();
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).expect("read");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&read("uid_map"))[..6], ["0", "100000", "10", "1000", "105000", "2"]);
    let status = read("status");
    let line = |name: &str| {
        words(status.lines().find(|line| line.starts_with(name)).expect("line"))[1].clone()
    };
    assert_eq!((line("Uid:"), line("Gid:")), ("105000".into(), "205001".into()));
    assert_eq!(line("Groups:"), "200005");
}

/// Bind mounts of a directory and of a file.
fn volumes(bed: &Bed) {
    let data = bed.dir.join("data");
    fs::create_dir(&data).expect("mkdir");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).expect("chmod");
    fs::write(data.join("file"), "of the host\n").expect("write");
    let text = data.to_str().expect("path");
    let bundle = mapped(bed)
        .mount("bind", text, "/data", &["rbind", "rw"])
        .mount("bind", &format!("{text}/file"), "/etc/file", &["bind", "ro", "nosuid"])
        .mount("tmpfs", "tmpfs", "/data/own", &["size=64k"])
        .sh(WRITER);
    let saved = Saved::running(bundle);
    saved.writes_on(&data.join("log"), "/proc/1/mountinfo");
    let seen = saved.c.sh("cat /etc/file /data/own/kept; stat -c %u:%g /data/log /data/own/kept");
    assert_eq!(seen.ok().stdout, "of the host\nkept\n0:0\n0:0\n");
    saved.c.sh("echo >/etc/file").exits(1);
}

/// The mode of the images allows other users to read them, so other users must not be able to
/// search their directory.
fn images_that_others_could_reach(bed: &Bed) {
    let saved = Saved::running(mapped(bed).sh(COUNTER));
    fs::create_dir(&saved.images).expect("mkdir");
    let mode =
        |mode| fs::set_permissions(&saved.images, fs::Permissions::from_mode(mode)).expect("chmod");
    for bits in [0o755, 0o710, 0o701] {
        mode(bits);
        saved.checkpoint(&[]).fails("can be searched by others");
    }
    assert_eq!(fs::read_dir(&saved.images).expect("read images").count(), 0);
    saved.counts();
    mode(0o700);
    saved.cycle();
    saved.counts();
}

/// A container without a user namespace is saved to a directory that already has the images of a container in a user
/// namespace.
fn mappings_of_an_earlier_checkpoint(bed: &Bed) {
    let earlier = Saved::running(mapped(bed).sh(COUNTER));
    earlier.counts();
    earlier.checkpoint(&[]).ok();
    let saved = Saved::of(bed.bundle().sh(COUNTER).make().detached(), earlier.images.clone());
    saved.counts();
    saved.cycle();
    saved.counts();
}

/// The state root, the bundle and the images are in a directory that only the host's root may search.
fn where_others_may_not_search(bed: &Bed) {
    let saved = Saved::running(mapped(bed).sh(COUNTER));
    saved.counts();
    let mode =
        |mode| fs::set_permissions(&bed.dir, fs::Permissions::from_mode(mode)).expect("chmod");
    for open in [0o700, 0o755] {
        mode(open);
        let file = bed.dir.join("pid");
        saved.checkpoint(&[]).ok();
        saved.restore(&["--pid-file", file.to_str().expect("path")]).ok();
        saved.counts();
        let pid = fs::read_to_string(&file).expect("pid file");
        assert_eq!(pid, saved.c.pid().to_string());
    }
}

fn other_mappings(bed: &Bed) {
    let saved = Saved::running(mapped(bed).sh(COUNTER));
    saved.counts();
    saved.checkpoint(&[]).ok();
    let file = saved.c.bundle.join("config.json");
    let config = fs::read_to_string(&file).expect("config.json");
    fs::write(&file, config.replace("200000", "300000")).expect("write");
    saved
        .restore(&[])
        .fails("the group id mappings 0:200000:65536, the configuration has 0:300000:65536");
    saved.c.assert_gone("a refused restore");
    // The images must be readable for the container's root.
    fs::write(&file, &config).expect("write");
    let image = saved.images.join("pstree.img");
    let mode = |mode| fs::set_permissions(&image, fs::Permissions::from_mode(mode)).expect("chmod");
    mode(0o600);
    saved.restore(&[]).fails("pstree.img has mode 0600: root of a user namespace has to read it");
    saved.c.assert_gone("a refused restore");
    mode(0o644);
    saved.restore(&[]).ok();
    saved.counts();
}
