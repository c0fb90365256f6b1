//! What dayfly does not honour yet is refused by name, before anything is made.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

pub const CASES: &[Case] = &[case!(systemd_paths)];

/// A container with one property more is refused, the message names it, and nothing is left.
fn is_refused(bed: &Bed, pointer: &str, value: Value, name: &str) {
    let c = bed.bundle().set(pointer, value).make();
    let outcome = c.create().fails("not supported");
    assert!(outcome.stderr.contains(name), "{name} is not named: {outcome}");
    assert!(!c.exists());
}

fn systemd_paths(bed: &Bed) {
    is_refused(bed, "/linux/cgroupsPath", json!("system.slice:dayfly:x"), "systemd");
}
