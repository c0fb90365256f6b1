//! What dayfly does not honour yet is refused by name, before anything is made.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

pub const CASES: &[Case] = &[case!(other_systems)];

/// A container with one property more is refused, the message names it, and nothing is left.
fn is_refused(bed: &Bed, pointer: &str, value: Value, name: &str) {
    let c = bed.bundle().set(pointer, value).make();
    let outcome = c.create().fails("not supported");
    assert!(outcome.stderr.contains(name), "{name} is not named: {outcome}");
    assert!(!c.exists());
}

fn other_systems(bed: &Bed) {
    is_refused(bed, "/vm", json!({ "kernel": { "path": "/vmlinuz" } }), "vm");
    is_refused(bed, "/windows", json!({ "layerFolders": ["C:\\layer"] }), "windows");
}
