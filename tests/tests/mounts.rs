//! Mounts other than binds: tmpfs, kernel file systems, the root, and their targets.

use crate::binds::{host_dir, options_of, text};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::kernel::has_detached;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(what_lies_over_a_sysfs_comes_after_it),
    case!(private_by_default),
    case!(tmpfs_options),
    case!(tmpfs_copy_up),
    case!(tmpfs_over_existing_mode),
    case!(tmpfs_where_nothing_was),
    case!(tmpfs_shows_the_mode_it_takes_over),
    case!(tmpfs_is_filled_in_the_configs_order),
    case!(target_through_a_symlink),
    case!(target_through_an_absolute_symlink),
    case!(order_is_the_configs),
    case!(unknown_type),
    case!(invalid_option),
    case!(mount_without_source),
    case!(proc_and_sys),
    case!(devpts_newinstance),
    case!(mqueue_and_shm),
    case!(cgroup_mount_v2).on(&[View::V2]),
    case!(cgroup_mount_v1).on(&[View::V1, View::Hybrid]),
    case!(cgroup_without_cgroup_namespace).on(&[View::V1, View::Hybrid]),
    case!(rootfs_read_only),
    case!(rootfs_read_only_with_missing_target),
    case!(rootfs_propagation),
    case!(host_mount_table_unchanged),
    case!(no_old_root_left),
    case!(relatime_and_friends),
    case!(destination_is_relative),
    case!(root_is_a_mount_point),
    case!(every_generic_option).unlike_runc(),
    case!(tmpfs_copy_up_keeps_what_is_asked_for),
    case!(overlay_of_host_directories),
    case!(overlay_with_long_options),
    case!(overlay_of_relative_layers),
    case!(overlay_without_a_mount_namespace).unlike_runc().needs(has_detached),
    case!(filesystem_of_a_device).when(has_loop_devices),
    case!(filesystem_of_what_is_no_device),
    case!(nothing_goes_over_the_root),
];

fn private_by_default(bed: &Bed) {
    let c = bed.bundle().sh("cat /proc/self/mountinfo").make();
    let outcome = c.run().ok();
    assert!(
        !outcome.stdout.contains("shared:") && !outcome.stdout.contains("master:"),
        "{outcome}"
    );
}

fn tmpfs_options(bed: &Bed) {
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

fn tmpfs_copy_up(bed: &Bed) {
    let bundle = bed.bundle();
    let dir = bundle.rootfs().join("data");
    fs::create_dir_all(dir.join("sub")).expect("make");
    fs::write(dir.join("file"), "copied\n").expect("write");
    fs::write(dir.join("sub/deeper"), "too\n").expect("write");
    symlink("file", dir.join("link")).expect("link");
    fs::set_permissions(dir.join("file"), fs::Permissions::from_mode(0o640)).expect("chmod");
    let c = bundle
        .mount("tmpfs", "tmpfs", "/data", &["tmpcopyup", "mode=0700"])
        .sh("cat /data/link /data/sub/deeper; stat -c %a /data/file; grep -c ' /data ' /proc/self/mountinfo; echo x >/data/file")
        .make();
    assert_eq!(c.run().ok().stdout, "copied\ntoo\n640\n1\n");
    assert_eq!(fs::read_to_string(c.bundle.join("rootfs/data/file")).expect("file"), "copied\n");
}

fn tmpfs_over_existing_mode(bed: &Bed) {
    // Without mode=, the mount gets the mode of the directory it covers.
    let bundle = bed.bundle();
    let dir = bundle.rootfs().join("data");
    fs::create_dir(&dir).expect("make");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o710)).expect("chmod");
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &[]).sh("stat -c %a /data").make();
    assert_eq!(c.run().ok().stdout, "710\n");
}

