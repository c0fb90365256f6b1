//! Mounts other than binds: kernel file systems, devices, the root, and their targets.

use crate::binds::{host_dir, options_of, text};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

pub mod overlay;
pub mod tmpfs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(what_lies_over_a_sysfs_comes_after_it),
    case!(private_by_default),
    case!(private_on_shared_mounts),
    case!(target_through_a_symlink),
    case!(target_through_a_symlink_into_proc),
    case!(target_through_a_symlink_to_sys).unlike_runc(),
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
    case!(cgroup_mount_v1_has_room).on(&[View::V1, View::Hybrid]),
    case!(cgroup2_is_v2_on_every_host).on(&[View::V1, View::Hybrid]),
    case!(cgroup_without_cgroup_namespace).on(&[View::V1, View::Hybrid]),
    case!(cgroups_have_the_propagation_of_their_options).on(&[View::V1, View::Hybrid]),
    case!(rootfs_read_only),
    case!(rootfs_read_only_with_missing_target),
    case!(rootfs_propagation),
    case!(host_mount_table_unchanged),
    case!(no_old_root_left),
    case!(relatime_and_friends),
    case!(destination_is_relative),
    case!(root_is_a_mount_point),
    case!(every_generic_option).unlike_runc(),
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

/// The masks and the root were peers and slaves of the host's mounts: a mount over /proc/keys, which is covered by
/// /dev/null, appeared over the host's /dev/null.
fn private_on_shared_mounts(bed: &Bed) {
    for is_mapped in [false, true] {
        for word in [None, Some("private"), Some("rprivate")] {
            let bundle = match is_mapped {
                true => crate::userns::mapped(bed),
                false => bed.bundle(),
            };
            let bundle = match word {
                Some(word) => bundle.set("/linux/rootfsPropagation", json!(word)),
                None => bundle,
            };
            let c = bundle.sh("cat /proc/self/mountinfo").make();
            let outcome = c.bundle_call("run", &[]).on_shared_mounts().run().ok();
            let mut lines = outcome.stdout.lines();
            let is_tied = |line: &str| line.contains("shared:") || line.contains("master:");
            assert!(!lines.any(is_tied), "{word:?}: {outcome}");
        }
    }
}

/// Files below /proc that may be covered are also covered through a link of the image.
fn target_through_a_symlink_into_proc(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    symlink("/proc/cpuinfo", bundle.rootfs().join("link")).expect("link");
    let source = dir.join("inside");
    let c = bundle.mount("bind", text(&source), "/link", &["bind"]).sh("cat /proc/cpuinfo").make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

/// dayfly mounts sysfs, and what the configuration mounts below it, as soon as the network namespace is ready. A bind
/// mount through a link to /sys comes before it, so sysfs covers it; in runc and crun it covers sysfs.
fn target_through_a_symlink_to_sys(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    symlink("../sys", bundle.rootfs().join("link")).expect("link");
    bundle.mount("bind", text(&dir), "/link", &["bind"]).sh("true").make().run().ok();
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

/// The tmpfs above the hierarchies is writable even if the hierarchies are read-only: systemd as process 1 makes
/// directories in it, and ends if it cannot (podman #6734 is of this kind).
fn cgroup_mount_v1_has_room(bed: &Bed) {
    let script = "mkdir /sys/fs/cgroup/new && echo >/sys/fs/cgroup/new/file && echo made; \
                  mkdir /sys/fs/cgroup/memory/x || echo refused";
    for bundle in [bed.bundle(), bed.bundle().without_namespace("cgroup")] {
        assert_eq!(bundle.sh(script).make().run().ok().stdout, "made\nrefused\n");
    }
}

fn cgroup2_is_v2_on_every_host(bed: &Bed) {
    let options = json!(["nosuid", "noexec", "nodev", "ro"]);
    let mount = json!({ "destination": "/sys/fs/cgroup", "type": "cgroup2", "source": "cgroup", "options": options });
    let script = "grep ' /sys/fs/cgroup' /proc/self/mountinfo; ls /sys/fs/cgroup/cgroup.procs";
    for bundle in [bed.bundle(), bed.bundle().without_namespace("cgroup")] {
        let outcome = bundle.remount("/sys/fs/cgroup", mount.clone()).sh(script).make().run().ok();
        let lines = outcome.lines();
        assert_eq!(lines.len(), 2, "{outcome}");
        assert!(
            lines[0].contains(" /sys/fs/cgroup ro,") && lines[0].contains(" - cgroup2 "),
            "{outcome}"
        );
    }
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

/// Podman asks for private cgroups; without the option, bind mounts are slaves of the host's.
fn cgroups_have_the_propagation_of_their_options(bed: &Bed) {
    for (word, is_private) in [("rprivate", true), ("rslave", false)] {
        let options = [word, "nosuid", "noexec", "nodev"];
        let mount = json!({ "destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": options });
        let bundle = bed.bundle().without_namespace("cgroup").remount("/sys/fs/cgroup", mount);
        let c = bundle.sh("grep -c ' /sys/fs/cgroup/.* master:' /proc/self/mountinfo; true").make();
        let outcome = c.bundle_call("run", &[]).on_shared_mounts().run().ok();
        assert_eq!(outcome.stdout == "0\n", is_private, "{word}: {outcome}");
    }
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

/// If init joins the network namespace late, it defers the mount of a sysfs until then. A sysfs that a later mount
/// covers, or of which a later mount binds a part, is not deferred.
fn what_lies_over_a_sysfs_comes_after_it(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("sysfs", "sysfs", "/deep/sys", &[])
        .mount("tmpfs", "tmpfs", "/deep", &[])
        .sh("ls -A /deep | wc -l")
        .make();
    assert_eq!(c.bundle_call("run", &[]).run().ok().stdout, "0\n");
    let c = bed
        .bundle()
        .mount("sysfs", "sysfs", "/deep/sys", &[])
        .mount("bind", "rootfs/deep/sys/class", "/class", &["bind"])
        .sh("ls -A /class | grep -c net")
        .make();
    assert_eq!(c.bundle_call("run", &[]).run().ok().stdout, "1\n");
}
