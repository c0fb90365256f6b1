//! Masked and read-only paths.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(masked_file_is_null),
    case!(masked_directory_is_empty_and_read_only),
    case!(missing_paths_are_skipped),
    case!(each_path_once).unlike_runc(),
    case!(masks_cover_what_is_mounted_below),
    case!(what_covers_a_mask_does_not_cover_the_host),
    case!(readonly_path),
    case!(readonly_path_is_recursive),
    case!(readonly_root),
    case!(defaults_of_engines),
    case!(masks_hold_in_exec),
    case!(masks_can_not_be_unmounted_without_the_right),
    case!(fresh_proc_is_refused_to_root_without_sys_admin),
];

fn masked_file_is_null(bed: &Bed) {
    let bundle = bed.bundle();
    fs::write(bundle.rootfs().join("secret"), "secret\n").expect("write");
    let c = bundle
        .set("/linux/maskedPaths", json!(["/secret"]))
        .sh("cat /secret; stat -c '%F %t:%T' /secret; echo x >/secret; cat /secret")
        .make();
    assert_eq!(c.run().ok().stdout, "character special file 1:3\n");
    assert_eq!(fs::read_to_string(c.bundle.join("rootfs/secret")).expect("file"), "secret\n");
}

fn masked_directory_is_empty_and_read_only(bed: &Bed) {
    let bundle = bed.bundle();
    for name in ["secrets", "more"] {
        fs::create_dir(bundle.rootfs().join(name)).expect("make");
        fs::write(bundle.rootfs().join(name).join("key"), "key\n").expect("write");
    }
    let c = bundle
        .set("/linux/maskedPaths", json!(["/secrets", "/more"]))
        .sh("ls /secrets /more | wc -l; touch /secrets/x; touch /more/x")
        .make();
    let outcome = c.run().exits(1);
    assert_eq!(outcome.stdout, "3\n", "two headings, a blank line and nothing below: {outcome}");
    assert_eq!(outcome.stderr.matches("Read-only file system").count(), 2, "{outcome}");
}

/// A sysfs is mounted after the network is ready, and masks of directories above it are mounted after the sysfs. The
/// mount point of the sysfs may be missing.
fn masks_cover_what_is_mounted_below(bed: &Bed) {
    let c = bed
        .bundle()
        .mount("sysfs", "sysfs", "/deep/sys", &[])
        .set("/linux/maskedPaths", json!(["/deep"]))
        .sh("ls /deep | wc -l")
        .make();
    assert_eq!(c.bundle_call("run", &[]).run().ok().stdout, "0\n");
}

fn missing_paths_are_skipped(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/maskedPaths", json!(["/not/there", "/proc/nothing"]))
        .set("/linux/readonlyPaths", json!(["/not/here", "/proc/neither"]))
        .args(&["/bin/true"])
        .make();
    c.run().ok();
}

/// Engines append to lists that may already contain a path.
fn each_path_once(bed: &Bed) {
    let bundle = bed.bundle();
    fs::write(bundle.rootfs().join("secret"), "secret\n").expect("write");
    fs::create_dir(bundle.rootfs().join("fixed")).expect("make");
    let c = bundle
        .set(
            "/linux/maskedPaths",
            json!(["/secret", "/root", "//secret", "/root/", "/etc/../secret"]),
        )
        .set("/linux/readonlyPaths", json!(["/fixed", "/fixed/.", "/fixed"]))
        .sh("for p in /secret /root /fixed; do grep -c \" $p \" /proc/self/mountinfo; done")
        .make();
    assert_eq!(c.run().ok().stdout, "1\n1\n1\n");
}

fn readonly_path(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir(bundle.rootfs().join("fixed")).expect("make");
    fs::write(bundle.rootfs().join("fixed/file"), "still\n").expect("write");
    let c = bundle
        .set("/linux/readonlyPaths", json!(["/fixed", "/etc/passwd"]))
        .sh("cat /fixed/file; touch /fixed/x; echo x >>/etc/passwd; touch /fine && echo fine")
        .make();
    let outcome = c.run().ok();
    assert_eq!(outcome.stdout, "still\nfine\n");
    assert_eq!(
        outcome.stderr.to_lowercase().matches("read-only file system").count(),
        2,
        "{outcome}"
    );
}