/// If the mount point did not exist before, everyone may write to the tmpfs, as in /tmp.
fn tmpfs_where_nothing_was(bed: &Bed) {
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
fn tmpfs_shows_the_mode_it_takes_over(bed: &Bed) {
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
fn tmpfs_is_filled_in_the_configs_order(bed: &Bed) {
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

fn target_through_a_symlink(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("real")).expect("make");
    symlink("real", bundle.rootfs().join("link")).expect("link");
    let c = bundle.mount("bind", text(&dir), "/link", &["bind"]).sh("cat /real/inside").make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn target_through_an_absolute_symlink(bed: &Bed) {
    // An absolute link of the image is resolved inside the image.
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("real")).expect("make");
    symlink("/real", bundle.rootfs().join("link")).expect("link");
    symlink("../../../../../../real", bundle.rootfs().join("climb")).expect("link");
    let c = bundle
        .mount("bind", text(&dir), "/link/below", &["bind"])
        .mount("bind", text(&dir), "/climb/other", &["bind"])
        .sh("cat /real/below/inside /real/other/inside")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\nshared\n");
}

fn order_is_the_configs(bed: &Bed) {
    let (one, two) = (host_dir(bed, "one"), host_dir(bed, "two"));
    let c = bed
        .bundle()
        .mount("bind", text(&one), "/mnt", &["bind"])
        .mount("bind", text(&two), "/mnt", &["bind"])
        .sh("cat /mnt/inside")
        .make();
    assert_eq!(c.run().ok().stdout, "two\n");
}

fn unknown_type(bed: &Bed) {
    bed.bundle().mount("nosuchfs", "none", "/mnt", &[]).make().run().fails("no such device");
}

fn invalid_option(bed: &Bed) {
    bed.bundle()
        .mount("tmpfs", "tmpfs", "/mnt", &["nosuchoption=1"])
        .make()
        .run()
        .fails("invalid argument");
}

fn mount_without_source(bed: &Bed) {
    let c = bed
        .bundle()
        .push("/mounts", json!({ "destination": "/mnt", "type": "tmpfs" }))
        .sh("grep -c ' /mnt ' /proc/self/mounts")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n");
}

fn proc_and_sys(bed: &Bed) {
    let c = bed.bundle().sh("cat /proc/self/mountinfo").make();
    let outcome = c.run().ok();
    let find = |target| options_of(&outcome.stdout, target).unwrap_or_default();
    assert!(find("/proc").contains(" rw,nosuid,nodev,noexec,relatime - proc proc "), "{outcome}");
    assert!(find("/sys").contains(" ro,nosuid,nodev,noexec,relatime - sysfs sysfs "), "{outcome}");
    assert!(find("/dev").contains(" rw,nosuid - tmpfs tmpfs "), "{outcome}");
}

fn devpts_newinstance(bed: &Bed) {
    let c = bed.bundle().sh("ls /dev/pts; stat -c %a /dev/pts/ptmx; readlink /dev/ptmx; grep devpts /proc/self/mounts").make();
    let outcome = c.run().ok();
    let lines = outcome.lines();
    assert_eq!(lines[..3], ["ptmx", "666", "pts/ptmx"]);
    assert!(lines[3].contains("gid=5,mode=620,ptmxmode=666"), "{outcome}");
}

fn mqueue_and_shm(bed: &Bed) {
    let c = bed
        .bundle()
        .sh("grep -E '/dev/(mqueue|shm) ' /proc/self/mounts; stat -c %a /dev/shm")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.contains("/dev/mqueue mqueue rw,nosuid,nodev,noexec"), "{outcome}");
    assert!(
        outcome.stdout.contains("/dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=64000k"),
        "{outcome}"
    );
    assert!(outcome.stdout.ends_with("1777\n"), "{outcome}");
}

fn cgroup_mount_v2(bed: &Bed) {
    let script = "cat /proc/self/cgroup; grep ' /sys/fs/cgroup ' /proc/self/mountinfo; cat /sys/fs/cgroup/cgroup.procs; mkdir /sys/fs/cgroup/x";
    let c = bed.bundle().sh(script).make();
    let outcome = c.run().exits(1);
    let lines = outcome.lines();
    assert!(lines.contains(&"0::/"), "{outcome}");
    assert!(
        outcome
            .stdout
            .contains("/ /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup"),
        "{outcome}"
    );
    assert!(lines.contains(&"1"), "its own init is what it sees: {outcome}");
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
}

fn cgroup_mount_v1(bed: &Bed) {
    let c = bed.bundle().sh("ls /sys/fs/cgroup; cat /sys/fs/cgroup/memory/cgroup.procs; cat /proc/self/mountinfo; mkdir /sys/fs/cgroup/pids/x").make();
    let outcome = c.run().exits(1);
    for name in ["memory", "pids", "cpu", "devices", "freezer", "systemd"] {
        assert!(outcome.lines().contains(&name), "{name}: {outcome}");
        let line = options_of(&outcome.stdout, &format!("/sys/fs/cgroup/{name}")).expect("mounted");
        assert!(line.contains(" ro,nosuid,nodev,noexec,relatime "), "{line}");
    }
    assert!(outcome.lines().contains(&"1"), "{outcome}");
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
}

fn cgroup_without_cgroup_namespace(bed: &Bed) {
    // Without a cgroup namespace, too, only the container's own cgroup is visible (CVE-2023-25809).
    let c = bed
        .bundle()
        .without_namespace("cgroup")
        .sh("ls -d /sys/fs/cgroup/dayfly-test /sys/fs/cgroup/*/dayfly-test 2>/dev/null; cat /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/memory/cgroup.procs 2>/dev/null")
        .make();
    let outcome = c.run();
    assert!(!outcome.stdout.contains("dayfly-test"), "{outcome}");
    assert!(outcome.lines().contains(&"1"), "{outcome}");
}

fn rootfs_read_only(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/root/readonly", json!(true))
        .sh("echo x >/file; echo y >/dev/shm/file && echo shm")
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
    assert_eq!(outcome.stdout, "shm\n");
    assert!(!c.bundle.join("rootfs/file").exists());
}

fn rootfs_read_only_with_missing_target(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .set("/root/readonly", json!(true))
        .mount("bind", text(&dir), "/new/place", &["bind"])
        .sh("cat /new/place/inside")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn rootfs_propagation(bed: &Bed) {
    for (name, field) in
        [("shared", "shared:"), ("private", "relatime - "), ("rprivate", "relatime - ")]
    {
        let c = bed
            .bundle()
            .set("/linux/rootfsPropagation", json!(name))
            .sh("grep ' / / \\|rootfs / ' /proc/self/mountinfo")
            .make();
        let outcome = c.run().ok();
        assert!(outcome.stdout.contains(field), "{name}: {outcome}");
    }
    bed.bundle()
        .set("/linux/rootfsPropagation", json!("sideways"))
        .make()
        .run()
        .fails("rootfsPropagation=sideways is not supported");
}

fn host_mount_table_unchanged(bed: &Bed) {
    let mine = || {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        table.lines().filter(|line| line.contains(text(&bed.dir))).count()
    };
    let c = bed.bundle().make();
    c.create().ok();
    assert_eq!(mine(), 0);
    c.start().ok();
    assert_eq!(mine(), 0);
}

fn no_old_root_left(bed: &Bed) {
    // The container's mount table contains no mount of the host, not even a hidden one.
    let c = bed.bundle().sh("cat /proc/self/mountinfo; umount -l / && ls /").make();
    let outcome = c.run();
    let mounts: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains(" - ")).collect();
    assert!(mounts.len() < 60, "{outcome}");
    for line in &mounts {
        let source = line.split(" - ").nth(1).unwrap_or_default();
        assert!(!source.starts_with("devtmpfs") || line.contains("/null"), "{line}");
    }
}

fn relatime_and_friends(bed: &Bed) {
    for (option, expected) in [
        ("noatime", "noatime"),
        ("strictatime", "rw -"),
        ("nodiratime", "nodiratime,"),
        ("nosymfollow", "nosymfollow"),
    ] {
        let c = bed
            .bundle()
            .mount("tmpfs", "tmpfs", "/mnt", &[option])
            .sh("grep ' /mnt ' /proc/self/mountinfo")
            .make();
        let outcome = c.run().ok();
        assert!(outcome.stdout.contains(expected), "{option}: {outcome}");
    }
}

fn destination_is_relative(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("tmpfs", "tmpfs", "mnt", &[])
        .sh("grep -c ' /mnt ' /proc/self/mounts")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n");
}

fn root_is_a_mount_point(bed: &Bed) {
    let c = bed.bundle().sh("grep -c ' / ' /proc/self/mounts; ls /; cd /..; pwd").make();
    let outcome = c.run().ok();
    assert_eq!(outcome.lines().first(), Some(&"1"));
    assert!(outcome.lines().contains(&"bin"));
}

/// Every option of config.md that does not depend on the type of file system is supported.
fn every_generic_option(bed: &Bed) {
    let (set, unset) = (
        ["sync", "dirsync", "lazytime", "silent", "iversion", "mand", "nosuid", "nodev", "noexec"],
        ["async", "nolazytime", "loud", "noiversion", "nomand", "suid", "dev", "exec", "defaults"],
    );
    for (words, expected) in [(set, "nosuid,nodev,noexec"), (unset, "rw,relatime")] {
        let c = bed
            .bundle()
            .mount("tmpfs", "tmpfs", "/mnt", &words)
            .sh("grep ' /mnt ' /proc/self/mountinfo")
            .make();
        let outcome = c.run().ok();
        assert!(outcome.stdout.contains(expected), "{outcome}");
        assert_eq!(outcome.stdout.contains("lazytime"), words == set, "{outcome}");
    }
}

fn tmpfs_copy_up_keeps_what_is_asked_for(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("full")).expect("make");
    fs::write(bundle.rootfs().join("full/file"), "copied\n").expect("write");
    let c = bundle
        .mount("tmpfs", "tmpfs", "/full", &["tmpcopyup", "mode=0711", "uid=5", "gid=6"])
        .sh("stat -c '%a %u:%g' /full; cat /full/file")
        .make();
    assert_eq!(c.run().ok().stdout, "711 5:6\ncopied\n");
}

