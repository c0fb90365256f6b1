//! Mounts: binds, propagation, tmpfs, kernel file systems, and where they land.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

pub const CASES: &[Case] = &[
    case!(bind_directory),
    case!(bind_read_only),
    case!(bind_file),
    case!(bind_makes_missing_targets),
    case!(bind_flags),
    case!(bind_is_not_recursive),
    case!(rbind_is_recursive),
    case!(rbind_ro_is_shallow_and_rro_is_deep),
    case!(bind_of_a_relative_source),
    case!(bind_source_missing),
    case!(bind_by_type),
    case!(bind_propagation),
    case!(rslave_sees_what_the_host_mounts),
    case!(private_by_default),
    case!(tmpfs_options),
    case!(tmpfs_copy_up),
    case!(tmpfs_over_existing_mode),
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
    case!(remount_bind_keeps_locked_flags),
    case!(relatime_and_friends),
    case!(bind_a_device_node),
    case!(destination_is_relative),
    case!(root_is_a_mount_point),
    case!(many_mounts),
];

/// A directory of the host with one file `inside`.
fn host_dir(bed: &Bed, name: &str) -> PathBuf {
    let dir = bed.dir.join(name);
    fs::create_dir(&dir).expect("make directory");
    fs::write(dir.join("inside"), format!("{name}\n")).expect("write");
    dir
}

fn text(path: &std::path::Path) -> &str {
    path.to_str().expect("path")
}

fn bind_directory(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["bind"])
        .sh("cat /mnt/inside; echo back >/mnt/answer")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
    assert_eq!(fs::read_to_string(dir.join("answer")).expect("answer"), "back\n");
}

fn bind_read_only(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["bind", "ro"])
        .sh("echo x >/mnt/inside")
        .make();
    let outcome = c.run().exits(1);
    assert!(outcome.stderr.contains("Read-only file system"), "{outcome}");
}

fn bind_file(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir.join("inside")), "/etc/passwd", &["bind", "ro"])
        .sh("cat /etc/passwd")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn bind_makes_missing_targets(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/made/for/you", &["bind"])
        .mount("bind", text(&dir.join("inside")), "/also/a/file", &["bind"])
        .sh("cat /made/for/you/inside /also/a/file; stat -c %a /made /made/for")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\nshared\n755\n755\n");
    let made = fs::symlink_metadata(c.bundle.join("rootfs/also/a/file")).expect("target");
    assert!(made.is_file());
}

fn options_of(mountinfo: &str, target: &str) -> Option<String> {
    mountinfo.lines().rfind(|line| line.split(' ').nth(4) == Some(target)).map(str::to_owned)
}

fn bind_flags(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["bind", "nosuid", "nodev", "noexec", "noatime"])
        .sh("cat /proc/self/mountinfo")
        .make();
    let outcome = c.run().ok();
    let line = options_of(&outcome.stdout, "/mnt").expect("mounted");
    assert!(line.contains(" rw,nosuid,nodev,noexec,noatime "), "{line}");
}

/// A directory that holds a mount of its own at `sub`, torn down at the end.
struct Nested {
    dir: PathBuf,
}

impl Nested {
    fn new(bed: &Bed, name: &str) -> Self {
        let dir = host_dir(bed, name);
        let sub = dir.join("sub");
        fs::create_dir(&sub).expect("make");
        bed.program("mount", &["-t", "tmpfs", "tmpfs", text(&sub)]).run().ok();
        fs::write(sub.join("deep"), "deep\n").expect("write");
        Self { dir }
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.dir.join("sub"), rustix::mount::UnmountFlags::DETACH);
    }
}

fn bind_is_not_recursive(bed: &Bed) {
    let nested = Nested::new(bed, "outer");
    let c =
        bed.bundle().mount("bind", text(&nested.dir), "/mnt", &["bind"]).sh("ls /mnt/sub").make();
    assert_eq!(c.run().ok().stdout, "");
}

fn rbind_is_recursive(bed: &Bed) {
    let nested = Nested::new(bed, "outer");
    let c = bed
        .bundle()
        .mount("bind", text(&nested.dir), "/mnt", &["rbind"])
        .sh("cat /mnt/sub/deep")
        .make();
    assert_eq!(c.run().ok().stdout, "deep\n");
}

fn rbind_ro_is_shallow_and_rro_is_deep(bed: &Bed) {
    let nested = Nested::new(bed, "outer");
    let script = "echo x >/mnt/new || echo top refused; echo x >/mnt/sub/new || echo sub refused";
    let run = |option: &str| {
        let c = bed
            .bundle()
            .mount("bind", text(&nested.dir), "/mnt", &["rbind", option])
            .sh(script)
            .make();
        c.run().ok().stdout
    };
    assert_eq!(run("ro"), "top refused\n");
    assert_eq!(run("rro"), "top refused\nsub refused\n");
}

