//! Attacks on the mounts that hide kernel files, by mounts that the container makes.

use super::{Evidence, attacks};
use crate::userns::mapped;
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::runner::Case;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = attacks! {
    fresh_proc_without_masks without "old-tree",
    fresh_sysfs_without_masks without "old-tree",
};

/// Runs a script that mounts a new proc or sysfs. In a user namespace the kernel allows such a mount only if the mount
/// namespace already contains a mount of that file system that nothing covers.
fn fresh(bed: &Bed, script: &str) -> Evidence {
    let kinds: [fn(&Bed) -> Bundle<'_>; 2] = [Bed::bundle, mapped];
    for (number, kind) in kinds.into_iter().enumerate() {
        for flags in [&["--no-pivot"][..], &[]] {
            let c = kind(bed).sh(&format!("{script} && echo MOUNTED")).make();
            let outcome = c.run_with(flags);
            if outcome.stdout.contains("MOUNTED") {
                return Some(format!("{number}, {flags:?}: {outcome}"));
            }
            assert!(outcome.stderr.to_lowercase().contains("permission denied"), "{outcome}");
        }
    }
    None
}

fn fresh_proc_without_masks(bed: &Bed) -> Evidence {
    fresh(bed, "unshare -mUrpf sh -c 'mount -t proc none /proc && head -c 1 /proc/keys'")
}

fn fresh_sysfs_without_masks(bed: &Bed) -> Evidence {
    fresh(bed, "unshare -mUrnf sh -c 'mount -t sysfs none /sys && ls /sys/dev/block'")
}
