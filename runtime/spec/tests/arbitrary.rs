//! The parser does not panic on any text.
use dayfly_spec::{Process, Spec, mount_options::MountOptions, validate, validate_id};
use proptest::prelude::*;

const PODMAN: &str = include_str!("data/podman-options.json");
const RUNC: &str = include_str!("data/runc-spec-rootless.json");

/// Parses a text as every type that has a parser, and calls functions of the results.
fn use_up(text: &[u8]) {
    let _ = Process::parse(text);
    match Spec::parse(text) {
        Ok(spec) => {
            let _ = validate(&spec);
            for mount in &spec.mounts {
                let _ = MountOptions::parse(&mount.options);
            }
            let _ = spec.to_json();
        }
        Err(error) => assert!(error.line >= 1 && !error.to_string().is_empty()),
    }
}

#[test]
fn every_beginning_is_an_error() {
    for end in 0..RUNC.trim_end().len() {
        let error = Spec::parse(&RUNC[..end]).unwrap_err();
        assert!(error.line >= 1, "{end}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        use_up(&bytes);
    }

    #[test]
    fn arbitrary_json_signs(text in r#"[\[\]{},:"\\0-9a-z \n]{0,200}"#) {
        use_up(text.as_bytes());
    }

    #[test]
    fn a_changed_byte(at in 0..PODMAN.len(), byte in any::<u8>()) {
        let mut text = PODMAN.as_bytes().to_vec();
        text[at] = byte;
        use_up(&text);
    }

    #[test]
    fn a_changed_value(
        at in 0..PODMAN.len(),
        value in prop::sample::select(&["null", "-1", "1e99", "[]", "{}", "\"\"", "\"\\u0000\"", "true"][..]),
    ) {
        // Replaces the value after the next colon.
        if let Some(colon) = PODMAN[at..].find(':') {
            let (head, tail) = PODMAN.split_at(at + colon + 1);
            let end = tail.find([',', '}', ']']).unwrap_or(0);
            use_up([head, value, &tail[end..]].concat().as_bytes());
        }
    }

    #[test]
    fn ids(id in ".{0,40}") {
        if validate_id(&id).is_ok() {
            prop_assert!(!id.contains('/') && !id.starts_with('.') && id.is_ascii());
        }
    }
}
