//! Links of the image with missing targets, at mount points and device nodes: the target is created inside the root.
//! The image of a host with systemd-resolved has such a link at /etc/resolv.conf.

use crate::binds::{host_dir, text};
use crate::security::without_mounts;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(file_where_the_directory_is_there),
    case!(file_where_the_directory_is_missing),
    case!(file_beyond_the_root),
    case!(file_behind_two_links),
    case!(file_in_a_tmpfs_of_the_container),
    case!(file_in_a_readonly_root),
    case!(directory_and_tmpfs),
    case!(link_on_the_way),
    case!(working_directory).unlike_runc(),
    case!(device),
    case!(links_of_dev),
    case!(masked_and_readonly_paths),
    case!(circle_is_refused),
    case!(proc_behind_one_is_refused),
];

/// Returns a bundle with these links in its root filesystem.
fn with_links<'a>(bed: &'a Bed, links: &[(&str, &str)]) -> Bundle<'a> {
    let bundle = bed.bundle();
    for (link, target) in links {
        let path = bundle.rootfs().join(link);
        fs::create_dir_all(path.parent().expect("parent")).expect("make");
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir(&path);
        symlink(target, &path).expect("link");
    }
    bundle
}

/// Binds a file over the link at /etc/resolv.conf, and asserts that it can be read there and at the link's target.
#[track_caller]
fn binds_file(bed: &Bed, bundle: Bundle<'_>, made: &str) {
    let dir = host_dir(bed, &format!("shared{}", bundle.dir.file_name().expect("name").display()));
    let c = bundle
        .mount("bind", text(&dir.join("inside")), "/etc/resolv.conf", &["bind", "ro"])
        .sh(&format!("cmp /etc/resolv.conf {made} && cat {made}; stat -c %a {made}"))
        .make();
    let outcome = c.run().ok();
    assert!(outcome.stdout.starts_with("shared"), "{outcome}");
}

fn file_where_the_directory_is_there(bed: &Bed) {
    let made = "run/systemd/resolve/stub-resolv.conf";
    let bundle = with_links(bed, &[("etc/resolv.conf", &format!("../{made}"))]);
    fs::create_dir_all(bundle.rootfs().join("run/systemd/resolve")).expect("make");
    let there = bundle.rootfs().join(made);
    binds_file(bed, bundle, &format!("/{made}"));
    assert!(fs::symlink_metadata(there).expect("made").is_file());
}

