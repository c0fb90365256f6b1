//! Bind mounts: their content, flags, propagation, missing targets.

mod propagation;
mod used;

use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use rustix::mount::{MountFlags, UnmountFlags};
use serde_json::json;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
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
    case!(bind_of_what_is_mounted_by_then),
    case!(rbind_of_what_has_mounts_by_then),
    case!(flags_are_added_to_the_sources).unlike_runc(),
    case!(access_times_stay_the_sources),
    case!(more_mounts_than_descriptors),
    case!(bind_propagation),
    Case::new("propagation_is_of_one_mount_or_of_all", propagation::is_of_one_mount_or_of_all),
    Case::new("propagation_below_a_shared_mount", propagation::below_a_shared_mount),
    Case::new(
        "propagation_below_a_shared_mount_of_no_namespace",
        propagation::below_a_shared_mount_of_no_namespace,
    ),
    Case::new(
        "shared_is_not_shared_with_the_host",
        propagation::shared_is_not_shared_with_the_host,
    ),
    case!(rslave_sees_what_the_host_mounts),
    case!(remount_bind_keeps_locked_flags),
    case!(bind_a_device_node),
    case!(many_mounts),
    case!(options_of_filesystems_are_passed_over).unlike_runc(),
    Case::new("rbind_of_the_hosts_root", used::rbind_of_the_hosts_root).needs(used::has_programs),
    Case::new(
        "rbind_of_the_hosts_root_a_hundred_times",
        used::rbind_of_the_hosts_root_a_hundred_times,
    )
    .needs(used::has_programs),
    Case::new("the_hosts_root_as_root", used::the_hosts_root_as_root)
        .needs(used::has_programs)
        .unlike_runc(),
    Case::new("no_mount_namespace_beside_pins", used::no_mount_namespace_beside_pins)
        .needs(used::may_mount_in_copies)
        .unlike_runc(),
    Case::new("mounts_propagate_without_pins", used::mounts_propagate_without_pins)
        .needs(used::has_programs),
    case!(a_directory_over_a_file),
    case!(the_roots_path_on_the_host),
    case!(of_a_file_system_that_denies_access).when(has_fuse),
];

/// Makes a directory on the host with one file, `inside`.
pub fn host_dir(bed: &Bed, name: &str) -> PathBuf {
    let dir = bed.dir.join(name);
    fs::create_dir(&dir).expect("make directory");
    fs::write(dir.join("inside"), format!("{name}\n")).expect("write");
    dir
}

pub fn text(path: &std::path::Path) -> &str {
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
    assert_eq!(made.permissions().mode(), 0o100_644);
}