/// Engines mount overlays whose layers are directories of the host.
fn overlay_of_host_directories(bed: &Bed) {
    let lower = host_dir(bed, "lower");
    let upper = bed.dir.join("upper");
    // overlayfs can't use another overlay as its upper directory, and the bed may be on one.
    fs::create_dir_all(&upper).expect("make");
    bed.program("mount", &["-t", "tmpfs", "tmpfs", text(&upper)]).run().ok();
    fs::create_dir(upper.join("upper")).expect("make");
    fs::create_dir(upper.join("work")).expect("make");
    let options = [
        format!("lowerdir={}", text(&lower)),
        format!("upperdir={}/upper", text(&upper)),
        format!("workdir={}/work", text(&upper)),
        "private".to_string(),
    ];
    let options = options.each_ref().map(String::as_str);
    let c = bed
        .bundle()
        .mount("overlay", "overlay", "/mnt", &options)
        .sh("cat /mnt/inside; echo new >/mnt/new")
        .make();
    let outcome = c.run();
    let written = fs::read_to_string(upper.join("upper/new"));
    bed.program("umount", &["-R", text(&upper)]).run().ok();
    assert_eq!(outcome.ok().stdout, "lower\n");
    assert_eq!(written.expect("written"), "new\n");
    assert!(!lower.join("new").exists());
}

