//! Settings that dayfly does not support are refused by name, before anything is made.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[case!(other_systems)];

fn other_systems(bed: &Bed) {
    for name in ["vm", "solaris", "windows", "zos", "freebsd"] {
        let c = bed.bundle().set(&format!("/{name}"), json!({})).make();
        let outcome = c.create().fails("not supported");
        assert!(outcome.stderr.contains(name), "{name} is not named: {outcome}");
        assert!(!c.exists());
    }
}
