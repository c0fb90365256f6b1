//! Intel RDT, as far as it can be tested on a machine without it; unit tests cover the rest.

use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(refused_where_it_is_not_mounted).needs(no_resctrl),
    case!(update_says_what_is_missing).needs(no_resctrl),
    case!(class_names),
    case!(schemata_are_lines).unlike_runc(),
    case!(no_step_without_it).unlike_runc(),
];

fn no_resctrl() -> Result<(), String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    match mounts.contains(" resctrl ") {
        true => Err("resctrl is mounted here".to_owned()),
        false => Ok(()),
    }
}

fn refused_where_it_is_not_mounted(bed: &Bed) {
    for rdt in [
        json!({}),
        json!({ "closID": "gold" }),
        json!({ "enableMonitoring": true }),
        json!({ "l3CacheSchema": "L3:0=f" }),
    ] {
        let c = bed.bundle().set("/linux/intelRdt", rdt).make();
        c.create().fails("intelRdt is specified in config, but Intel RDT is not enabled");
        assert!(!c.exists());
    }
}

fn class_names(bed: &Bed) {
    for clos in ["..", "a/b", "../../tmp"] {
        let c = bed.bundle().set("/linux/intelRdt", json!({ "closID": clos })).make();
        assert_eq!(c.create().code(), 1, "{clos}");
        assert!(!c.exists());
    }
}

fn schemata_are_lines(bed: &Bed) {
    let rdt = json!({ "schemata": ["L3:0=f\nMB:0=10"] });
    bed.bundle().set("/linux/intelRdt", rdt).make().create().fails("invalid intelRdt.schemata");
}

fn no_step_without_it(bed: &Bed) {
    let c = bed.bundle().make();
    let plan = bed.call(&["plan", c.bundle.to_str().expect("path")]).run().ok();
    assert!(!plan.stdout.contains("resctrl"), "{plan}");
}

fn update_says_what_is_missing(bed: &Bed) {
    let c = bed.bundle().make().detached();
    for (option, text) in [
        ("--l3-cache-schema=L3:0=f", "Intel RDT/CAT: l3 cache schema is not enabled"),
        ("--mem-bw-schema=MB:0=10", "Intel RDT/MBA: memory bandwidth schema is not enabled"),
    ] {
        c.id_call("update", &[option], &[]).run().fails(text);
    }
}
