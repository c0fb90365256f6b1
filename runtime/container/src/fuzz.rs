//! Entry points for the fuzz targets (`fuzz/`), in builds with the feature `fuzz`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::record::{self, Found, Record};

/// Parses `bytes` as the record of a container, once with the id in the record and once with
/// another id.
///
/// # Panics
/// If the record is accepted for another id, or if an accepted record is not accepted again after it was encoded once
/// more.
pub fn record(bytes: &[u8]) {
    assert!(!matches!(record::parse(bytes, "another-one"), Found::Whole(_)));
    let Some(stored) = record::decode_any(bytes) else { return };
    let id = stored.record.id;
    let found = record::parse(bytes, &id);
    if let Found::Whole(stored) = &found {
        assert_eq!(stored.record.id, id);
        let again = record::parse(&record::encode(&stored.record, stored.header.process), &id);
        assert!(matches!(again, Found::Whole(_)), "written again");
    }
}

/// Returns the record of an ordinary container.
pub fn sample(cgroup: cgroup::Location) -> Vec<u8> {
    let record = Record {
        id: String::from("sample"),
        bundle: String::from("/bundle"),
        rootfs: String::from("/bundle/rootfs"),
        created: 1_795_246_459_000_000_000,
        owner: 0,
        annotations: alloc::vec![(String::from("key"), String::from("value"))],
        cgroup: Some(cgroup),
        resctrl: None,
        namespaces: 0,
        own_namespaces: 0,
        process: String::from(r#"{"args":["true"],"cwd":"/"}"#),
        execution: plan::Execution::default(),
        poststart: String::new(),
        poststop: String::new(),
        keyring: true,
        confined: false,
        state_head: String::from("{"),
        layered: None,
        agent: None,
    };
    record::encode(&record, None)
}