/// Values that are too long for fsconfig(2) work together with all other options.
fn overlay_with_long_options(bed: &Bed) {
    let layers: Vec<String> = (0..4)
        .map(|number| {
            let name = format!("{number}{}", "x".repeat(100));
            text(&host_dir(bed, &name)).to_owned()
        })
        .collect();
    let lower = format!("lowerdir={}", layers.join(":"));
    let options = ["noatime", "nosymfollow", "nosuid", "unbindable", &lower];
    let c = bed
        .bundle()
        .mount("overlay", "overlay", "/mnt", &options)
        .sh("grep ' /mnt ' /proc/self/mountinfo")
        .make();
    let outcome = c.run().ok();
    for word in ["nosuid", "noatime", "nosymfollow", " unbindable "] {
        assert!(outcome.stdout.contains(word), "{word}: {outcome}");
    }
}

/// Relative layers are relative to the root filesystem, even if other layers are on the host.
fn overlay_of_relative_layers(bed: &Bed) {
    let lower = host_dir(bed, "lower");
    for layers in [format!("{}:relative", text(&lower)), "relative:bin".to_string()] {
        let bundle = bed.bundle();
        fs::create_dir(bundle.rootfs().join("relative")).expect("make");
        fs::write(bundle.rootfs().join("relative/file"), "relative\n").expect("write");
        let options = [&*format!("lowerdir={layers}")];
        let c = bundle.mount("overlay", "overlay", "/mnt", &options).sh("cat /mnt/file").make();
        assert_eq!(c.run().ok().stdout, "relative\n", "{layers}");
    }
}

