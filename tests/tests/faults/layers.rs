//! Root filesystems from layers.

use super::ground::note;
use super::{KINDS, fault_points, faulty, walk_through, walked};
use crate::rootfs::{call, id_call, modes};
use dayfly_tests::bed::Bed;
use dayfly_tests::layers::Layers;
use dayfly_tests::runner::Case;
use dayfly_tests::{case, wait};

dayfly_tests::subject!(Runtime, CASES);

pub const CASES: &[Case] = &[case!(layers).needs(fault_points)];

/// Walks through every step in the lists of the parent and of init, and through the command's steps outside these
/// lists. The modes `path` and `parent` are left out, because they have the same steps as other modes.
fn layers(bed: &Bed) {
    let layers = Layers::new(bed, 3);
    let others = |mode: &&str| !["path", "parent"].contains(mode);
    for mode in modes(&layers, true).into_iter().filter(others) {
        let c = bed.bundle().args(&["/bin/true"]).make();
        let flags = ["--userns", "auto", "--rootfs-mode", mode];
        for place in ["command", "parent", "init"] {
            let mut named = Vec::new();
            for kind in KINDS {
                let steps = walk_through(place, kind, |step, fault| {
                    let run = faulty(call(&c, "run", &layers, &flags), place, step, kind);
                    let outcome = run.run();
                    if outcome.code() != 0 && (kind == "kill" || place == "command") {
                        id_call(&c, "delete", &["--force"], &layers).run().ok();
                    }
                    c.assert_gone(fault);
                    let left = || layers.left();
                    wait::until_true(&format!("{mode}: left by {fault}: {:?}", left()), || {
                        left().is_empty()
                    });
                    if place != "command" {
                        note(&mut named, place, step, kind, &outcome);
                    }
                    outcome
                });
                assert!(steps > 6, "{mode}, {place}: {steps}");
            }
        }
    }
    walked();
}
