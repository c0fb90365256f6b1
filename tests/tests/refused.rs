//! What dayfly does not honour yet is refused by name, before anything is made.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::{Value, json};

pub const CASES: &[Case] = &[case!(idmapped_mounts), case!(linux_properties)];

/// A container with one property more is refused, the message names it, and nothing is left.
fn is_refused(bed: &Bed, pointer: &str, value: Value, name: &str) {
    let c = bed.bundle().set(pointer, value).make();
    let outcome = c.create().fails("not supported");
    assert!(outcome.stderr.contains(name), "{name} is not named: {outcome}");
    assert!(!c.exists());
}

fn idmapped_mounts(bed: &Bed) {
    let map = json!([{ "containerID": 0, "hostID": 100_000, "size": 65_536 }]);
    let mount = json!({
        "destination": "/mnt", "type": "bind", "source": "/tmp", "options": ["rbind"],
        "uidMappings": map, "gidMappings": map,
    });
    let outcome = bed.bundle().push("/mounts", mount).make().create().fails("not supported");
    assert!(outcome.stderr.contains("uidMappings"), "{outcome}");
}

fn linux_properties(bed: &Bed) {
    is_refused(bed, "/linux/intelRdt", json!({ "closID": "x" }), "intelRdt");
}