fn readonly_path_is_recursive(bed: &Bed) {
    let bundle = bed.bundle();
    fs::create_dir_all(bundle.rootfs().join("fixed/sub")).expect("make");
    let c = bundle
        .mount("tmpfs", "tmpfs", "/fixed/sub", &[])
        .set("/linux/readonlyPaths", json!(["/fixed"]))
        .sh("touch /fixed/x || echo top; ls -d /fixed/sub")
        .make();
    let outcome = c.run().ok();
    assert_eq!(outcome.stdout, "top\n/fixed/sub\n");
}

fn defaults_of_engines(bed: &Bed) {
    let script = "cat /proc/keys; ls /sys/firmware /proc/acpi | grep -v : | tr -d '\\n'; echo x >/proc/sys/kernel/core_pattern; echo 1 >/proc/sys/kernel/panic";
    let outcome = bed.bundle().sh(script).make().run().exits(1);
    assert_eq!(outcome.stdout, "", "{outcome}");
    assert_eq!(
        outcome.stderr.to_lowercase().matches("read-only file system").count(),
        2,
        "{outcome}"
    );
}

fn masks_hold_in_exec(bed: &Bed) {
    let c = bed.bundle().make().detached();
    assert_eq!(c.exec(&["cat", "/proc/keys"]).ok().stdout, "");
    c.sh("echo 1 >/proc/sys/kernel/panic").exits(1);
}

fn masks_can_not_be_unmounted_without_the_right(bed: &Bed) {
    let outcome =
        bed.bundle().sh("umount /proc/keys; umount -l /proc; cat /proc/keys").make().run().ok();
    assert_eq!(outcome.stdout, "");
}

fn fresh_proc_is_refused_to_root_without_sys_admin(bed: &Bed) {
    bed.bundle()
        .sh("mkdir -p /mnt/p && mount -t proc proc /mnt/p && cat /mnt/p/keys")
        .make()
        .run()
        .exits(1);
}

fn readonly_root(bed: &Bed) {
    let c = bed
        .bundle()
        .set("/linux/readonlyPaths", json!(["/"]))
        .sh("touch /file; touch /dev/shm/file")
        .make();
    let outcome = c.run().ok();
    assert_eq!(outcome.stderr.matches("Read-only file system").count(), 1, "{outcome}");
}

/// On a host whose mounts are shared, a container with CAP_SYS_ADMIN must not cover the host's /dev/null by a mount over a
/// masked file.
fn what_covers_a_mask_does_not_cover_the_host(bed: &Bed) {
    let bundle = bed.bundle();
    fs::write(bundle.rootfs().join("mine"), "mine\n").expect("write");
    let admin = json!(["CAP_SYS_ADMIN"]);
    let c = bundle
        .set("/linux/maskedPaths", json!(["/proc/keys", "/proc/version"]))
        .set("/process/capabilities/bounding", admin.clone())
        .set("/process/capabilities/permitted", admin.clone())
        .set("/process/capabilities/effective", admin)
        .sh("for f in keys version; do mount --bind /mine /proc/$f && cat /proc/$f; done; \
             grep -c '/null .*shared:' /proc/self/mountinfo")
        .make();
    let script =
        "mount --make-rshared / || exit 9; \"$@\"; grep -c ' /dev/null ' /proc/self/mountinfo";
    let (root, bundle) = (bed.root(), c.bundle.clone());
    let text = |path: &std::path::Path| path.to_str().expect("path").to_owned();
    let (root, bundle, runtime) = (text(&root), text(&bundle), text(bed.runtime()));
    let unshare = ["-m", "--propagation", "private", "sh", "-c", script, "sh"];
    let run = [&runtime, "--root", &root, "run", "--bundle", &bundle, &c.id];
    let outcome = bed.program("unshare", &[&unshare[..], &run].concat()).run();
    assert_eq!(outcome.stdout, "mine\nmine\n0\n0\n", "{outcome}");
}