fn file_where_the_directory_is_missing(bed: &Bed) {
    let made = "/none/of/it/resolv.conf";
    binds_file(bed, with_links(bed, &[("etc/resolv.conf", made)]), made);
    let relative = with_links(bed, &[("etc/resolv.conf", "../none/of/it/resolv.conf")]);
    let directory = relative.rootfs().join("none");
    binds_file(bed, relative, made);
    let mode = fs::metadata(&directory).expect("made").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

fn file_beyond_the_root(bed: &Bed) {
    let target = "../../../../../../../..".to_owned() + text(&bed.dir) + "/made";
    let bundle = with_links(bed, &[("etc/resolv.conf", &target)]);
    let inside = format!("{}/made", text(&bed.dir));
    binds_file(bed, bundle, &inside);
    assert!(!bed.dir.join("made").exists());
}

fn file_behind_two_links(bed: &Bed) {
    let links =
        [("etc/resolv.conf", "../lib/second"), ("lib/second", "/srv/third"), ("srv", "none/srv")];
    binds_file(bed, with_links(bed, &links), "/none/srv/third");
}

fn file_in_a_tmpfs_of_the_container(bed: &Bed) {
    let made = "/run/systemd/resolve/stub-resolv.conf";
    let bundle = with_links(bed, &[("etc/resolv.conf", made)]);
    let rootfs = bundle.rootfs();
    binds_file(bed, bundle.mount("tmpfs", "tmpfs", "/run", &["mode=755"]), made);
    assert!(!rootfs.join("run/systemd").exists());
}

fn file_in_a_readonly_root(bed: &Bed) {
    let made = "/none/resolv.conf";
    let bundle = with_links(bed, &[("etc/resolv.conf", made)]);
    binds_file(bed, bundle.set("/root/readonly", json!(true)), made);
}

fn directory_and_tmpfs(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let c = with_links(bed, &[("data", "none/data"), ("scratch", "/none/scratch")])
        .mount("bind", text(&dir), "/data", &["bind"])
        .mount("tmpfs", "tmpfs", "/scratch", &["mode=700"])
        .mount("tmpfs", "tmpfs", "/scratch/below", &["mode=755"])
        .sh("cat /none/data/inside; stat -f -c %T /none/scratch; stat -Lc %a /scratch /none")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\ntmpfs\n700\n755\n");
}

/// /var/run is a link to /run, and engines mount below /var/run.
fn link_on_the_way(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let destination = "/var/run/secrets/kubernetes.io/serviceaccount";
    let bundle = with_links(bed, &[("var/run", "/run")]);
    let _ = fs::remove_dir_all(bundle.rootfs().join("run"));
    let c = bundle
        .mount("bind", text(&dir), destination, &["bind", "ro"])
        .mount("bind", text(&dir.join("inside")), "/var/run/file", &["bind", "ro"])
        .sh("cat /run/secrets/kubernetes.io/serviceaccount/inside /run/file")
        .make();
    assert_eq!(c.run().ok().stdout, "shared\nshared\n");
}

fn working_directory(bed: &Bed) {
    let c = with_links(bed, &[("work", "none/of/it")])
        .set("/process/cwd", json!("/work/place"))
        .args(&["/bin/pwd", "-P"])
        .make();
    assert_eq!(c.run().ok().stdout, "/none/of/it/place\n");
}

fn device(bed: &Bed) {
    let links = [("dev/mine", "../none/node"), ("dev/null", "/none/null"), ("dev/zero", "full")];
    let c = without_mounts(with_links(bed, &links), "/dev")
        .push("/linux/devices", json!({
            "path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o600, "uid": 5, "gid": 6
        }))
        .sh("stat -c '%F %t:%T %a %u:%g' /none/node; stat -c '%F %t:%T' /none/null; stat -c %F /dev/mine")
        .make();
    assert_eq!(
        c.run().ok().lines(),
        ["character special file 1:5 600 5:6", "character special file 1:3", "symbolic link"]
    );
}

fn links_of_dev(bed: &Bed) {
    let bundle = without_mounts(with_links(bed, &[("dev", "none/dev")]), "/dev");
    let c = bundle
        .sh("readlink /none/dev/fd; readlink /dev/stdin; test -c /none/dev/null && echo null")
        .make();
    assert_eq!(c.run().ok().lines(), ["/proc/self/fd", "/proc/self/fd/0", "null"]);
}

fn masked_and_readonly_paths(bed: &Bed) {
    let c = with_links(bed, &[("link", "/none/of/it")])
        .set("/linux/maskedPaths", json!(["/link", "/link/below"]))
        .set("/linux/readonlyPaths", json!(["/link", "/link/below"]))
        .sh("test -e /none || echo nothing")
        .make();
    assert_eq!(c.run().ok().stdout, "nothing\n");
}

fn circle_is_refused(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    for (source, destination) in
        [(dir.join("inside"), "/circle"), (dir.clone(), "/circle"), (dir, "/circle/below")]
    {
        let bundle = with_links(bed, &[("circle", "other"), ("other", "circle")]);
        let c = bundle.mount("bind", text(&source), destination, &["bind"]).make();
        c.run().fails("too many levels of symbolic links");
    }
}

fn proc_behind_one_is_refused(bed: &Bed) {
    let c = with_links(bed, &[("proc", "none/proc")]).args(&["/bin/true"]).make();
    c.run().fails("must be mounted on ordinary directory");
}
