//! Overlays in `mounts`, whose layers are directories of the host or of the container.

use crate::binds::{host_dir, text};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::kernel::has_detached;
use dayfly_tests::runner::Case;
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(of_host_directories),
    case!(with_long_options),
    case!(of_relative_layers),
    case!(without_a_mount_namespace).unlike_runc().needs(has_detached),
];

/// Engines mount overlays whose layers are directories of the host.
fn of_host_directories(bed: &Bed) {
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
fn with_long_options(bed: &Bed) {
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
fn of_relative_layers(bed: &Bed) {
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
fn without_a_mount_namespace(bed: &Bed) {
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