pub fn options_of(mountinfo: &str, target: &str) -> Option<String> {
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

/// A directory with a mount at `sub`, unmounted when dropped.
pub struct Nested {
    pub dir: PathBuf,
}

impl Nested {
    pub fn new(bed: &Bed, name: &str) -> Self {
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
    // Either the type or the options make a mount a bind mount.
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

/// The source is a path in the root filesystem below an earlier mount. The bind shows what the container sees at that
/// path, not the directory of the image.
fn bind_of_what_is_mounted_by_then(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    fs::create_dir(dir.join("sub")).expect("make");
    fs::write(dir.join("sub/deep"), "deep\n").expect("write");
    for namespaces in [Bed::bundle, crate::userns::mapped] {
        let bundle = namespaces(bed);
        let root = bundle.rootfs();
        let c = bundle
            .mount("bind", text(&dir), "/mnt", &["bind"])
            .mount("bind", text(&root.join("mnt/sub")), "/directory", &["bind", "ro"])
            .mount("bind", text(&root.join("mnt/sub/deep")), "/file", &["bind"])
            .mount("tmpfs", "tmpfs", "/own", &["mode=1777", "size=64k"])
            .mount("bind", text(&root.join("own")), "/same", &["bind"])
            .sh("cat /directory/deep /file; touch /directory/x || echo refused; \
                 echo written >/own/new; cat /same/new")
            .make();
        let outcome = c.run().exits(0);
        assert_eq!(outcome.stdout, "deep\ndeep\nrefused\nwritten\n", "{outcome}");
    }
}

fn rbind_of_what_has_mounts_by_then(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    let place = bundle.rootfs().join("place");
    fs::create_dir_all(place.join("below")).expect("make");
    let c = bundle
        .mount("bind", text(&dir), "/place/below", &["bind"])
        .mount("bind", text(&place), "/deep", &["rbind"])
        .mount("bind", text(&place), "/shallow", &["bind"])
        .sh("cat /deep/below/inside; ls /shallow/below")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

/// Mounts that are read-only on the host stay read-only, unless the options make them writable.
fn flags_are_added_to_the_sources(bed: &Bed) {
    let dir = host_dir(bed, "outer");
    bed.program("mount", &["-t", "tmpfs", "-o", "ro,noexec", "tmpfs", text(&dir)]).run().ok();
    let flags = |options: &[&str]| {
        let script = "grep ' /mnt ' /proc/self/mountinfo";
        let c = bed.bundle().mount("bind", text(&dir), "/mnt", options).sh(script).make();
        let line = c.run().ok().stdout;
        line.split(' ').nth(5).expect("options").to_owned()
    };
    let words = [&["bind"][..], &["bind", "nosuid"], &["bind", "rw", "exec", "nosuid"]];
    let seen = words.map(flags);
    bed.program("umount", &[text(&dir)]).run().ok();
    assert_eq!(seen, ["ro,noexec,relatime", "ro,nosuid,noexec,relatime", "rw,nosuid,relatime"]);
}

/// An option that removes a mode of access times leaves that of the source.
fn access_times_stay_the_sources(bed: &Bed) {
    let dir = host_dir(bed, "outer");
    bed.program("mount", &["-t", "tmpfs", "-o", "noatime", "tmpfs", text(&dir)]).run().ok();
    let words = [&["atime"][..], &["nostrictatime"], &["noatime", "atime"]];
    let outcomes = words.map(|words| {
        let options = [&["bind"], words].concat();
        let script = "grep ' /mnt ' /proc/self/mountinfo";
        bed.bundle().mount("bind", text(&dir), "/mnt", &options).sh(script).make().run()
    });
    bed.program("umount", &[text(&dir)]).run().ok();
    for (words, outcome) in words.iter().zip(outcomes) {
        let outcome = outcome.ok();
        assert!(outcome.stdout.contains("noatime"), "{words:?}: {outcome}");
    }
}

/// RLIMIT_NOFILE applies to the container's process, not to the descriptors that are open while the container is made.
fn more_mounts_than_descriptors(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    for (soft, hard) in [(20, 20), (20, 1024)] {
        for namespaces in [Bed::bundle, crate::userns::mapped] {
            let limit = json!([{ "type": "RLIMIT_NOFILE", "soft": soft, "hard": hard }]);
            let mut bundle = namespaces(bed).set("/process/rlimits", limit);
            for number in 0..30 {
                bundle = bundle.mount("bind", text(&dir), &format!("/mnt/{number}"), &["bind"]);
            }
            let c = bundle
                .mount("tmpfs", "tmpfs", "/scratch", &["mode=1777"])
                .sh("ulimit -Sn; ulimit -Hn; cat /mnt/*/inside | wc -l")
                .make();
            assert_eq!(c.run().ok().stdout, format!("{soft}\n{hard}\n30\n"));
        }
    }
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

fn remount_bind_keeps_locked_flags(bed: &Bed) {
    // A source mounted noexec stays noexec if the bind only requests ro.
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

fn bind_a_device_node(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("bind", "/dev/null", "/dev/also-null", &["bind"])
        .sh("stat -c '%F %t:%T' /dev/also-null")
        .make();
    assert_eq!(c.run().ok().stdout, "character special file 1:3\n");
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

/// Engines pass the same options to mounts of all types. Like crun, dayfly ignores options that
/// belong to another file system.
fn options_of_filesystems_are_passed_over(bed: &Bed) {
    let source = bed.dir.join("source");
    fs::create_dir_all(&source).expect("make");
    let options = json!(["bind", "nosuid", "mode=755", "nosiud", "ro", "sync", "tmpcopyup"]);
    let mount = json!({ "destination": "/mnt", "source": source, "options": options });
    let script = "grep ' /mnt ' /proc/self/mountinfo";
    let outcome = bed.bundle().push("/mounts", mount).sh(script).make().run().ok();
    assert!(outcome.stdout.contains("ro,nosuid"), "{outcome}");
    let warning = "mount /mnt: a bind mount ignores the options \"mode=755,nosiud,sync,tmpcopyup\"";
    let log = outcome.log().replace("\\\"", "\"");
    assert!(log.contains(warning), "{log}");
}

/// crun #1307, aws-sam-cli #8464: Docker looks for the text of ENOTDIR to explain the mistake.
fn a_directory_over_a_file(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let file = dir.join("inside");
    for (kind, source, destination) in [
        ("bind", &dir, "/file"),
        ("bind", &file, "/mnt"),
        ("tmpfs", &dir, "/file"),
        ("bind", &file, "/file/x"),
    ] {
        let bundle = bed.bundle();
        fs::create_dir_all(bundle.rootfs().join("mnt")).expect("make");
        fs::write(bundle.rootfs().join("file"), "").expect("write");
        let options: &[&str] = if kind == "bind" { &["bind"] } else { &[] };
        let c = bundle.mount(kind, text(source), destination, options).make();
        c.run().fails("not a directory");
        assert!(!c.exists());
    }
}

/// A destination that begins with the path of the root filesystem on the host is a path in it, as in runc.
fn the_roots_path_on_the_host(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let bundle = bed.bundle();
    let destination = bundle.rootfs().join("deep/place");
    let c = bundle
        .mount("bind", text(&dir), text(&destination), &["bind"])
        .sh("cat /deep/place/inside")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn has_fuse() -> bool {
    fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok()
}

/// FUSE without the option allow_other denies init of a user namespace even fstat(2). Nobody answers for this file
/// system, so the mount must not ask it either.
fn of_a_file_system_that_denies_access(bed: &Bed) {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("fuse");
    let dir = bed.dir.join("fuse");
    fs::create_dir(&dir).expect("make");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).expect("options");
    rustix::mount::mount("fuse", &dir, "fuse", MountFlags::empty(), options.as_c_str())
        .expect("mount");
    let c = mapped(bed)
        .mount("bind", text(&dir), "/mnt", &["bind"])
        .sh("grep -c ' /mnt .*fuse' /proc/self/mountinfo")
        .make();
    let outcome = c.run();
    rustix::mount::unmount(&dir, UnmountFlags::DETACH).expect("unmount");
    assert_eq!(outcome.ok().stdout, "1\n");
}