fn bind_of_a_relative_source(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir(bundle.dir.join("data")).expect("make");
    fs::write(bundle.dir.join("data/file"), "relative\n").expect("write");
    let c = bundle.mount("bind", "data", "/mnt", &["bind"]).sh("cat /mnt/file").make();
    assert_eq!(c.run().ok().stdout, "relative\n");
}

fn bind_source_missing(bed: &Bed) {
    bed.bundle()
        .mount("bind", "/no/such", "/mnt", &["bind"])
        .make()
        .run()
        .fails("no such file or directory");
}

fn bind_by_type(bed: &Bed) {
    // Neither "bind" nor "rbind" among the options: the type alone says it.
    let dir = host_dir(bed, "shared");
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["rbind", "rprivate"])
        .sh("cat /mnt/inside")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
    let c = bed.bundle().mount("none", text(&dir), "/mnt", &["bind"]).sh("cat /mnt/inside").make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn bind_propagation(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    for (option, field) in [("shared", "shared:"), ("unbindable", "unbindable"), ("private", " - ")]
    {
        let c = bed
            .bundle()
            .mount("bind", text(&dir), "/mnt", &["bind", option])
            .sh("grep ' /mnt ' /proc/self/mountinfo")
            .make();
        let outcome = c.run().ok();
        assert!(outcome.stdout.contains(field), "{option}: {outcome}");
    }
}

fn rslave_sees_what_the_host_mounts(bed: &Bed) {
    let dir = host_dir(bed, "outer");
    fs::create_dir(dir.join("late")).expect("make");
    bed.program("mount", &["--bind", text(&dir), text(&dir)]).run().ok();
    bed.program("mount", &["--make-shared", text(&dir)]).run().ok();
    let c = bed
        .bundle()
        .set("/linux/rootfsPropagation", json!("rslave"))
        .mount("bind", text(&dir), "/mnt", &["rbind", "rslave"])
        .make()
        .detached();
    bed.program("mount", &["-t", "tmpfs", "tmpfs", text(&dir.join("late"))]).run().ok();
    fs::write(dir.join("late/word"), "arrived\n").expect("write");
    let outcome = c.exec(&["cat", "/mnt/late/word"]);
    c.delete_force().ok();
    bed.program("umount", &["-R", text(&dir)]).run().ok();
    assert_eq!(outcome.ok().stdout, "arrived\n");
}

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
    // Without mode= the mount takes the mode of the directory it covers.
    let bundle = bed.bundle();
    let dir = bundle.rootfs().join("data");
    fs::create_dir(&dir).expect("make");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o710)).expect("chmod");
    let c = bundle.mount("tmpfs", "tmpfs", "/data", &[]).sh("stat -c %a /data").make();
    assert_eq!(c.run().ok().stdout, "710\n");
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
    // Only the container's own part is shown all the same (CVE-2023-25809).
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
    // Nothing of the host's table is in the container's, not even hidden.
    let c = bed.bundle().sh("cat /proc/self/mountinfo; umount -l / && ls /").make();
    let outcome = c.run();
    let mounts: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains(" - ")).collect();
    assert!(mounts.len() < 60, "{outcome}");
    for line in &mounts {
        let source = line.split(" - ").nth(1).unwrap_or_default();
        assert!(!source.starts_with("devtmpfs") || line.contains("/null"), "{line}");
    }
}

fn remount_bind_keeps_locked_flags(bed: &Bed) {
    // A source mounted noexec stays noexec when the bind asks for ro only.
    let dir = host_dir(bed, "outer");
    bed.program("mount", &["-t", "tmpfs", "-o", "noexec,nodev", "tmpfs", text(&dir)]).run().ok();
    let c = bed
        .bundle()
        .mount("bind", text(&dir), "/mnt", &["bind", "ro"])
        .sh("grep ' /mnt ' /proc/self/mountinfo")
        .make();
    let outcome = c.run();
    bed.program("umount", &[text(&dir)]).run().ok();
    assert_eq!(outcome.code(), 0, "{outcome}");
    assert!(outcome.stdout.contains(" ro,"), "{outcome}");
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

fn bind_a_device_node(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("bind", "/dev/null", "/dev/also-null", &["bind"])
        .sh("stat -c '%F %t:%T' /dev/also-null")
        .make();
    assert_eq!(c.run().ok().stdout, "character special file 1:3\n");
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

fn many_mounts(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let mut bundle = bed.bundle();
    for number in 0..60 {
        bundle =
            bundle.mount("bind", text(&dir), &format!("/mnt/{number}"), &["rbind", "ro", "nosuid"]);
    }
    let c = bundle.sh("cat /mnt/*/inside | wc -l").make();
    assert_eq!(c.run().ok().stdout, "60\n");
}
