//! Tests on the running kernel, if cgroup v1 has the memory controller and cgroup v2 does not.

use std::io::Write;
use std::process::{Command, Stdio};

use cgroup::{Cgroup, Hierarchies};
use rustix::event::Timespec;

use super::*;

const LIMITED: &str = r#"{"memory": {"limit": 8388608, "swap": 8388608}}"#;

/// Returns the hierarchies if the host is hybrid and the tests run as root; otherwise `None`.
fn hierarchies() -> Option<Hierarchies> {
    let all = Hierarchies::detect().ok()?;
    (rustix::process::geteuid().is_root() && !all.is_unified()).then_some(all)
}

fn location(hierarchies: &Hierarchies, name: &str) -> Location {
    let path = format!("/dayfly-oom-{}-{name}", std::process::id());
    Location::resolve(hierarchies, Some(&path), "x").unwrap()
}

/// Runs a program that uses more memory than its limit, and waits for its exit.
fn starve(cgroup: &Cgroup) {
    let mut child = Command::new("sh")
        .args(["-c", "read go; exec tail /dev/zero"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    cgroup.add(child.id().cast_signed()).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_kill_is_told_once_whoever_asks_first() {
    let Some(hierarchies) = hierarchies() else { return eprintln!("skipped: wants v1 and root") };
    let location = location(&hierarchies, "kill");
    let cgroup = Cgroup::create(&location, &serde_json::from_str(LIMITED).unwrap(), None).unwrap();
    let poller = Poller::new().unwrap();
    let mut watch = Watch::begin(&location).unwrap().unwrap();
    watch.register(&poller, 9).unwrap();
    assert_eq!(watch.check(), Ok(0));
    // Here the exit is handled before the notification of the kill.
    starve(&cgroup);
    assert_eq!(watch.check(), Ok(1));
    assert_eq!(watch.check(), Ok(0));
    // Here the notification of the kill is handled first.
    starve(&cgroup);
    assert_eq!(poller.wait(None).unwrap(), [(Source::Oom(9), Interest::IN)]);
    assert_eq!(watch.ready(&poller), Ok(1));
    assert_eq!(watch.check(), Ok(0));
    // The removal of the cgroup wakes the loop exactly once.
    drop(cgroup);
    assert_eq!(poller.wait(None).unwrap().len(), 1);
    assert_eq!(watch.ready(&poller), Ok(0));
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert!(poller.wait(Some(&now)).unwrap().is_empty());
    assert_eq!(watch.check(), Ok(0));
    watch.end(&poller);
}

#[test]
fn without_a_memory_controller_there_is_no_watch() {
    let unified = hierarchies().and_then(|all| all.unified);
    let Some(root) = unified else { return eprintln!("skipped: wants a hybrid host and root") };
    let hierarchies = Hierarchies { root: root.clone(), unified: Some(root), legacy: vec![] };
    let location = location(&hierarchies, "none");
    assert!(matches!(Watch::begin(&location), Err(Error::Gone { .. })));
    let cgroup = Cgroup::create(&location, &Default::default(), None).unwrap();
    assert!(Watch::begin(&location).unwrap().is_none());
    drop(cgroup);
}