/// Without a mount namespace, an overlay that is the root filesystem is attached nowhere. The working directory and
/// mount(2) therefore can't reach it.
fn overlay_without_a_mount_namespace(bed: &Bed) {
    let lower = host_dir(bed, "lower");
    let other = host_dir(bed, "other");
    let bundle = |options: &str| {
        let bundle = bed.bundle().without_namespace("mount");
        let bundle = bundle.unset("/linux/maskedPaths").unset("/linux/readonlyPaths");
        bundle.mount("overlay", "overlay", "/mnt", &[options])
    };
    let layers = format!("lowerdir={}:{}", text(&lower), text(&other));
    let c = bundle(&layers).sh("cat /mnt/inside").make();
    assert_eq!(c.run().ok().stdout, "lower\n");
    let takes_one = "a mount namespace of the container's own";
    bundle("lowerdir=bin:sbin").make().run().fails(&format!("relative paths take {takes_one}"));
    let long = format!("lowerdir={}{}:/", "/./".repeat(100), text(&lower));
    bundle(&long).make().run().fails(&format!("more than 255 bytes takes {takes_one}"));
}

fn filesystem_of_what_is_no_device(bed: &Bed) {
    let c = bed.bundle().mount("ext4", "/dev/null", "/mnt", &["ro"]).make();
    c.run().fails("block device required");
}

fn has_loop_devices() -> bool {
    std::path::Path::new("/dev/loop-control").exists()
        && fs::read_to_string("/proc/filesystems").is_ok_and(|known| known.contains("\text4\n"))
}

fn filesystem_of_a_device(bed: &Bed) {
    let image = bed.dir.join("image");
    let file = fs::File::create(&image).expect("image");
    file.set_len(4 << 20).expect("size");
    bed.program("mkfs.ext4", &["-q", "-F", text(&image)]).run().ok();
    let device = bed.program("losetup", &["--find", "--show", text(&image)]).run().ok();
    let device = device.stdout.trim().to_owned();
    let c = bed
        .bundle()
        .mount("ext4", &device, "/mnt", &["ro", "nodev"])
        .sh("grep ' /mnt ' /proc/self/mountinfo; ls /mnt")
        .make();
    let outcome = c.run();
    bed.program("losetup", &["--detach", &device]).run().ok();
    let outcome = outcome.ok();
    assert!(outcome.stdout.contains(&format!(" - ext4 {device} ")), "{outcome}");
    assert!(outcome.stdout.contains("lost+found"), "{outcome}");
}

fn nothing_goes_over_the_root(bed: &Bed) {
    let c = bed.bundle().mount("tmpfs", "tmpfs", "/", &[]).make();
    c.run().fails("is on the top of");
    let dir = host_dir(bed, "over");
    let c = bed.bundle().mount("bind", text(&dir), "/.", &["bind"]).make();
    c.run().fails("is on the top of");
}

/// If init joins the network namespace late, it mounts a sysfs late, too, unless a later mount covers the sysfs.
fn what_lies_over_a_sysfs_comes_after_it(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("sysfs", "sysfs", "/deep/sys", &[])
        .mount("tmpfs", "tmpfs", "/deep", &[])
        .sh("ls -A /deep | wc -l")
        .make();
    // The check for concurrent starts is disabled: on a host with busy CPUs it would make init create its network
    // itself, and nothing would be deferred.
    let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", "crowd-check");
    assert_eq!(call.run().ok().stdout, "0\n");
    let c = bed
        .bundle()
        .mount("sysfs", "sysfs", "/deep/sys", &[])
        .mount("bind", "rootfs/deep/sys/class", "/class", &["bind"])
        .sh("ls -A /class | grep -c net")
        .make();
    let call = c.bundle_call("run", &[]).env("DAYFLY_WITHOUT", "crowd-check");
    assert_eq!(call.run().ok().stdout, "1\n");
}
