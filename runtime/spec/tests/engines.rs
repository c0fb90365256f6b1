//! Configurations written by engines are parsed, accepted and serialized again.
use std::time::Instant;

use dayfly_spec::mount_options::MountOptions;
use dayfly_spec::{NamespaceKind, Spec, validate};

/// Returns every file of tests/data with its name.
fn configurations() -> Vec<(String, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let files = std::fs::read_dir(directory).expect("tests/data");
    let mut found: Vec<_> = files
        .map(|file| {
            let path = file.expect("entry").path();
            let text = std::fs::read_to_string(&path).expect("text");
            (path.file_name().expect("name").to_string_lossy().into_owned(), text)
        })
        .collect();
    found.sort();
    found
}

fn read(name: &str) -> String {
    configurations().into_iter().find(|(found, _)| found == name).expect(name).1
}

#[test]
fn all_are_accepted() {
    let configurations = configurations();
    assert!(configurations.len() >= 13);
    for (name, text) in &configurations {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(validate(&spec), Ok(()), "{name}");
    }
}

#[test]
fn all_survive_being_written() {
    for (name, text) in configurations() {
        let spec = Spec::parse(&text).expect(&name);
        let written = spec.to_json().expect(&name);
        let again = Spec::parse(&written).expect(&name);
        assert_eq!(again.to_json().expect(&name), written, "{name}");
        assert_eq!(format!("{again:?}"), format!("{spec:?}"), "{name}");
    }
}

#[test]
fn no_mount_option_is_taken_for_data() {
    for (name, text) in configurations() {
        for mount in Spec::parse(&text).expect(&name).mounts {
            for word in MountOptions::parse(&mount.options).data {
                assert!(word.contains('=') || word == "newinstance", "{name}: {word}");
            }
        }
    }
}

#[test]
fn podman_defaults() {
    let text = read("podman.json");
    let spec = Spec::parse(&text).unwrap();
    let process = spec.process.unwrap();
    assert_eq!(process.args, ["/bin/true"]);
    assert_eq!(process.user.umask, Some(0o22));
    assert_eq!(process.capabilities.unwrap().bounding.len(), 11);
    assert_eq!(process.rlimits[0].kind, "RLIMIT_NOFILE");
    assert!(process.env.iter().all(|variable| variable.is_borrowed()));
    assert_eq!(spec.mounts.len(), 10);
    assert_eq!(spec.annotations["io.container.manager"], "libpod");
    let linux = spec.linux.unwrap();
    assert_eq!(linux.resources.as_ref().unwrap().pids.as_ref().unwrap().limit, Some(2048));
    assert!(linux.seccomp.unwrap().get().starts_with("{\"defaultAction\""));
    assert!(linux.namespace(NamespaceKind::Network).is_some());
    assert!(linux.namespace(NamespaceKind::User).is_none());
}

#[test]
fn podman_user_namespace() {
    let text = read("podman-userns.json");
    let linux = Spec::parse(&text).unwrap().linux.unwrap();
    assert_eq!(linux.uid_mappings[0].host_id, 100_000);
    assert_eq!(linux.uid_mappings[0].size, 65_536);
}

#[test]
fn docker_hooks_and_devices() {
    let text = read("docker-options.json");
    let spec = Spec::parse(&text).unwrap();
    assert_eq!(spec.hooks.prestart[0].args[0], "libnetwork-setkey");
    let linux = spec.linux.unwrap();
    assert_eq!((linux.devices[0].major, linux.devices[0].minor), (10, 229));
    assert_eq!(spec.process.unwrap().args[4], "echo \"hi\"");
}

/// Prints the parse time of the most common configuration; run with `cargo test --release -- --nocapture reading_time`.
#[test]
fn reading_time() {
    let text = read("podman.json");
    let mut nanoseconds: Vec<_> = (0..500)
        .map(|_| {
            let start = Instant::now();
            let spec = Spec::parse(&text).unwrap();
            let parsed = start.elapsed().as_nanos();
            validate(&spec).unwrap();
            (parsed, start.elapsed().as_nanos() - parsed)
        })
        .collect();
    nanoseconds.sort_unstable();
    let (parsed, validated) = nanoseconds[nanoseconds.len() / 2];
    println!("{} bytes: parsed in {parsed} ns, validated in {validated} ns", text.len());
}
