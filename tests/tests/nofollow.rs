//! Bind mounts of and on symbolic links (`src-nofollow`, `dest-nofollow`, `copy-symlink`: options of crun, for Podman's
//! `no-dereference`).

use crate::binds::{host_dir, text};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(link_is_made_again).unlike_runc(),
    case!(link_that_is_there_already).unlike_runc(),
    case!(what_is_no_link_is_bound).unlike_runc(),
    case!(link_is_mounted_on).unlike_runc(),
    case!(link_is_bound_itself).unlike_runc(),
    case!(links_of_proc_are_left_alone).unlike_runc(),
    case!(words_that_exclude_each_other).unlike_runc(),
];

/// Makes a file on the host and a link to it.
fn file_and_link(bed: &Bed) -> (PathBuf, PathBuf) {
    let file = host_dir(bed, "shared").join("inside");
    let link = bed.dir.join("link");
    symlink(&file, &link).expect("link");
    (file, link)
}

fn with_dangling(bundle: Bundle<'_>) -> Bundle<'_> {
    symlink("point-to-nowhere", bundle.rootfs().join("target")).expect("link");
    bundle
}

fn link_is_made_again(bed: &Bed) {
    let (_, link) = file_and_link(bed);
    fs::remove_file(&link).expect("remove");
    symlink("../some/where else", &link).expect("link");
    for destination in ["/copy", "/made/for/it"] {
        let c = bed
            .bundle()
            .mount("bind", text(&link), destination, &["bind", "copy-symlink", "ro"])
            .sh(&format!("readlink {destination}; grep -c ' {destination} ' /proc/self/mounts"))
            .make();
        assert_eq!(c.run().exits(1).stdout, "../some/where else\n0\n");
        // The mount point is now the link that the first run made.
        assert_eq!(c.run().exits(1).stdout, "../some/where else\n0\n");
    }
}

fn link_that_is_there_already(bed: &Bed) {
    let (_, link) = file_and_link(bed);
    let c = with_dangling(bed.bundle())
        .mount("bind", text(&link), "/target", &["bind", "copy-symlink"])
        .args(&["/bin/true"])
        .make();
    let _ = c.run().exits(1);
    let there = fs::read_link(c.bundle.join("rootfs/target")).expect("link");
    assert_eq!(text(&there), "point-to-nowhere");
}

fn what_is_no_link_is_bound(bed: &Bed) {
    let (file, _) = file_and_link(bed);
    let c = bed
        .bundle()
        .mount("bind", text(&file), "/target", &["bind", "copy-symlink"])
        .args(&["/bin/cat", "/target"])
        .make();
    assert_eq!(c.run().ok().stdout, "shared\n");
}

fn link_is_mounted_on(bed: &Bed) {
    let (file, link) = file_and_link(bed);
    for source in [file, link] {
        for bundle in [bed.bundle(), mapped(bed)] {
            let c = with_dangling(bundle)
                .mount("bind", text(&source), "/target", &["bind", "dest-nofollow"])
                .args(&["/bin/cat", "/target"])
                .make();
            assert_eq!(c.run().ok().stdout, "shared\n");
            assert!(!c.bundle.join("rootfs/point-to-nowhere").exists());
        }
    }
}

fn link_is_bound_itself(bed: &Bed) {
    let (file, link) = file_and_link(bed);
    for bundle in [bed.bundle(), mapped(bed)] {
        let c = with_dangling(bundle)
            .mount("bind", text(&link), "/target", &["bind", "dest-nofollow", "src-nofollow"])
            .args(&["/bin/readlink", "/target"])
            .make();
        assert_eq!(c.run().ok().stdout, format!("{}\n", text(&file)));
    }
}

fn links_of_proc_are_left_alone(bed: &Bed) {
    let (_, link) = file_and_link(bed);
    let options = ["bind", "dest-nofollow", "src-nofollow"];
    let c = bed.bundle().mount("bind", text(&link), "/proc/self", &options).make();
    let _ = c.run().exits(1);
    let bundle = bed.bundle();
    symlink("proc", bundle.rootfs().join("way")).expect("link");
    let c = bundle.mount("bind", text(&link), "/way/self", &options).make();
    let _ = c.run().exits(1);
}

fn words_that_exclude_each_other(bed: &Bed) {
    let (_, link) = file_and_link(bed);
    for word in ["src-nofollow", "dest-nofollow"] {
        let options = ["bind", "copy-symlink", word];
        let c = bed.bundle().mount("bind", text(&link), "/target", &options).make();
        let outcome = c.run().exits(1);
        assert!(outcome.stderr.contains("mutually exclusive"), "{outcome}");
    }
}
